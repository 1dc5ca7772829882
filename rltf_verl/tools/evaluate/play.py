"""The folder of an evaluation, and the episodes that it does not hold yet."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from rltf_verl.data.questions import QuestionRow, require_rows_of
from rltf_verl.episode.acting import first_messages
from rltf_verl.episode.run import EpisodePlayer
from rltf_verl.episode.seeds import seeds_of_episode
from rltf_verl.feedback import has_trait
from rltf_verl.feedback.base import FeedbackUnavailable
from rltf_verl.feedback.group import Cohort, Group
from rltf_verl.jsonl import write_whole
from rltf_verl.judge.runtime import JudgeRuntime, run_to_end
from rltf_verl.judge.wire import JudgeUnavailable
from rltf_verl.runlog.about import read_about
from rltf_verl.runlog.episodes import EpisodeLog, read_episodes
from rltf_verl.runlog.files import EVALUATION, log_files
from rltf_verl.runlog.turns import Record, grader_trouble
from rltf_verl.texts import counted
from rltf_verl.tools.evaluate.endpoint_policy import EndpointPolicy
from rltf_verl.tools.evaluate.settings import Evaluation
from rltf_verl.types import Episode, Message

Place = tuple[str, int]
"""Row of the dataset, as the log's `uid`, and episode."""
Ended = Callable[[], None]
"""Called when an episode has ended."""
OPTIONS = {"step": "--step", "prompt_budget": "--max-prompt-chars"}
"""Settings that are options of the command line."""


def part_of(path: Path, name: str, kind: type) -> Any:
    """A part of the JSON object in a file. Raises ValueError: it has none."""
    part = read_about(path.parent, path.name).get(name)
    if not isinstance(part, kind):
        raise ValueError(f"{path}: holds no {name}, so it is damaged; restore or delete it")
    return part


