"""The inputs of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rltf_verl.envs.dry_run import DryRun
from rltf_verl.episode.parts import Parts
from rltf_verl.findings import Finding, value_at
from rltf_verl.policy import Policy
from rltf_verl.types import Message, Problem


class Teller(Policy, Protocol):
    """A policy with given answers and the run's tokenizer."""

    asked: dict[int, tuple[int, ...]]
    """Seed -> the prompt that was answered."""

    def tell(self, answers: Mapping[int, str]) -> None:
        """Set its answers by seed; forget the prompts so far."""
        ...

    def text(self, ids: tuple[int, ...]) -> str:
        """The text of tokens, special ones too."""
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
    """A run before its start. Refused components are missing."""

    config: Any
    """The whole config."""
    refusals: Sequence[Finding]
    warnings: Sequence[Finding]
    parts: Parts | None
    policy: Teller | None
    cases: Sequence[Case]
    """The first rows of the training data."""
    num_train: int
    """Rows of the training files."""
    num_val: int
    resumes: str | None = None
    """The checkpoint that the run will resume."""
    dry_run: DryRun = field(default_factory=DryRun)
    """Counts the time for grades."""

    def setting(self, key: str) -> Any:
        """The value of a dotted key; None where a block is missing."""
        return value_at(self.config, key)
