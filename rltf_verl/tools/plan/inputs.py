"""What a plan is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rltf_verl.envs.trials import Trials
from rltf_verl.episode.parts import Parts
from rltf_verl.policy import Policy
from rltf_verl.types import Message, Problem


class Teller(Policy, Protocol):
    """A policy that says what it was told to, with the run's own tokenizer."""

    asked: dict[int, tuple[int, ...]]
    """Seed -> the prompt that was answered."""

    def tell(self, answers: Mapping[int, str]) -> None:
        """What it says from now on, by seed; forgets what it was asked."""
        ...

    def text(self, ids: tuple[int, ...]) -> str:
        """What the tokens are, special ones too."""
        ...

    def count(self, text: str) -> int:
        """Tokens of a text."""
        ...


@dataclass(frozen=True)
class Case:
    """A row of the dataset."""

    problem: Problem
    messages: tuple[Message, ...]
    """Its first prompt."""


@dataclass(frozen=True)
class Inputs:
    """A run, seen from the driver. What was refused is missing."""

    setting: Callable[[str], Any]
    """`a.b.c` -> value in the whole config; None where there is none."""
    refusals: Sequence[str]
    """What the run would be refused for, a line each."""
    warnings: Sequence[str]
    """What it would be warned of at its start."""
    parts: Parts | None
    policy: Teller | None
    cases: Sequence[Case]
    """The first rows of the training data."""
    num_train: int
    """Rows of the training files."""
    num_val: int
    resumes: str | None = None
    """The checkpoint that the run will go on from."""
    trials: Trials = field(default_factory=Trials)
    """Counts the time for grades."""
