"""`rltf doctor`: checks of an installation."""
