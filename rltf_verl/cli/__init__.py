"""The command line: `rltf …`."""

from rltf_verl.cli.app import main

__all__ = ["main"]
