"""The recipes' configs, each composed once per test session."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import verl  # noqa: F401  # registers our search path with Hydra
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from rltf_verl.adapters.startup.checks import check_config
from rltf_verl.config import RLTFConfig

RECIPES = Path(__file__).parents[2] / "recipes"


@cache
def composed(name: str, *overrides: str) -> DictConfig:
    """The experiment `rltf/kk_sd`, `rl2f/rlvr` or `ufo`, from its recipe's folder alone."""
    recipe, _, experiment = name.partition("/")
    folder = RECIPES / recipe / "config"
    words = list(overrides)
    if (folder / "paper.yaml").is_file():
        task, _, method = experiment.partition("_")
        experiment, words = "paper", [f"task={task}", f"method={method}", *words]
    with initialize_config_dir(str(folder), version_base=None):
        return compose(experiment or recipe, words)


@cache
def rltf_of(name: str, *overrides: str) -> RLTFConfig:
    """Its `rltf:` block, after the checks at start."""
    return check_config(composed(name, *overrides))
