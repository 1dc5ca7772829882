"""Objectives: what the tokens of an episode add to the loss. One module each; `objectives_of` lists
those of a run, and row maker, targets, loss, checks and metrics iterate over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rltf_verl.config import ConfigError, NamedOptions, RLTFConfig
from rltf_verl.config.reading import build
from rltf_verl.config.rules import late_findings, share_findings, unread, weight_findings
from rltf_verl.findings import Finding
from rltf_verl.objectives.attempt import AttemptObjective
from rltf_verl.objectives.base import VERL_REDUCES, Now, Objective
from rltf_verl.objectives.critique import Critique
from rltf_verl.objectives.distill import Distill
from rltf_verl.objectives.feedback_modeling import FeedbackModeling
from rltf_verl.objectives.own import name_failures, named
from rltf_verl.objectives.sft import Imitate
from rltf_verl.objectives.teacher import LogitDistill
from rltf_verl.registry import load
from rltf_verl.types import CONTEXT, Role

__all__ = [
    "Objective",
    "objective_shares",
    "objective_weights",
    "objectives_of",
    "own_objectives",
    "role_names",
    "token_objectives",
    "warnings_of",
]

BUILT_IN: Mapping[str, tuple[type[Objective[Any]], int]] = {
    "attempt": (AttemptObjective, Role.ATTEMPT),
    "critique": (Critique, Role.CRITIQUE),
    "distill": (Distill, Role.DISTILL),
    "imitate": (Imitate, Role.IMITATE),
    "feedback_modeling": (FeedbackModeling, Role.FEEDBACK),
    "logit_distill": (LogitDistill, CONTEXT),
}
"""Block of the config -> objective, and the role of its tokens; in the order of an episode's rows.
"""


def objectives_of(config: RLTFConfig) -> list[Objective[Any]]:
    """All objectives, enabled or not; a user's come last.

    Raises:
        ConfigError: a user's class that is not an objective, or a setting out of range.
    """
    built_in = [
        kind(name, int(role), getattr(config, name), config)
        for name, (kind, role) in BUILT_IN.items()
    ]
    # Numbered after the built-in roles, in the order of the config: the same in every process.
    own = enumerate(config.objectives.items(), start=len(Role))
    of_users = [_own(name, role, chosen, config) for role, (name, chosen) in own]
    shares = {o.name: o.settings for o in (*of_users, *built_in)}
    for finding in share_findings(shares, config.attempt.weight):
        raise ConfigError(finding)
    return built_in + of_users


def _own(name: str, role: int, chosen: NamedOptions, config: RLTFConfig) -> Objective[Any]:
    key = f"rltf.objectives.{name}"
    kind = load(key, chosen.name)
    if not (isinstance(kind, type) and issubclass(kind, Objective)):
        base = f"{Objective.__module__}.{Objective.__name__}"
        raise ConfigError(f"{key}={chosen.name}: must be a class that extends {base}")
    word = next((word for word in VERL_REDUCES if word in name), None)
    if word is not None:
        raise ConfigError(
            f"{key}: verl would take the {word} of its metrics wherever a name holds {word!r};"
            " choose another name"
        )
    if kind.sampled:
        raise ConfigError(
            f"{key}={chosen.name}: sampled=True is for attempts and critiques; leave it out, and"
            " let the class's `loss` train its tokens"
        )
    where = f"{key}={chosen.name}"
    with named(where, kind):
        settings = build(kind.Settings, f"{name}.", chosen.options)
        for finding in weight_findings(name, settings):
            raise ConfigError(finding)
        own = kind(name, role, settings, config)
    name_failures(own, where)
    return own


def own_objectives(config: RLTFConfig) -> list[Objective[Any]]:
    """A user's objectives that are enabled."""
    return [own for own in objectives_of(config)[len(BUILT_IN) :] if own.enabled]


def warnings_of(config: RLTFConfig, setting: Callable[[str], Any]) -> Iterator[Finding]:
    """Settings that work and may not be meant.

    Args:
        config: the settings.
        setting: as of `Objective.refusals`.
    """
    objectives, num_steps = objectives_of(config), setting("trainer.total_training_steps")
    yield from unread(config)
    if num_steps is not None:
        yield from late_findings(config.schedule.start_step, num_steps)
    for objective in objectives:
        yield from objective.warnings(setting)


def token_objectives(config: RLTFConfig) -> list[Objective[Any]]:
    """Those with tokens of their own, by role."""
    own = [objective for objective in objectives_of(config) if objective.role != CONTEXT]
    return sorted(own, key=lambda objective: objective.role)


def role_names(config: RLTFConfig) -> dict[int, str]:
    """Role -> what the logs call it."""
    own = token_objectives(config)[len(Role) :]
    return {**{int(r): r.name.lower() for r in Role}, **{o.role: o.name for o in own}}


def objective_weights(
    config: RLTFConfig, step: int, num_steps: int, resumed_at: int = 0
) -> dict[str, float]:
    """Name -> coefficient at a step; arguments as `base.Now`."""
    now = Now(step, num_steps, resumed_at)
    return {objective.name: objective.weight(now) for objective in objectives_of(config)}


def objective_shares(
    config: RLTFConfig, step: int, num_steps: int, resumed_at: int = 0
) -> dict[str, float]:
    """Name -> share of the gradient at a step, of those that have one; arguments as `base.Now`."""
    now = Now(step, num_steps, resumed_at)
    shares = {objective.name: objective.share(now) for objective in token_objectives(config)}
    return {name: share for name, share in shares.items() if share is not None}
