"""The methods as a table: `rltf/method=<name>`, each composed as verl composes it and read back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import verl  # noqa: F401  # registers our search path with Hydra
from hydra import compose, initialize_config_module
from omegaconf import DictConfig, open_dict

from rltf_verl.adapters.startup.rules import rltf_of
from rltf_verl.config import RLTFConfig, Scheduled, TeacherConfig
from rltf_verl.config.methods import method_titles
from rltf_verl.objectives import objectives_of


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
        return [_load(name, title) for name, title in method_titles().items()]


def _load(name: str, title: str) -> Preset:
    config = compose("rltf", [f"rltf/method={name}"])
    with open_dict(config):
        config.actor_rollout_ref.model.path = "unset"
    return Preset(name, title, config, rltf_of(config))


def preset_table(presets: Sequence[Preset]) -> list[tuple[str, ...]]:
    """A header and one line per preset; an empty cell is an objective that is off."""
    objectives = [
        f.name
        for f in fields(RLTFConfig)
        if isinstance(getattr(presets[0].rltf, f.name), Scheduled)
    ]
    objectives += sorted({name for preset in presets for name in preset.rltf.objectives})
    header = ("method", "what it is", "turns", "attempt", *objectives)
    return [header, *(_line(preset, objectives) for preset in presets)]


def _line(preset: Preset, objectives: Sequence[str]) -> tuple[str, ...]:
    rltf, own = preset.rltf, {o.name: o for o in objectives_of(preset.rltf) if o.has_effect}
    loss = preset.config.actor_rollout_ref.actor.policy_loss.loss_mode
    cells = [
        _cell(own[name].settings, rltf.teacher if name == "logit_distill" else None)
        if name in own
        else ""
        for name in objectives
    ]
    episode = f"{rltf.episode.horizon}" + (", appended" if rltf.episode.context == "append" else "")
    return (
        preset.name,
        preset.title.rstrip("."),
        episode,
        loss if rltf.attempt.weight else "",
        *cells,
    )


def _cell(objective: Scheduled, teacher: TeacherConfig | None) -> str:
    """The weight, and what differs from the objective's defaults, and its teacher's."""
    own = [f"{name}={value}" for name, value in _differs(objective) if name != "weight"]
    of_teacher = _differs(teacher) if teacher else ()
    taught = [f"teacher.{name}={value}" for name, value in of_teacher]
    return ", ".join([f"{objective.weight}", *own, *taught])


def _differs(block: Scheduled | TeacherConfig) -> Iterator[tuple[str, Any]]:
    values = ((f, getattr(block, f.name)) for f in fields(block))
    return ((f.name, value) for f, value in values if value != f.default)


def markdown(table: Sequence[Sequence[str]]) -> str:
    """The table of `docs/methods.md`: weights only, without the released code's variants."""
    header, *lines = table
    losses = {"rltf_ppo": "", "": "off"}  # the default is not named
    shorter = [
        (*line[:3], losses.get(line[3], line[3]), "; ".join(_weights(header[4:], line[4:])))
        for line in lines
        if not line[0].startswith("release/")
    ]
    titles = (*header[:4], "other objectives")
    return "\n".join(
        "| " + " | ".join(line) + " |" for line in [titles, ["---"] * len(titles), *shorter]
    )


def _weights(objectives: Sequence[str], cells: Sequence[str]) -> Iterator[str]:
    for name, cell in zip(objectives, cells, strict=True):
        if cell:
            weight, *_ = re.split(r", (?=[\w.]+=)", cell)  # a ramp [0, 0.1] has a comma too
            yield f"{name} {weight}"
