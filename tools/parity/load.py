"""The cases of a parity file as our own objects: episodes, and the rows that training makes of
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rltf_verl.algos.episodes import EpisodeBatch
from rltf_verl.algos.targets import RowBatch, RowTargets
from rltf_verl.config import RLTFConfig
from rltf_verl.objectives import Method
from rltf_verl.objectives.base import Now
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.objectives.targets import compute_targets
from rltf_verl.policy import NoPolicy
from rltf_verl.types import Attempt, Episode, Feedback, Grade, Problem, Role, Row, Turn
from tools.parity.modes import padding_excuse
from tools.parity.pack import pack_episodes, pack_rows
from tools.parity.report import Excuse, Json

BEHIND_FIRST_PROMPT = (Role.DISTILL, Role.IMITATE)


@dataclass(frozen=True)
class Case:
    """S episodes of one case."""

    json: Json
    records: list[Json]
    """[S] as the file has them."""
    episodes: list[Episode]
    index: list[tuple[int, int]]
    """[S] group, and place in it."""
    packed: EpisodeBatch


@dataclass(frozen=True)
class ModeRows:
    """N rows of a case under a config, in the order of the release."""

    case: Case
    name: str
    """Mode and baseline."""
    config: RLTFConfig
    rows: list[Row]
    episode: list[int]
    """[N] position in `Case.episodes`."""
    batch: RowBatch
    old: list[list[float]]
    """[N] log-probs of the policy that sampled, under each row's own prompt."""
    new: list[list[float]]
    """[N] log-probs of the perturbed policy; 0 on context."""
    targets: RowTargets
    excuses: list[Excuse | None]
    """[N] the deliberate difference that a row's advantages may show."""

    @cached_property
    def ends(self) -> list[int]:
        """[N] where each row ends among the tokens of all rows."""
        return self.batch.lengths.cumsum(0).tolist()

    def tokens(self, n: int) -> slice:
        """Where the tokens of a row are."""
        return slice(self.ends[n] - len(self.rows[n].role), self.ends[n])

    def is_extra(self, n: int) -> bool:
        """Not a row of the turns as they were played."""
        return _role(self.rows[n]) in BEHIND_FIRST_PROMPT


def load_case(case: Json) -> Case:
    """Read the episodes of a case."""
    index = [
        (g, i) for g, group in enumerate(case["groups"]) for i in range(len(group["sessions"]))
    ]
    records = [case["groups"][g]["sessions"][i] for g, i in index]
    episodes = [_episode(record) for record in records]
    return Case(case, records, episodes, index, pack_episodes(episodes, [g for g, _ in index]))


def load_rows(case: Case, name: str, config: RLTFConfig) -> ModeRows:
    """The rows that training makes of the episodes under a config, with the log-probs of the
    file.
    """
    method = Method(config)
    made = asyncio.run(_episode_rows(case.episodes, method))
    ordered = sorted(
        ((s, row) for s, rows in enumerate(made) for row in rows),
        key=lambda pair: _release_order(*pair),
    )
    episode, rows = [s for s, _ in ordered], [row for _, row in ordered]
    old = [_old_log_probs(row, case.records[s]) for s, row in ordered]
    new = [_new_log_probs(row, case.records[s]) for s, row in ordered]
    batch = pack_rows(rows, episode, case.packed, old)
    targets = compute_targets(batch, method, method.weights(Now(0, 1)))
    excuses = [_excuse(case, s, row, config) for s, row in ordered]
    return ModeRows(case, name, config, rows, episode, batch, old, new, targets, excuses)


def _excuse(case: Case, episode: int, row: Row, config: RLTFConfig) -> Excuse | None:
    distilled = _role(row) is Role.DISTILL
    return padding_excuse(case.packed, episode, config.distill.baseline) if distilled else None


async def _episode_rows(episodes: Sequence[Episode], method: Method) -> list[list[Row]]:
    policy = NoPolicy()  # none of the compared modes encodes text
    return [await episode_rows(policy, (), episode, method) for episode in episodes]


def _release_order(episode: int, row: Row) -> tuple[bool, int, bool, int, bool]:
    """By episode, imitation at its end, a critique before the turn that it led to; all distillation
    rows at the end.
    """
    role = _role(row)
    return role is Role.DISTILL, episode, role is Role.IMITATE, row.turn[-1], role is Role.ATTEMPT


def _role(row: Row) -> Role:
    return Role(row.role[0])


def _episode(record: Json) -> Episode:
    turns: list[Turn] = []
    for turn in record["turns"]:
        if "critique_response_ids" in turn:
            feedback = Feedback(text="", provider="policy", attempt=_attempt(turn, "critique_"))
            turns[-1] = replace(turns[-1], feedback=feedback)
        grade = Grade(bool(turn["correct"]), True)
        turns.append(Turn(_attempt(turn, ""), grade, float(turn["reward"])))
    turns[-1] = replace(turns[-1], stop="solved" if turns[-1].grade.correct else "horizon")
    return Episode(Problem("parity", 0, {}, ""), 0, tuple(turns))


def _attempt(turn: Json, prefix: str) -> Attempt:
    prompt, response = tuple(turn[f"{prefix}prompt_ids"]), tuple(turn[f"{prefix}response_ids"])
    return Attempt(prompt, response, tuple(turn[f"{prefix}logprobs"]), text="", ended=True)


def _old_log_probs(row: Row, record: Json) -> list[float]:
    return list(
        record["student_logprobs"] if _role(row) in BEHIND_FIRST_PROMPT else row.log_probs or ()
    )


def _new_log_probs(row: Row, record: Json) -> list[float]:
    if _role(row) in BEHIND_FIRST_PROMPT:
        return list(record["new_student_logprobs"])
    key = "new_critique_logprobs" if _role(row) is Role.CRITIQUE else "new_logprobs"
    new = [0.0] * len(row.role)
    for k in set(row.turn):
        places = [
            j
            for j, (turn, role) in enumerate(zip(row.turn, row.role, strict=True))
            if turn == k and role >= 0
        ]
        for j, value in zip(places, record["turns"][k][key], strict=True):
            new[j] = value
    return new
