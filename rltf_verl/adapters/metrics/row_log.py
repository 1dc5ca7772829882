"""The trainer's part of the episode log: the rows that each episode was trained on
(`runlog.rows`).

A background thread writes them and packs the files of earlier steps, so the step does not wait for
a disk.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rltf_verl.adapters.queue.columns import episode_of
from rltf_verl.adapters.queue.step_rows import StepRows, read_columns
from rltf_verl.adapters.queue.token_texts import token_texts
from rltf_verl.algos.targets import RowTargets
from rltf_verl.config import EpisodeLogConfig
from rltf_verl.jsonl import PatientWriter
from rltf_verl.runlog.files import Room, pack
from rltf_verl.runlog.rows import write_rows
from rltf_verl.texts import counted

logger = logging.getLogger(__name__)

DIGITS = 4
TOKEN_EPISODES = 2
"""Training episodes of a step of which each trained token is written."""


class RowLog:
    """The trainer's writer.

    Args:
        config: where, whose, and of how many episodes each token.
        tokenizer: decodes tokens.
        names: of roles.
    """

    def __init__(self, config: EpisodeLogConfig, tokenizer: Any, names: Mapping[int, str]) -> None:
        self._config, self._tokenizer, self._names = config, tokenizer, names
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="episode-log")
        self._writer = PatientWriter(f"trained rows in {config.dir}")
        self._room = Room(Path(str(config.dir)))
        self._broken = False

    def write(self, step: StepRows, targets: RowTargets, number: int) -> None:
        """Write the rows of step `number`, and pack the steps before it; later, in the thread."""
        if self._config.dir is None or self._broken:
            return
        keys = step.keys
        with_tokens = self._with_tokens(keys)
        ids: dict[int, list[int]] = {}
        if with_tokens:
            at = [step.at[i] for i in with_tokens]
            # Read here, not in the thread: verl clears the queue when the step ends.
            responses = read_columns(step.meta, at, ["responses"])["responses"].unbind()
            ids = {i: row.tolist() for i, row in zip(with_tokens, responses, strict=True)}
        self._thread.submit(self._write, step, targets, ids, number)

    def close(self) -> None:
        """Wait until everything is written that the disk takes."""
        self._thread.shutdown()
        num = self._writer.close()
        if num:
            logger.warning(
                "%s lack their trained rows in %s", counted(num, "episode"), self._config.dir
            )

    def _with_tokens(self, keys: Sequence[str]) -> list[int]:
        """The rows of the episodes whose tokens are written: the first ones."""
        episodes: dict[str, list[int]] = {}
        for i, key in enumerate(keys):
            episodes.setdefault(episode_of(key)[1], []).append(i)
        return [i for rows in list(episodes.values())[:TOKEN_EPISODES] for i in rows]

    def _write(
        self,
        step: StepRows,
        targets: RowTargets,
        ids: dict[int, list[int]],
        number: int,
    ) -> None:
        folder = Path(str(self._config.dir))
        try:
            text = {i: token_texts(self._tokenizer.decode, row) for i, row in ids.items()}
            if self._room.left(number):
                records = episode_records(step, targets, text, number, self._names)
                write_rows(folder, number, records, self._writer.append)
            # Tried again at the next step; the writer has reported the disk's error.
            with suppress(OSError):
                pack(folder, number)
        except Exception as error:  # an error in a thread is silent
            self._broken = True
            logger.warning(
                "episode log: no more rows are written to %s: %s: %s",
                folder,
                type(error).__name__,
                error,
            )


def episode_records(
    step: StepRows,
    targets: RowTargets,
    text: dict[int, list[str]],
    number: int,
    names: Mapping[int, str],
) -> list[dict[str, Any]]:
    """The records of `runlog.rows`, one per episode.

    Args:
        step: the rows.
        targets: what they are trained on.
        text: row -> the text of each of its tokens; rows that are not in it are written without
            tokens.
        number: of the step.
        names: of roles.
    """
    keys, columns = step.keys, _columns(step, targets)
    starts = np.append(0, step.batch.lengths.cumsum(0).numpy())
    parts = _parts(columns, starts, names)
    records: dict[str, dict[str, Any]] = {}
    # By the row's place in its episode: verl's balancing over ranks has mixed them.
    for i in sorted(range(len(keys)), key=lambda i: int(keys[i].rpartition("_")[2])):
        uid, episode = episode_of(keys[i])
        row: dict[str, Any] = {"parts": parts[i]}
        if i in text:
            place = slice(starts[i], starts[i + 1])
            row["tokens"] = {"text": text[i]} | _token_lists(columns, place)
        record = {
            "step": number,
            "uid": uid,
            "session_id": int(episode.rpartition("_")[2]),
            "rows": [],
        }
        records.setdefault(episode, record)["rows"].append(row)
    return list(records.values())


def _columns(step: StepRows, targets: RowTargets) -> dict[str, np.ndarray[Any, Any]]:
    batch = step.batch
    flat = {
        "role": batch.role,
        "turn": batch.turn,
        "advantage": targets.advantages,
        "log_prob": batch.old_log_probs,
        "gap": batch.sampler_log_probs - batch.old_log_probs,
        "masked": targets.floor_masked,
    }
    # numpy has no bfloat16, the dtype of what the workers of a GPU run send.
    return {name: (v.float() if v.is_floating_point() else v).numpy() for name, v in flat.items()}


def _parts(
    columns: dict[str, np.ndarray[Any, Any]],
    starts: np.ndarray[Any, Any],
    names: Mapping[int, str],
) -> list[list[dict[str, Any]]]:
    """Per row its stretches of one role and turn, without those that train nothing."""
    role, turn = columns["role"], columns["turn"]
    # A part begins with its row, and where role or turn change.
    begins = np.zeros(len(role), dtype=np.bool_)
    begins[starts[:-1]] = True
    begins[1:] |= (role[1:] != role[:-1]) | (turn[1:] != turn[:-1])
    first = begins.nonzero()[0]
    # The last part ends with the last token.
    counts = np.diff(np.append(first, len(role)))
    means = {
        name: (
            # [P] mean of each part; the sum in double precision.
            (np.add.reduceat(columns[name].astype(np.float64), first) / counts)
            .round(DIGITS)
            .tolist()
        )
        for name in ("advantage", "masked", "log_prob", "gap")
    }
    places = zip(
        role[first].tolist(), turn[first].tolist(), counts.tolist(), *means.values(), strict=True
    )
    listed = [
        (
            {
                "role": names[r],
                "turn": k,
                "tokens": n,
                **dict(zip(means, values, strict=True)),
            }
            if r >= 0
            else None
        )
        for r, k, n, *values in places
    ]
    # Rows begin with a part, so `starts` are among the parts' first tokens.
    bounds = np.searchsorted(first, starts)
    return [
        [part for part in listed[a:b] if part is not None] for a, b in pairwise(bounds.tolist())
    ]


def _token_lists(columns: dict[str, np.ndarray[Any, Any]], at: slice) -> dict[str, list[Any]]:
    numbers = {name: values[at] for name, values in columns.items()}
    rounded = {
        name: (
            values.astype(np.float64).round(DIGITS)
            if values.dtype.kind == "f"
            else values.astype(np.int64)
        )
        for name, values in numbers.items()
    }
    return {name: values.tolist() for name, values in rounded.items()}
