"""Texts that a judge scores."""

from rltf_verl.envs.writing.env import Writing

__all__ = ["Writing"]
