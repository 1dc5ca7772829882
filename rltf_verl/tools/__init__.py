"""The commands of `rltf` and what they call. Training imports none of it."""
