"""What `tests/support/configs.py` keeps of Hydra's work changes nothing of what is composed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hydra import initialize_config_dir, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig

from rltf_verl.tools.compose.presets import method_titles
from tests.support import configs

RECIPES = Path(__file__).parents[3] / "recipes"
QUICK, METHODS = {"a judge"}, method_titles()
OTHERS = {
    **{name: ("rltf", [f"rltf/method={name}", "rltf/hardware=cpu"], None) for name in METHODS},
    "another environment and hardware": ("rltf", ["rltf/env=math", "rltf/hardware=gpu"], None),
    "a judge": ("rltf", ["rltf/feedback=judge", "rltf.gamma=0.5", "+data.x=[1,{a: b}]"], None),
    "verl's own": ("ppo_trainer", ["model_engine=megatron"], None),
    "a recipe's": ("paper", ["task=kk", "method=sd"], RECIPES / "rltf" / "config"),
}


def some_nightly(names: Iterable[str]) -> list[Any]:
    return [n if n in QUICK else pytest.param(n, marks=pytest.mark.nightly) for n in names]


def composed(name: str, words: list[str], folder: Path | None = None) -> DictConfig:
    """The whole, with Hydra's own settings."""
    start = (
        initialize_config_module("verl.trainer.config", version_base=None)
        if folder is None
        else initialize_config_dir(str(folder), version_base=None)
    )
    with start:
        loader = GlobalHydra.instance().config_loader()
        return loader.load_configuration(name, words, RunMode.RUN)


def all_of(node: Any) -> Any:
    """A config with its types and flags, as far as OmegaConf knows them."""
    metadata = {
        key: value for key, value in vars(node._metadata).items() if key != "resolver_cache"
    }
    value = node._value()
    if isinstance(node, DictConfig) and isinstance(value, dict):
        value = [(key, all_of(inner)) for key, inner in value.items()]
    elif isinstance(node, ListConfig) and isinstance(value, list):
        value = [all_of(inner) for inner in value]
    return type(node), metadata, value


def of_hydra_alone(name: str, words: list[str], folder: Path | None = None) -> DictConfig:
    with pytest.MonkeyPatch.context() as patch:
        for owner, function, own in configs.REPLACED:
            patch.setattr(owner, function, own)
        return composed(name, words, folder)


def test_hydra_itself_is_what_is_compared_with() -> None:
    assert {function for _, function, _ in configs.REPLACED} >= {
        "load_config",
        "_compose_config_from_defaults_list",
        "parse_rule",
    }
    for owner, function, own in configs.REPLACED:
        assert own is not getattr(owner, function)
        assert own.__module__.startswith("hydra.")


@pytest.mark.parametrize("case", some_nightly(OTHERS))
def test_a_config_is_what_hydra_makes_of_it(case: str) -> None:
    own = all_of(of_hydra_alone(*OTHERS[case]))
    assert all_of(composed(*OTHERS[case])) == own
    assert all_of(composed(*OTHERS[case])) == own, "from what was kept"


def test_what_is_composed_is_ones_own() -> None:
    first = composed("rltf", ["rltf.gamma=0.5"])
    first.rltf.gamma = 0.25
    first.hydra.job.name = "mine"
    again = composed("rltf", ["rltf.gamma=0.5"])
    assert again.rltf.gamma == 0.5
    assert again.hydra.job.name != "mine"


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("a: 1\n")
    assert composed("mine", [], tmp_path).a == 1
    (tmp_path / "mine.yaml").write_text("a: changed\n")
    assert composed("mine", [], tmp_path).a == "changed"