class EvaluationFolder:
    """One evaluation on disk. More samples and more problems may be added to it, anything else is
    another evaluation.

    Args:
        path: made if needed.
        evaluation: settings.
        questions: rows of the dataset.
        samples: episodes per row.

    Raises:
        ValueError: the folder holds another evaluation; names what differs. Or the rows are of
            another environment.
    """

    def __init__(
        self, path: Path, evaluation: Evaluation, questions: Sequence[QuestionRow], samples: int
    ) -> None:
        self._evaluation, self._questions, self._samples = evaluation, questions, samples
        self._path, self._about = path / "episodes", path / EVALUATION
        self.num_episodes = len(questions) * samples
        self.failures: list[str] = []
        """Why episodes have no answer, one line each."""
        rows, files = list(map(_digest, questions)), evaluation.own_files()
        facts = {"evaluation": evaluation.facts(), "rows": rows, "files": files}
        require_rows_of(evaluation.parts.env, questions)
        # as the file gives them back: tuples are lists there
        self._now = json.loads(json.dumps(facts))
        self._rows_before = self._check_rows()

    def _check_rows(self) -> list[str]:
        """Rows that the folder is of. Raises ValueError."""
        if not self._about.exists():
            if log_files(self._path):
                raise ValueError(
                    f"--out {self._path.parent}: holds the episodes of a run; name another folder"
                )
            return []
        before, now = part_of(self._about, "evaluation", dict), self._now
        rows: list[str] = part_of(self._about, "rows", list)
        differ = list(_differences("", before, now["evaluation"]))
        # not strict: one list may be the beginning of the other
        if any(a != b for a, b in zip(now["rows"], rows, strict=False)):
            differ.append("another dataset")
        # a folder of an earlier version has none
        files = read_about(self._about.parent, self._about.name).get("files", {})
        same = files.keys() & now["files"].keys()  # of another file the setting differs
        differ += [
            f"{path} has changed" for path in sorted(same) if files[path] != now["files"][path]
        ]
        if differ:
            raise ValueError(
                f"--out {self._about.parent}: holds another evaluation ({'; '.join(differ)}); use a"
                " new folder or the settings stored there"
            )
        return rows

    def records(self) -> dict[Place, Record]:
        """Episodes that are played, each once."""
        records: dict[Place, Record] = {}
        for record in read_episodes(self._path) if self._path.is_dir() else []:
            row, sample = record["uid"], record["session_id"]
            # more rows and episodes may be there than are wanted now
            if row.isdecimal() and int(row) < len(self._questions) and sample < self._samples:
                # a call that was killed may have left an episode that a later one played again
                records.setdefault((row, sample), record)
        return records

    def episodes(self) -> list[Record]:
        """Episodes with a result, by row and number."""
        records = self.records()
        return [records[place] for place in sorted(records, key=lambda p: (int(p[0]), p[1]))]

    def play(self) -> None:
        """Play what is missing, with a bar on stderr; from here on the folder is of this
        evaluation. It drops what a silent endpoint cut short, so that the next call asks again, and
        with `feedback.on_error=raise` an episode without feedback.

        Raises:
            ValueError: an environment that cannot work on this machine.
        """
        env = self._evaluation.parts.env
        trouble = env.trouble()
        if trouble is not None:
            raise ValueError(trouble)
        self._log = EpisodeLog(self._path, worker="eval")
        # a call on fewer problems does not shorten the list
        rows = max(self._rows_before, self._now["rows"], key=len)
        about = json.dumps({**self._now, "rows": rows}, indent=1)
        write_whole(self._about, f"{about}\n".encode())
        records = self.records()
        with Progress(console=Console(stderr=True)) as progress:
            task = progress.add_task(
                f"{self.num_episodes} episodes", total=self.num_episodes, completed=len(records)
            )
            run_to_end(self._play(records, partial(progress.advance, task)))

    async def _play(self, records: Mapping[Place, Record], ended: Ended) -> None:
        """All episodes but those of the records, as many at once as the endpoint's limit allows."""
        self._runtime = JudgeRuntime(self._evaluation.policy)
        # A whole row at least: its episodes may wait for each other.
        slots = max(self._evaluation.policy.limits.max_concurrency, self._samples)
        if has_trait("quotes_other_problems", self._evaluation.parts.config.feedback.block):
            slots = self.num_episodes  # of all rows
        self._slots = asyncio.Semaphore(slots)
        cohort, tasks = Cohort(range(len(self._questions)), self._samples), []
        for row in range(len(self._questions)):
            missing = [s for s in range(self._samples) if (str(row), s) not in records]
            group = self._group(row, records, cohort)
            tasks += [asyncio.create_task(self._episode(row, s, group, ended)) for s in missing]
        try:
            await asyncio.gather(*tasks)
        finally:
            # all have ended before the runtime and the log close: they use both
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._runtime.aclose()
            await self._log.writer.run(self._log.close)

    def _group(self, row: int, records: Mapping[Place, Record], cohort: Cohort) -> Group:
        """The episodes of a row; those of an earlier call as far as they got."""
        group = Group(self._samples, row, cohort)
        for session_id in range(self._samples):
            record = records.get((str(row), session_id))
            for k, turn in enumerate(record["turns"] if record else ()):
                group.note_grade(session_id, k, turn["text"], correct=turn["grade"]["correct"])
            if record:
                group.note_end(session_id)
        return group

    async def _episode(self, row: int, session_id: int, group: Group, ended: Ended) -> None:
        """Play an episode and log it, or note its failure."""
        question, parts = self._questions[row], self._evaluation.parts
        async with self._slots:
            messages = list(question.messages)
            if parts.env.acts:
                messages = await first_messages(parts.env, question.problem, messages)
            episode = await self._played(question, messages, session_id, group)
        if isinstance(episode, str):
            self.failures.append(episode)
            ended()
            return
        *context, asked = messages
        append = partial(
            self._log.append,
            episode,
            question=asked["content"],
            step=self._evaluation.step,
            validate=True,
            uid=str(row),
            source=question.source,
            seed=parts.config.seed,
            context=context,
        )
        await self._log.writer.run(append)
        ended()

    async def _played(
        self, question: QuestionRow, messages: list[Message], session_id: int, group: Group
    ) -> Episode | str:
        """The episode, or why there is none."""
        parts = self._evaluation.parts
        policy = EndpointPolicy(self._runtime, self._evaluation.prompt_budget)
        seed_of = seeds_of_episode(
            parts.config.seed,
            validate=True,
            step=self._evaluation.step,
            source=question.source,
            index=question.problem.index,
            session_id=session_id,
            pair_sessions=parts.config.episode.pair_sessions,
        )
        player = EpisodePlayer(
            parts,
            policy,
            question.problem,
            messages,
            session_id=session_id,
            validate=True,
            seed_of=seed_of,
            group=group,
        )
        try:
            episode = await player.play()
        except (JudgeUnavailable, FeedbackUnavailable) as error:
            return policy.unavailable or str(error)
        # A provider that asks the policy itself takes its silence for missing feedback.
        return policy.unavailable or episode

    def require_results(self, episodes: Sequence[Record]) -> None:
        """Raise ValueError if episodes have no result, or the grader failed at every answer."""
        missing = self.num_episodes - len(episodes)
        if missing:
            why = f", e.g. because {self.failures[0]}" if self.failures else ""
            raise ValueError(
                f"no result of {counted(missing, 'episode')}{why}. Run the same command again to"
                " retry"
            )
        trouble, all_failed = grader_trouble(episodes)
        if all_failed:
            raise ValueError(f"{trouble}. Fix the grader, then evaluate into a new folder")


def _differences(block: str, before: Any, now: Any) -> Iterator[str]:
    """A line per setting, as the command line names it."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted({*before, *now}):
            key = f"{block}.{name}" if block else name
            yield from _differences(key, before.get(name), now.get(name))
    elif before != now and block == "episode.horizon":
        yield f"--rounds: {before - 1} there, {now - 1} here"
    elif before != now:
        yield f"{OPTIONS.get(block, block)}: {before} there, {now} here"


def _digest(question: QuestionRow) -> str:
    problem = question.problem
    facts = [
        list(question.messages),
        problem.env,
        problem.index,
        dict(problem.data),
        problem.reference,
    ]
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=8).hexdigest()
