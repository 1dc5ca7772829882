"""Math problems, compared by math-verify."""

from rltf_verl.envs.math.env import Math

__all__ = ["Math"]
