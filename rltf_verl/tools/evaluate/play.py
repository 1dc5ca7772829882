"""Play the episodes of an evaluation that its log does not hold yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rltf_verl.data.questions import Question
from rltf_verl.envs.base import NeedsMachine
from rltf_verl.episode.run import run_episode
from rltf_verl.episode.seeds import seeds_of_episode
from rltf_verl.feedback.base import FeedbackUnavailable
from rltf_verl.feedback.group import Group
from rltf_verl.judge.runtime import JudgeRuntime
from rltf_verl.judge.wire import JudgeUnavailable
from rltf_verl.runlog.episodes import EpisodeLog, read_episodes
from rltf_verl.tools.evaluate.endpoint_policy import EndpointPolicy
from rltf_verl.tools.evaluate.settings import Evaluation
from rltf_verl.types import Episode

Record = Mapping[str, Any]
Place = tuple[str, int]
"""Row of the dataset, as the log's `uid`, and episode."""


def finished(folder: Path, num_rows: int, samples: int) -> dict[Place, Record]:
    """Episodes of the first rows and samples that a log holds, each once."""
    found: dict[Place, Record] = {}
    for record in read_episodes(folder) if folder.is_dir() else []:
        if (
            record["uid"].isdecimal()
            and int(record["uid"]) < num_rows
            and record["session_id"] < samples
        ):
            found.setdefault((record["uid"], record["session_id"]), record)
    return found


@dataclass
class Player:
    """Plays episodes; what an endpoint's silence has cut short is not kept, so that the next run
    asks again.

    The same goes, with `feedback.on_error=raise`, for an episode without feedback.

    Args:
        evaluation: settings.
        questions: rows of the dataset.
        samples: episodes per row.
        folder: of the episode log.
        ended: told of each episode that has ended; None for one that has no answer.

    Raises:
        ValueError: an environment that cannot work on this machine.
    """

    evaluation: Evaluation
    questions: Sequence[Question]
    samples: int
    folder: Path
    ended: Callable[[Episode | None], None]
    failures: list[str] = field(default_factory=list)
    """Why episodes have no answer, one line each."""

    def __post_init__(self) -> None:
        env = self.evaluation.parts.env
        trouble = env.trouble() if isinstance(env, NeedsMachine) else None
        if trouble is not None:
            raise ValueError(trouble)
        self._log = EpisodeLog(self.folder, worker="eval")

    async def play(self, known: Mapping[Place, Record]) -> None:
        """Play all episodes but the known ones, as many at once as the endpoint may be asked at
        once.
        """
        self._runtime = JudgeRuntime(self.evaluation.policy)
        self._slots = asyncio.Semaphore(self.evaluation.policy.limits.max_concurrency)
        tasks = []
        for row in range(len(self.questions)):
            open_episodes = [s for s in range(self.samples) if (str(row), s) not in known]
            group = self._group(row, known) if open_episodes else Group(0)
            tasks += [asyncio.create_task(self._episode(row, s, group)) for s in open_episodes]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._runtime.aclose()

    def _group(self, row: int, known: Mapping[Place, Record]) -> Group:
        """The episodes of a row, those that were played earlier as far as they got."""
        group = Group(self.samples)
        for session_id in range(self.samples):
            record = known.get((str(row), session_id))
            for k, turn in enumerate(record["turns"] if record else ()):
                group.graded(session_id, k, turn["text"], correct=turn["grade"]["correct"])
            if record:
                group.ended(session_id)
        return group

    async def _episode(self, row: int, session_id: int, group: Group) -> None:
        question, config = self.questions[row], self.evaluation.parts.config
        seed_of = seeds_of_episode(
            config.seed,
            validate=True,
            step=self.evaluation.step,
            source=question.source,
            index=question.problem.index,
            session_id=session_id,
            pair_sessions=config.episode.pair_sessions,
        )
        async with self._slots:
            policy = EndpointPolicy(self._runtime, self.evaluation.prompt_budget)
            try:
                episode = await run_episode(
                    self.evaluation.parts,
                    policy,
                    question.problem,
                    question.messages,
                    session_id=session_id,
                    validate=True,
                    seed_of=seed_of,
                    group=group,
                )
            except (JudgeUnavailable, FeedbackUnavailable) as error:
                self._no_result(policy.unavailable or str(error))
                return
        # A provider that asks the policy itself takes its silence for missing feedback; that is no
        # result either.
        if policy.unavailable is not None:
            self._no_result(policy.unavailable)
            return
        *context, said = question.messages
        self._log.append(
            episode,
            question=said["content"],
            step=self.evaluation.step,
            validate=True,
            uid=str(row),
            source=question.source,
            seed=config.seed,
            context=context,
        )
        self.ended(episode)

    def _no_result(self, why: str) -> None:
        self.failures.append(why)
        self.ended(None)
