"""Shortest paths through a maze."""

from rltf_verl.envs.shortest_path.env import ShortestPath

__all__ = ["ShortestPath"]
