"""Episodes of a plan, played by the run's own code: wrong answers, then a right one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from rltf_verl.config import RLTFConfig
from rltf_verl.envs.base import HasWorkedSolution
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.run import run_episode
from rltf_verl.episode.seeds import place_of
from rltf_verl.episode.stand_ins import CRITIQUE, LATER, Asked
from rltf_verl.feedback.group import Group
from rltf_verl.feedback.judge_prompt import JUDGED, longest_feedback
from rltf_verl.judge.settings import JudgeSettings
from rltf_verl.objectives import role_names
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.tools.plan.attempts import Tried, right_answer, wrong_answer
from rltf_verl.tools.plan.inputs import Case, Teller
from rltf_verl.types import CONTEXT, Episode, Row


@dataclass(frozen=True)
class Played:
    """A problem's episode."""

    case: Case
    right: Tried | None
    """The reference as an answer that is graded right."""
    tried: Sequence[Tried]
    """Forms of it that are graded wrong, those that the prompt asks for first."""
    episode: Episode
    rows: Sequence[Row]
    critics: Sequence[tuple[int, ...]]
    """Prompts at which the policy itself is asked for feedback."""
    asked: Sequence[Asked]
    """The judges, with what they would be sent."""

    @property
    def calls(self) -> list[tuple[JudgeSettings, str]]:
        """The settings and the prompt of each call."""
        return [
            (judge.settings, "\n\n".join(m["content"] for m in call.messages))
            for judge in self.asked
            for call in judge.calls
        ]


async def played(
    parts: Parts,
    asked: Sequence[Asked],
    policy: Teller,
    case: Case,
    others: Sequence[Case],
    attempt: str | None,
    dry_run: DryRun,
) -> Played:
    """The episode of one problem.

    Args:
        parts: as of `ahead`.
        asked: the judges among them.
        policy: says what it is told.
        case: the problem.
        others: those whose answers are tried as wrong ones.
        attempt: the first answer; None: a wrong one.
        dry_run: counts the time for grades.

    Raises:
        OutOfTimeError: the grader is slow.
    """
    right, tried = await right_answer(parts.env, case, dry_run)
    wrong = attempt
    if wrong is None:
        wrong = (await wrong_answer(parts.env, case, others, right, dry_run)).text
    for judge in asked:
        judge.calls.clear()  # those of the grades above
    seeds: dict[str, int] = {}
    policy.tell(_Script(seeds, parts.config, wrong, wrong if right is None else right.text))
    episode = await run_episode(
        parts,
        policy,
        case.problem,
        case.messages,
        session_id=0,
        validate=False,
        seed_of=lambda place: seeds.setdefault(place, len(seeds)),
        group=_sibling(parts.config, LATER["peer"] if right is None else right.text),
    )
    rows = await episode_rows(policy, case.messages, episode, parts.config)
    critics = [policy.asked[seeds[p]] for p in seeds if "/" in p and seeds[p] in policy.asked]
    copies = [Asked(judge.settings, list(judge.calls)) for judge in asked]
    return Played(case, right, tried, episode, rows, critics, copies)


def _sibling(config: RLTFConfig, answer: str) -> Group | None:
    """Another episode that has solved the problem, where a teacher reads of it."""
    if not config.teaches or "sibling" not in config.teacher.sources:
        return None
    group = Group(2)
    group.ended(1)
    group.graded(1, 1, answer, correct=True)  # not by turn 1: feedback is asked for
    return group


class _Script(dict[int, str]):
    """Seed -> text, by the place that the seed stands for (`seeds.place_of`)."""

    def __init__(self, seeds: dict[str, int], config: RLTFConfig, wrong: str, right: str) -> None:
        super().__init__()
        self._seeds, self._wrong, self._right = seeds, wrong, right
        self._last = place_of(config.episode.horizon - 1)

    def __missing__(self, seed: int) -> str:
        place = next(name for name, number in self._seeds.items() if number == seed)
        if "/" in place:
            return f"Critique: {CRITIQUE}"
        revision = place.partition(".")[0]
        return self._right if revision == self._last != place_of(0) else self._wrong


def parts_of_row(row: Row, config: RLTFConfig) -> list[tuple[str, int, int]]:
    """(role, turn, tokens) of each chunk of a row that is trained."""
    names = role_names(config)
    chunks = groupby(zip(row.role, row.turn, strict=True))
    return [
        (names[role], turn, len(list(tokens))) for (role, turn), tokens in chunks if role != CONTEXT
    ]


@dataclass(frozen=True)
class Lengths:
    """Lengths of some problems, in tokens."""

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
    for play in plays:
        for turn in play.episode.turns[1:2]:
            attempt = play.episode.turns[0].attempt.text
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
