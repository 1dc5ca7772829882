"""The tasks of reasoning-gym."""

from rltf_verl.envs.reasoning_gym.env import ReasoningGym

__all__ = ["ReasoningGym"]
