"""The objectives of a run, built and checked once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rltf_verl.config import ConfigError, NamedOptions, RLTFConfig
from rltf_verl.config.reading import build
from rltf_verl.config.rules import late_findings, unread
from rltf_verl.findings import Finding
from rltf_verl.objectives.attempt import AttemptObjective
from rltf_verl.objectives.base import VERL_REDUCES, Now, Objective
from rltf_verl.objectives.critique import Critique
from rltf_verl.objectives.distill import Distill
from rltf_verl.objectives.feedback_modeling import FeedbackModeling
from rltf_verl.objectives.imitate import Imitate
from rltf_verl.objectives.teacher import LogitDistill
from rltf_verl.objectives.user_code import name_failures, naming_errors
from rltf_verl.registry import load
from rltf_verl.types import CONTEXT, Role

BUILT_IN: Mapping[str, tuple[type[Objective[Any]], int]] = {
    "attempt": (AttemptObjective, Role.ATTEMPT),
    "critique": (Critique, Role.CRITIQUE),
    "distill": (Distill, Role.DISTILL),
    "imitate": (Imitate, Role.IMITATE),
    "feedback_modeling": (FeedbackModeling, Role.FEEDBACK_MODELING),
    "logit_distill": (LogitDistill, CONTEXT),
}
"""Block of the config -> objective, and the role of its tokens; in the order of an episode's rows.
"""


class Method:
    """All objectives of a config, enabled or not. Each process of a run makes one and hands it on.

    Args:
        config: the `rltf:` block.

    Raises:
        ConfigError: a user's class that is not an objective, or a setting out of range.
    """

    def __init__(self, config: RLTFConfig) -> None:
        self.config = config
        built_in = [
            kind(name, int(role), getattr(config, name), config)
            for name, (kind, role) in BUILT_IN.items()
        ]
        # Numbered after the built-in roles, in the order of the config: the same in every process.
        named = enumerate(config.objectives.items(), start=len(Role))
        of_user = [_of_user(name, role, chosen, config) for role, (name, chosen) in named]
        self.objectives = built_in + of_user
        """A user's come last."""
        with_tokens = [own for own in self.objectives if own.role != CONTEXT]
        # `compute_targets` has a table for each of them, at role + 1.
        self.token_owners = sorted(with_tokens, key=lambda own: own.role)
        """The objectives with tokens of their own, by role."""

    def __reduce__(self) -> tuple[type[Method], tuple[RLTFConfig]]:
        """Travels as its config, and the process that receives it builds its own objectives: those
        of a user hold closures, which cannot be pickled.
        """
        return Method, (self.config,)

    @property
    def user_objectives(self) -> list[Objective[Any]]:
        """A user's objectives that are enabled."""
        return [own for own in self.objectives[len(BUILT_IN) :] if own.enabled]

    @property
    def role_names(self) -> dict[int, str]:
        """Role -> what the logs call it."""
        return {own.role: own.name for own in self.token_owners}

    def weights(self, now: Now) -> dict[str, float]:
        """Name -> coefficient at a step."""
        return {own.name: own.weight(now) for own in self.objectives}

    def warnings(self, setting: Callable[[str], Any]) -> Iterator[Finding]:
        """Settings that work and may not be meant; `setting` as of `Objective.refusals`."""
        yield from unread(self.config)
        num_steps = setting("trainer.total_training_steps")
        if num_steps is not None:
            yield from late_findings(self.config.schedule.start_step, num_steps)
        for own in self.objectives:
            yield from own.warnings(setting)


def _of_user(name: str, role: int, chosen: NamedOptions, config: RLTFConfig) -> Objective[Any]:
    key = f"rltf.objectives.{name}"
    kind, where = load(key, chosen.name), f"{key}={chosen.name}"
    for why, fix in _misfits(name, kind):
        raise ConfigError(Finding(key, chosen.name, why, fix))
    with naming_errors(where, kind):
        settings = build(kind.Settings, f"{name}.", chosen.options)
        own: Objective[Any] = kind(name, role, settings, config)
    name_failures(own, where)
    return own


def _misfits(name: str, kind: object) -> Iterator[tuple[str, str]]:
    """Why and fix, where what a user named cannot be an objective of that name."""
    if not (isinstance(kind, type) and issubclass(kind, Objective)):
        yield f"must be a class that extends {Objective.__module__}.{Objective.__name__}", ""
    elif kind.sampled:
        why = "sampled=True is for attempts and critiques"
        yield why, "leave it out, and let the class's `loss` train its tokens"
    for word in (word for word in VERL_REDUCES if word in name):
        why = f"verl would take the {word} of its metrics wherever a name holds {word!r}"
        yield why, "choose another name"
