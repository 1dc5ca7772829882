"""The episode log: one JSON line per episode, in one file per step and worker.

A line is one `write` to a file opened for appending, so a killed worker leaves no half line between
others. Steps that a resumed run plays again are moved aside first (`files.set_aside_after`), so no
episode is there twice.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from rltf_verl.jsonl import PatientWriter
from rltf_verl.runlog.files import EPISODES, Kind, Room, log_files, read_files
from rltf_verl.runlog.record import VERSION, episode_record
from rltf_verl.runlog.rows import read_rows
from rltf_verl.runlog.turns import wrong
from rltf_verl.types import Episode, Grade, Message, Problem

logger = logging.getLogger(__name__)

GRADE = [field.name for field in fields(Grade)]


class EpisodeLog:
    """The writer of one worker process.

    Args:
        folder: created when missing.
        worker: distinguishes the files of concurrent workers.
        ids: write the attempts' tokens too.
    """

    def __init__(self, folder: Path, worker: str, *, ids: bool = False) -> None:
        self._folder, self._worker, self._ids = folder, worker, ids
        self.writer = PatientWriter(f"episode log in {folder}")
        """Runs `append` and `close` for an event loop."""
        self._room, self._left_out = Room(folder), 0
        folder.mkdir(parents=True, exist_ok=True)

    def append(
        self,
        episode: Episode,
        *,
        question: str,
        step: int,
        validate: bool,
        uid: str,
        source: str = "",
        seed: int | None = 0,
        context: Sequence[Message] = (),
    ) -> None:
        """Write one episode. While the disk refuses, episodes wait in memory; the run continues.

        Args:
            episode: what was played.
            question: last message of the first prompt.
            step: global step.
            validate: validation or training.
            uid: of the problem in this step.
            source: `data_source` of the problem.
            seed: base of the sampling seeds, `rltf.seed`; None if the engine got none.
            context: messages of the first prompt before the question.
        """
        split = "val" if validate else "train"
        place = {"version": VERSION, "step": step, "split": split, "uid": uid, "seed": seed}
        place |= {"source": source} if source else {}
        prompt = (
            {"context": list(context), "question": question} if context else {"question": question}
        )
        path = self._folder / f"{step:08d}.{split}.{self._worker}.jsonl"
        if not self._room.left(path):
            self._left_out += 1
        else:
            self.writer.append(path, [place | prompt | episode_record(episode, ids=self._ids)])

    def close(self) -> int:
        """Try once more what the disk refused; the number of episodes that the log lacks."""
        return self._left_out + self.writer.close()


def read_episodes(
    folder: Path,
    step: int | None = None,
    kinds: Iterable[Kind] = EPISODES,
    *,
    growing: bool = False,
) -> list[dict[str, Any]]:
    """All records of a log folder, or those of one step, by step; those of training with their
    `rows` (`runlog.rows`), where the log has them. If a resumed run played a training episode
    again, its last record counts. `growing`: see `files.read_files`.
    """
    rows = read_rows(folder, step, growing=growing)
    records: dict[Any, dict[str, Any]] = {}
    for k, record in enumerate(read_files(log_files(folder, kinds, step), growing=growing)):
        place = (record["uid"], record["session_id"]) if record["split"] == "train" else k
        # the later record takes the later place, so steps stay in order
        records.pop(place, None)
        records[place] = record
        if place in rows:
            record["rows"] = rows[place]
    return list(records.values())


def by_source(records: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The episodes of each `data_source`, apart as verl's metrics are."""
    apart: dict[str, list[Any]] = defaultdict(list)
    for record in records:
        apart[record.get("source", "")].append(record)
    return dict(sorted(apart.items()))


def read_wrong_attempts(folder: Path, num: int) -> list[tuple[Problem, str, str, Grade]]:
    """(problem, question, attempt, grade) of the first wrong attempts of a log; one per episode.

    Raises:
        ValueError: the log has no wrong attempt.
    """
    attempts: list[tuple[Problem, str, str, Grade]] = []
    for record in read_episodes(folder):
        turn = next(filter(wrong, record["turns"]), None)
        if turn is not None and record.get("task") is not None and len(attempts) < num:
            problem = Problem(record["env"], record["index"], record["task"], record["reference"])
            known = {name: turn["grade"][name] for name in GRADE if name in turn["grade"]}
            attempts.append((problem, record["question"], turn["text"], Grade(**known)))
    if not attempts:
        raise ValueError(
            f"{folder}: no wrong attempt in it; the run's config names its log as"
            " rltf.episode_log.dir"
        )
    return attempts
