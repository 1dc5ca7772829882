"""One problem, played by the run's own code: wrong answers, then a right one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rltf_verl.config import RLTFConfig
from rltf_verl.envs.trials import Trials
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.placeholders import CRITIQUE, SIBLING, Asked
from rltf_verl.episode.run import run_episode
from rltf_verl.episode.seeds import place_of
from rltf_verl.feedback.group import Group
from rltf_verl.judge.settings import JudgeSettings
from rltf_verl.objectives import role_names
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.tools.plan.answers import Tried, right_answer, wrong_answer
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
        """Whom the episode asks, and what."""
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
    trials: Trials,
) -> Played:
    """The episode of one problem.

    Args:
        parts: as of `ahead`.
        asked: the judges among them.
        policy: says what it is told.
        case: the problem.
        others: those whose answers are tried as wrong ones.
        attempt: the first answer; None: a wrong one.
        trials: counts the time for grades.

    Raises:
        OutOfTimeError: the grader is slow.
    """
    right, tried = await right_answer(parts.env, case, trials)
    wrong = attempt
    if wrong is None:
        wrong = (await wrong_answer(parts.env, case, others, right, trials)).text
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
        group=_sibling(parts.config, SIBLING if right is None else right.text),
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
    """(role, turn, tokens) of each piece of a row that is trained."""
    names = role_names(config)
    pieces = groupby(zip(row.role, row.turn, strict=True))
    return [
        (names[role], turn, len(list(tokens))) for (role, turn), tokens in pieces if role != CONTEXT
    ]
