"""The recipes of other methods, played by scripted policies; all else is real."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rltf_verl.algos.targets import RowBatch, RowTargets
from rltf_verl.config import RLTFConfig
from rltf_verl.episode.parts import Parts, build_provider
from rltf_verl.feedback.group import Group
from rltf_verl.objectives import Method
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.types import Episode, Grade, Problem, Role, Row
from tests.support.episode_fakes import PROBLEM, QUESTION, EchoEnv, ScriptedPolicy, play_parts
from tests.support.methods import targets_of
from tools.parity.pack import pack_episodes, pack_rows

NAMES = ("critique_grpo", "guided", "instructions", "raft", "rlef", "sdpo", "ufo")


class Explained(EchoEnv):
    """`yes` is right; what it says names the level and the attempt."""

    def explain(self, problem: Problem, text: str, grade: Grade, level: str) -> str:
        return f"({level} on {text})"


@dataclass
class Played:
    """A group of episodes of one problem, and what is trained on it."""

    episodes: list[Episode]
    policies: list[ScriptedPolicy]
    rows: list[Row]
    owners: list[int]
    """The episode of each row."""
    batch: RowBatch
    targets: RowTargets

    def rows_of(self, role: Role) -> list[tuple[int, Row]]:
        """(episode, row) of a role."""
        pairs = zip(self.owners, self.rows, strict=True)
        return [(s, row) for s, row in pairs if row.role[0] == role]

    def advantages(self, role: Role) -> list[tuple[int, float]]:
        """(episode, advantage) of a role's rows; every token of such a row has the same."""
        found = []
        values = self.batch.by_row(self.targets.advantages)
        for session, row, own in zip(self.owners, self.rows, values, strict=True):
            if row.role[0] == role:
                (value,) = set(own.tolist())
                found.append((session, value))
        return found


def play(
    config: RLTFConfig,
    answers: Sequence[Sequence[str]],
    *,
    env: Any = None,
    problem: Problem = PROBLEM,
    old: float = -1.0,
    policy: type[ScriptedPolicy] = ScriptedPolicy,
) -> Played:
    """A group whose episodes answer as scripted.

    Args:
        config: the `rltf:` block.
        answers: by episode and turn.
        env: default `Explained`.
        problem: what they answer.
        old: log π_old of every token under its row's prompt.
        policy: which answers.
    """
    parts = Parts(config, env or Explained(), build_provider(config.feedback))
    policies = [policy(own) for own in answers]

    async def episode_of(i: int, group: Group) -> tuple[Episode, list[Row]]:
        episode = await play_parts(parts, policies[i], session_id=i, group=group, problem=problem)
        return episode, await episode_rows(policies[i], QUESTION, episode, Method(config))

    async def all_episodes() -> list[tuple[Episode, list[Row]]]:
        group = Group(len(answers))
        return list(await asyncio.gather(*(episode_of(i, group) for i in range(len(answers)))))

    played = asyncio.run(all_episodes())
    episodes = [episode for episode, _ in played]
    rows = [row for _, own in played for row in own]
    owners = [i for i, (_, own) in enumerate(played) for _ in own]
    sessions = pack_episodes(episodes, [0] * len(episodes))
    batch = pack_rows(rows, owners, sessions, [[old] * len(row.role) for row in rows])
    return Played(episodes, policies, rows, owners, batch, targets_of(batch, config))


def rewards(played: Played) -> list[list[float]]:
    """Of every turn of every episode."""
    return [[turn.reward for turn in episode.turns] for episode in played.episodes]


def stops(played: Played) -> list[str | None]:
    """Why each episode ended."""
    return [episode.turns[-1].stop for episode in played.episodes]


def hints(played: Played) -> list[list[str]]:
    """What each episode was told."""
    return [
        [turn.feedback.text for turn in episode.turns if turn.feedback]
        for episode in played.episodes
    ]
