"""Every way in which a text gives the answer away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rltf_verl.envs.base import Env, FindsCandidates, HasWorkedSolution
from rltf_verl.feedback.guard.equality import find_reference, same_answer
from rltf_verl.feedback.guard.overlap import copied_share
from rltf_verl.feedback.guard.spans import usual_candidates
from rltf_verl.types import Problem

LeakKind = Literal["answer", "part", "solution", "judged"]
"""The answer; a part of it; a copy of the worked solution; what only the additional check saw."""

SHOWN = 80
"""Characters of the passage that a verdict quotes."""


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """What counts as giving the answer away."""

    parts: bool = True
    """A correct part of the answer counts (one cell of a matrix), not just the whole."""
    overlap: float = 0.5
    """Share of the worked solution's five-word sequences that a text may repeat."""


@dataclass(frozen=True, slots=True)
class Leak:
    """A passage, `text[start:end]`, that gives the answer away."""

    kind: LeakKind
    start: int
    end: int

    def verdict(self, text: str) -> str:
        """One line: the kind, then the passage."""
        passage = " ".join(text[self.start : self.end].split())
        return f"{self.kind}: {passage[:SHOWN]}{'…' if len(passage) > SHOWN else ''}"


def find_leaks(
    env: Env, problem: Problem, text: str, attempt: str = "", settings: GuardSettings | None = None
) -> list[Leak]:
    """What in `text` gives the answer of `problem` away, the most serious first; empty if nothing does.

    Args:
        env: finds the candidate answers, if it can, and grades them.
        problem: with the reference answer.
        text: the feedback.
        attempt: what it is about, which is wrong.
        settings: what counts.
    """
    settings = settings or GuardSettings()
    return [*_answers(env, problem, text, attempt, settings), *_copies(env, problem, text, settings)]


def _answers(env: Env, problem: Problem, text: str, attempt: str, settings: GuardSettings) -> list[Leak]:
    if isinstance(env, FindsCandidates):
        candidates = env.candidates(problem, text, attempt)
        right = {answer for answer in {c.answer for c in candidates} if _is_correct(env, problem, answer)}
        found = [c for c in candidates if c.answer in right]
        leaks = {Leak("part" if c.part else "answer", c.start, c.end) for c in found if settings.parts or not c.part}
    else:
        leaks = set(_usual_leaks(env, problem, text))
    return sorted(leaks, key=lambda leak: (leak.kind, leak.start, -leak.end))


def _usual_leaks(env: Env, problem: Problem, text: str) -> Iterator[Leak]:
    for c in usual_candidates(text):
        if same_answer(c.answer, problem.reference) or _is_correct(env, problem, c.answer):
            yield Leak("answer", c.start, c.end)
    repeated = find_reference(text, problem.reference)
    if repeated is not None:
        yield Leak("answer", *repeated)


def _is_correct(env: Env, problem: Problem, answer: str) -> bool:
    try:
        return env.grade(problem, answer).correct
    except Exception:  # graders are user code; what they cannot read is not the answer
        return False


def _copies(env: Env, problem: Problem, text: str, settings: GuardSettings) -> list[Leak]:
    if not isinstance(env, HasWorkedSolution):
        return []
    copied = copied_share(text, env.worked_solution(problem)) > settings.overlap
    return [Leak("solution", 0, len(text))] if copied else []
