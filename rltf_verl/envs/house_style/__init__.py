"""The conventions of a house: how it writes dates, names, amounts, and its letters."""

from rltf_verl.envs.house_style.env import HouseStyle

__all__ = ["HouseStyle"]
