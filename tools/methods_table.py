"""The table of methods in docs/methods.md, each composed as verl composes it and read back;
`tools/refresh.py` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import verl  # noqa: F401  # registers our search path with Hydra
from hydra import compose, initialize_config_module
from omegaconf import DictConfig, open_dict

from rltf_verl.adapters.startup.rules import rltf_of
from rltf_verl.config import RLTFConfig
from rltf_verl.config.rules import experimental
from rltf_verl.objectives import Method
from rltf_verl.tools.compose.presets import titles

PAGE = Path(__file__).resolve().parents[1] / "docs" / "methods.md"
START, END = "<!-- methods: python tools/refresh.py -->\n", "\n<!-- end of methods -->"
HEAD = ("method", "what it is", "turns", "attempt", "other objectives")


@dataclass(frozen=True)
class Preset:
    """One method."""

    name: str
    """For `--config-name=rltf rltf/method=<name>`."""
    title: str
    """First line of its YAML."""
    config: DictConfig
    """The whole composed config."""
    rltf: RLTFConfig


def load_presets() -> list[Preset]:
    """All of them, sorted by name."""
    with initialize_config_module("verl.trainer.config", version_base=None):
        return [_load(name, title) for name, title in titles("method").items()]


def _load(name: str, title: str) -> Preset:
    config = compose("rltf", [f"rltf/method={name}"])
    with open_dict(config):
        config.actor_rollout_ref.model.path = "unset"
    return Preset(name, title, config, rltf_of(config))


def with_methods(text: str, presets: Sequence[Preset]) -> str:
    """The page with its table; the variants of the released code are not in it."""
    lines = [HEAD, ("---",) * len(HEAD)]
    lines += [_line(preset) for preset in presets if not preset.name.startswith("release/")]
    before, _, rest = text.partition(START)
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{before}{START}{table}{END}{rest.partition(END)[2]}"


def _line(preset: Preset) -> tuple[str, ...]:
    rltf = preset.rltf
    loss = preset.config.actor_rollout_ref.actor.policy_loss.loss_mode
    attempt = "" if loss == "rltf_ppo" else loss
    others = [o for o in Method(rltf).objectives if o.has_effect and o.name != "attempt"]
    return (
        preset.name,
        preset.title.rstrip(".") + (" *(experimental)*" if experimental(rltf) else ""),
        f"{rltf.episode.horizon}" + (", appended" if rltf.episode.context == "append" else ""),
        attempt if rltf.attempt.weight else "off",
        "; ".join(f"{objective.name} {objective.settings.weight}" for objective in others),
    )
