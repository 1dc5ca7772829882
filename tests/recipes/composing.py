"""The recipes' configs, each composed once per test episode."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from omegaconf import DictConfig

from rltf_verl.adapters.startup.checks import check_config
from rltf_verl.config import RLTFConfig
from tests.support import configs

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
    return configs.composed(experiment or recipe, *words, folder=folder)


@cache
def rltf_of(name: str, *overrides: str) -> RLTFConfig:
    """Its `rltf:` block, after the checks at start."""
    return check_config(composed(name, *overrides))
