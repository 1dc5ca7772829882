"""The command line: `rltf …`."""

from rltf_verl.tools.cli.app import main

__all__ = ["main"]
