"""Programs, run by tests in a sandbox."""

from rltf_verl.envs.code.env import Code

__all__ = ["Code"]
