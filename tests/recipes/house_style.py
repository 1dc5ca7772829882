"""The environment of recipes/pretrained, loaded as a run loads it."""

import importlib
from pathlib import Path
from typing import Any

from rltf_verl.envs import make_env

NAME = f"{Path(__file__).parents[2] / 'recipes/pretrained/house_style.py'}:HouseStyle"
"""What `rltf.env.name` is."""


def make_house(*, name: str = NAME, **options: Any) -> Any:
    """The environment."""
    return make_env(name, **options)


make_house()  # from here on the files beside it can be imported
conventions: Any = importlib.import_module("house_conventions")
critiques: Any = importlib.import_module("house_critiques")
letters: Any = importlib.import_module("house_letters")
house_style: Any = importlib.import_module("house_style")
