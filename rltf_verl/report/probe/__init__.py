"""`rltf probe`: what sessions of a base model say about a training run, before it is paid for."""
