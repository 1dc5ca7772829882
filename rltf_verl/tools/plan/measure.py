"""Lengths in tokens, over more problems than are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rltf_verl.envs.base import HasWorkedSolution
from rltf_verl.episode.parts import Parts
from rltf_verl.feedback.judge_prompt import JUDGED, longest_feedback
from rltf_verl.tools.plan.inputs import Case, Teller
from rltf_verl.tools.plan.play import Played


@dataclass(frozen=True)
class Lengths:
    """Of some problems."""

    num: int
    median: float
    """Tokens of a first prompt."""
    longest: int
    num_long: int
    """First prompts above the limit."""
    longest_solution: int
    """Tokens of the dataset's worked solution, where it has one, else of its reference answer."""
    num_long_solutions: int
    """Solutions that an answer has no room for."""
    room: int | None
    """Tokens of an attempt that a typical second prompt has room for; None: no second prompt quotes
    one."""


async def measure(
    parts: Parts, policy: Teller, cases: Sequence[Case], plays: Sequence[Played], answer: int
) -> Lengths:
    """The lengths of all cases.

    Args:
        parts: environment and configuration.
        policy: counts tokens.
        cases: the problems, at least one.
        plays: some of them, played.
        answer: `data.max_response_length`.
    """
    firsts = [len(await policy.encode(case.messages)) for case in cases]
    solutions = [policy.count(_solution(parts, case)) for case in cases]
    limit = policy.prompt_budget
    return Lengths(
        len(cases),
        median(firsts),
        max(firsts),
        sum(length > limit for length in firsts),
        max(solutions),
        sum(length >= answer for length in solutions),
        _room(policy, parts, plays),
    )


def _room(policy: Teller, parts: Parts, plays: Sequence[Played]) -> int | None:
    """By how the played second prompts would be without their attempt, and with the longest
    feedback that a judge may write.
    """
    if parts.config.episode.quote == "none" or parts.config.episode.context == "append":
        return None
    rooms = []
    words = parts.words_of_judge
    more = policy.count(longest_feedback(words)) - policy.count(JUDGED) if words else 0
    for played in plays:
        for turn in played.episode.turns[1:2]:
            attempt = played.episode.turns[0].attempt.text
            if attempt not in (turn.prompt or ""):
                return None
            without = len(turn.attempt.prompt_ids) - policy.count(attempt)
            judged = more if JUDGED in (turn.prompt or "") else 0
            rooms.append(policy.prompt_budget - without - judged)
    return max(0, int(median(rooms))) if rooms else None


def _solution(parts: Parts, case: Case) -> str:
    env = parts.env
    solution = env.worked_solution(case.problem) if isinstance(env, HasWorkedSolution) else ""
    return solution or case.problem.reference
