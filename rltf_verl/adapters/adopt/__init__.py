"""`rltf adopt`: from a launch script of verl to the same run with text feedback."""
