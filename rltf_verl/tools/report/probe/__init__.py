"""`rltf probe`: what episodes of a base model say about a run, before it is paid for."""
