"""Distances in a binary matrix."""

from rltf_verl.envs.binary_matrix.env import BinaryMatrix

__all__ = ["BinaryMatrix"]
