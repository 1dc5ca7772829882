"""Training rows of the episode log: one JSON line per episode, in one file per step,
written by the trainer.

`{"step", "uid", "session_id", "rows": [{"parts": […], "tokens": {…}}]}`. A part is a stretch of a
row's tokens of one role and turn: `role`, `turn` (position in the episode), `tokens`, `advantage`
(mean over them, weight of the objective and log-prob floor folded in), `masked` (share below the
floor), `log_prob` (mean log π_old under the row's prompt) and `gap` (mean of the sampler's log-prob
minus it), nats. `tokens` is there for a few episodes per step: lists over all tokens of the row,
`text`, `role`, `turn`, `advantage`, `log_prob`, `gap`, `masked`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rltf_verl.jsonl import append_lines
from rltf_verl.runlog.files import log_files, read_files

Rows = list[dict[str, Any]]


def write_rows(
    folder: Path,
    step: int,
    episodes: Iterable[Mapping[str, Any]],
    append: Callable[[Path, Iterable[Mapping[str, Any]]], None] = append_lines,
) -> None:
    """Append the records of a step's episodes, by `jsonl.append_lines` or `append`."""
    append(folder / f"{step:08d}.rows.trainer.jsonl", episodes)


def read_rows(
    folder: Path, step: int | None = None, *, growing: bool = False
) -> dict[tuple[str, int], Rows]:
    """(uid, episode) -> its rows; `step`: those of one step."""
    rows = {}
    for record in read_files(log_files(folder, ("rows",), step), growing=growing):
        rows[record["uid"], record["session_id"]] = record["rows"]
    return rows


def roles(record: Mapping[str, Any]) -> set[str]:
    """Names of the roles that an episode's tokens have in training; empty if the log lacks them."""
    return {part["role"] for row in record.get("rows", ()) for part in row["parts"]}
