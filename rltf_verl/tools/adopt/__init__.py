"""`rltf adopt`: a launch of verl as the same run with text feedback."""
