"""Knights and knaves."""

from rltf_verl.envs.knights_knaves.env import KnightsKnaves

__all__ = ["KnightsKnaves"]
