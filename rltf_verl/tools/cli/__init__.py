"""The command line: `rltf …`."""
