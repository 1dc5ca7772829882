"""A generated workspace whose house has a rule that no prompt tells."""

from rltf_verl.envs.workspace.env import Workspace

__all__ = ["Workspace"]
