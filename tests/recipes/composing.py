"""The recipes' configs, each composed once per test episode."""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from rltf_verl.adapters.startup.checks import checked_parts
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
    return checked_parts(composed(name, *overrides)).config


def method_of(name: str, *overrides: str) -> RLTFConfig:
    """The `rltf:` block of one of our methods on a CPU, after the checks at start."""
    return rltf_of_words(f"rltf/method={name}", *overrides)


@cache
def rltf_of_words(*overrides: str) -> RLTFConfig:
    """As `method_of`, of any overrides."""
    model = ("rltf/hardware=cpu", "actor_rollout_ref.model.path=/nowhere")
    return checked_parts(configs.composed("rltf", *overrides, *model)).config


@cache
def program(path: str) -> Any:
    """The module of a recipe's program, by its path in `recipes`."""
    spec: Any = importlib.util.spec_from_file_location(Path(path).stem, RECIPES / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
