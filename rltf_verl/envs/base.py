"""What an environment is. One file per environment; everything deterministic from its seed; never `eval`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rltf_verl.types import Grade, Problem

FeedbackLevel = str
"""One of `LEVELS`: how much the verifier's own explanation gives away."""

LEVELS: tuple[FeedbackLevel, ...] = ("verdict", "location", "hint", "full")


@dataclass(frozen=True, slots=True)
class Splits:
    """The problems of one dataset build."""

    train: tuple[Problem, ...]
    test: tuple[Problem, ...]


class Env(Protocol):
    """A task with a verifier that can say what is wrong.

    Instances are cheap, stateless and safe to share between threads; options are constructor arguments
    with defaults, so that `rltf.env.<option>` of the config is `Env(<option>=…)`.
    """

    name: str

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Make the problems of both splits; the same seed gives the same problems."""
        ...

    def prompt(self, problem: Problem) -> str:
        """The user message x_0 of the first turn."""
        ...

    def grade(self, problem: Problem, text: str) -> Grade:
        """Grade an answer given in free text. Never raises on any text."""
        ...

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """Say in words what is wrong with `text`. Only level `full` may contain the answer."""
        ...
