"""A reward function as verl has them, as an environment."""

from rltf_verl.envs.reward_function.env import RewardFunction

__all__ = ["RewardFunction"]
