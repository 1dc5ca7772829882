"""The folder of an evaluation, and the episodes that it does not hold yet."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from rltf_verl.data.questions import Question
from rltf_verl.envs.base import NeedsMachine
from rltf_verl.episode.run import run_episode
from rltf_verl.episode.seeds import seeds_of_episode
from rltf_verl.feedback.base import FeedbackUnavailable
from rltf_verl.feedback.group import Group
from rltf_verl.judge.runtime import JudgeRuntime
from rltf_verl.judge.wire import JudgeUnavailable
from rltf_verl.runlog.episodes import EpisodeLog, read_episodes
from rltf_verl.runlog.turns import Record, grader_trouble
from rltf_verl.texts import counted
from rltf_verl.tools.evaluate.endpoint_policy import EndpointPolicy
from rltf_verl.tools.evaluate.settings import Evaluation
from rltf_verl.types import Episode

Place = tuple[str, int]
"""Row of the dataset, as the log's `uid`, and episode."""
OPTIONS = {"step": "--step", "prompt_budget": "--max-prompt-chars"}
"""Settings that are options of the command line."""


def finished(folder: Path, num_rows: int, samples: int) -> dict[Place, Record]:
    """Episodes of the first rows and samples that a log holds, each once."""
    records: dict[Place, Record] = {}
    for record in read_episodes(folder) if folder.is_dir() else []:
        if (
            record["uid"].isdecimal()
            and int(record["uid"]) < num_rows
            and record["session_id"] < samples
        ):
            records.setdefault((record["uid"], record["session_id"]), record)
    return records


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

    async def play(self, records: Mapping[Place, Record]) -> None:
        """Play all episodes but those of the records, as many at once as the endpoint's limit
        allows.
        """
        self._runtime = JudgeRuntime(self.evaluation.policy)
        self._slots = asyncio.Semaphore(self.evaluation.policy.limits.max_concurrency)
        tasks = []
        for row in range(len(self.questions)):
            open_episodes = [s for s in range(self.samples) if (str(row), s) not in records]
            group = self._group(row, records) if open_episodes else Group(0)
            tasks += [asyncio.create_task(self._episode(row, s, group)) for s in open_episodes]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._runtime.aclose()

    def _group(self, row: int, records: Mapping[Place, Record]) -> Group:
        """The episodes of a row, those that were played earlier as far as they got."""
        group = Group(self.samples)
        for session_id in range(self.samples):
            record = records.get((str(row), session_id))
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
        *context, first = question.messages
        self._log.append(
            episode,
            question=first["content"],
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


class Folder:
    """One evaluation on disk. More samples and more problems may be added to it, anything else is
    another evaluation.

    Args:
        path: made if needed.
        evaluation: settings.
        questions: rows of the dataset.
        samples: episodes per row.

    Raises:
        ValueError: the folder holds another evaluation; names what differs.
    """

    def __init__(
        self, path: Path, evaluation: Evaluation, questions: Sequence[Question], samples: int
    ) -> None:
        self._evaluation, self._questions, self._samples = evaluation, questions, samples
        self._log = path / "episodes"
        self._about = path / "evaluation.json"
        self.num_episodes = len(questions) * samples
        self._now = json.loads(
            json.dumps({"evaluation": evaluation.facts(), "rows": list(map(_digest, questions))})
        )
        self._rows_before = self._checked()

    def _checked(self) -> list[str]:
        """Rows that the folder is of. Raises ValueError."""
        if not self._about.exists():
            return []
        before, now = json.loads(self._about.read_text(encoding="utf-8")), self._now
        differ = list(_differences("", before["evaluation"], now["evaluation"]))
        if any(a != b for a, b in zip(now["rows"], before["rows"], strict=False)):
            differ.append("another dataset")
        if differ:
            folder = self._about.parent
            raise ValueError(
                f"--out {folder}: holds another evaluation ({'; '.join(differ)}); use a new"
                " folder or the settings stored there"
            )
        rows: list[str] = before["rows"]
        return rows

    def records(self) -> dict[Place, Record]:
        """Episodes that are played."""
        return finished(self._log, len(self._questions), self._samples)

    def player(self, ended: Callable[[Episode | None], None]) -> Player:
        """Plays what is missing; from here on the folder is of this evaluation. Raises ValueError,
        as `Player`.
        """
        player = Player(self._evaluation, self._questions, self._samples, self._log, ended)
        rows = max(self._rows_before, self._now["rows"], key=len)
        unfinished = self._about.with_name(f".{self._about.name}")
        unfinished.write_text(
            json.dumps({**self._now, "rows": rows}, indent=1) + "\n", encoding="utf-8"
        )
        unfinished.replace(self._about)
        return player

    def episodes(self) -> list[Record]:
        """What there are results of, by row and episode, whatever order they ended in."""
        return [
            record
            for _, record in sorted(
                self.records().items(), key=lambda item: (int(item[0][0]), item[0][1])
            )
        ]

    def by_source(self, episodes: Sequence[Record]) -> dict[str, list[Record]]:
        """The episodes, apart by `data_source` as verl's metrics are."""
        apart: dict[str, list[Record]] = defaultdict(list)
        for record in episodes:
            apart[self._questions[int(record["uid"])].source].append(record)
        return dict(sorted(apart.items()))


def _differences(block: str, before: Any, now: Any) -> Iterator[str]:
    """A line per setting, as it is said on the command line."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted({*before, *now}):
            key = f"{block}.{name}" if block else name
            yield from _differences(key, before.get(name), now.get(name))
    elif before != now and block == "episode.horizon":
        yield f"--rounds: {before - 1} there, {now - 1} here"
    elif before != now:
        yield f"{OPTIONS.get(block, block)}: {before} there, {now} here"


def _digest(question: Question) -> str:
    problem = question.problem
    said = [
        list(question.messages),
        problem.env,
        problem.index,
        dict(problem.data),
        problem.reference,
    ]
    return hashlib.blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=8).hexdigest()


def play(folder: Folder) -> list[str]:
    """Play what is missing, with a bar on stderr. Returns why episodes have no answer."""
    records = folder.records()
    columns = (
        TextColumn("episodes"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("first answers right {task.fields[right]}"),
    )
    progress = Progress(*columns, console=Console(stderr=True))
    task = progress.add_task("", total=folder.num_episodes, completed=len(records), right="–")
    verdicts: list[bool] = []

    def ended(episode: Episode | None) -> None:
        if episode is not None and episode.turns[0].stop != "ungraded":
            verdicts.append(episode.turns[0].grade.correct)
        right = f"{sum(verdicts) / len(verdicts):.0%}" if verdicts else "–"
        progress.update(task, advance=1, right=right)

    player = folder.player(ended)
    with progress:
        asyncio.run(player.play(records))
    return player.failures


def require_results(folder: Folder, episodes: Sequence[Record], failures: Sequence[str]) -> None:
    """Raise ValueError if episodes have no result, or the grader failed at every answer."""
    missing = folder.num_episodes - len(episodes)
    if missing:
        why = f", e.g. because {failures[0]}" if failures else ""
        raise ValueError(
            f"no result of {counted(missing, 'episode')}{why}. Run the same command again to retry"
        )
    trouble, all_failed = grader_trouble(episodes)
    if all_failed:
        raise ValueError(f"{trouble}. Fix the grader, then evaluate into a new folder")
