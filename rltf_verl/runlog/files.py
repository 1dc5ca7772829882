"""The files of an episode log: `<step>.<kind>.<writer>.jsonl`, and `<step>.<kind>.jsonl.gz` once
the step is over.

Kinds: `train` and `val` hold one episode per line, `rows` what each training episode was trained on
(`rows`). `log_folder` finds the log in a run's folder.
"""

from __future__ import annotations

import fcntl
import gzip
import io
import logging
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, cast

from rltf_verl.jsonl import Line, numbered, parse, write_whole
from rltf_verl.runlog.valid import episode_trouble, rows_trouble

logger = logging.getLogger(__name__)

Kind = Literal["train", "val", "rows"]
# `00000012.train.4711.jsonl`, `00000012.rows.jsonl.gz`
_NAME = re.compile(r"(\d{8})\.(train|val|rows)\.(?:[^.]+\.)?jsonl(?:\.gz)?")
EPISODES: tuple[Kind, ...] = ("train", "val")
GB = 10**9
MOST_GB = 50.0
"""Size of an episode log at which nothing more is written."""

STAMP = "rltf_experiment.json"
"""File next to the weights of a checkpoint: the settings that decide what was trained."""

LATEST = "latest_checkpointed_iteration.txt"
"""verl's file in the folder of checkpoints, with the step of the last whole one."""

EVALUATION = "evaluation.json"
"""File next to the log of an evaluation: its settings."""


def log_files(
    folder: Path, kinds: Iterable[Kind] = EPISODES, step: int | None = None
) -> list[Path]:
    """The files of the log by step and kind, without foreign files; `step`: those of one step."""
    kinds = tuple(kinds)
    if not folder.is_dir():
        return []
    files = (path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    return sorted(p for p in files if place(p)[1] in kinds and step in (None, place(p)[0]))


def place(path: Path) -> tuple[int, Kind]:
    """Step and kind of a file of the log."""
    step, kind, *_ = path.name.split(".")
    return int(step), cast("Kind", kind)


def packed(path: Path) -> bool:
    """The step was over when this was written."""
    return path.suffix == ".gz"


def read_files(paths: Iterable[Path], *, growing: bool = False) -> Iterator[dict[str, Any]]:
    """All records of the files; a line that is not as it was written is skipped with a warning. A
    line that was packed and not yet taken away (its packer was killed) is read once; half a line at
    the end of `growing` files is left out.
    """
    by_place: dict[tuple[int, Kind], list[Path]] = defaultdict(list)
    for path in paths:
        by_place[place(path)].append(path)
    for (_, kind), files in by_place.items():
        for path, lines in _lines_once(files, growing).items():
            yield from parse(lines, path, rows_trouble if kind == "rows" else episode_trouble)


def _lines_once(files: list[Path], growing: bool = False) -> dict[Path, list[Line]]:
    by_file: dict[Path, list[Line]] = {}
    packed_lines: set[bytes] = set()
    # the packed file first: what it holds is left out of the others
    for path in sorted(files, key=lambda p: not packed(p)):
        data = read_bytes(path)
        end = data.rfind(b"\n") + 1 if growing else len(data)
        lines = [(k, line) for k, line in numbered(data[:end]) if line not in packed_lines]
        if len(files) > 1 and packed(path):
            packed_lines.update(line for _, line in lines)
        by_file[path] = lines
    return by_file


def read_bytes(path: Path) -> bytes:
    """The unpacked content of a file; empty if it was just packed or set aside.

    A damaged packed file gives its text before the damage, with a warning.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return b""
    return _unpacked(data, path) if packed(path) else data


def _unpacked(data: bytes, path: Path) -> bytes:
    whole = bytearray()
    try:
        with gzip.open(io.BytesIO(data)) as file:
            while piece := file.read1():
                whole += piece
    except (EOFError, zlib.error, OSError) as error:
        logger.warning("%s: damaged after line %d (%s)", path, whole.count(b"\n"), error)
    return bytes(whole)


def size(folder: Path) -> int:
    """Bytes of the files of the log."""
    total = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


class Room:
    """Room for the log in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._full = folder, False
        self._open: object = None

    def left(self, file: object) -> bool:
        """True if space is left; checked once per file, so once per step."""
        # listing a folder of thousands of files for each episode would cost more than writing it
        if file == self._open:
            return not self._full
        self._open, was_full = file, self._full
        with suppress(OSError):  # the folder is away for a while
            self._full = size(self._folder) >= MOST_GB * GB
        if self._full and not was_full:
            logger.warning(
                "episode log: %s has reached %g GB; nothing is written until it is smaller: move"
                " old files away",
                self._folder,
                MOST_GB,
            )
        return not self._full


def set_aside_after(folder: Path, step: int, *, validates: bool = True) -> int:
    """Move the files of what a run resumed at `step` plays again into `superseded/`.

    These are the episodes after it, and the validation at it.

    Args:
        folder: of the log.
        step: 0 for a run from the start, which sets all of an earlier run aside.
        validates: before it trains (`trainer.val_before_train`); else the validation at `step`
            stays, because it is not played again.

    Returns:
        How many files were moved.
    """
    again = (step, "val") if validates or step == 0 else None
    # rows of episodes that are played again belong to them
    paths = log_files(folder, ("train", "val", "rows"))
    stale = [path for path in paths if place(path)[0] > step or place(path) == again]
    for path in stale:
        target = folder / "superseded"
        target.mkdir(exist_ok=True)
        # its time in the name: a step may be set aside more than once
        path.rename(target / path.name.replace(".jsonl", f".{path.stat().st_mtime_ns}.jsonl"))
    return len(stale)


def pack(folder: Path, before: int) -> int:
    """Put the files of each step below `before` into one compressed file per kind.

    Writers that are still at such a step wait, and continue in a new file
    (`jsonl.append_lines`), which the next call adds. Killed in between, nothing is lost and nothing
    is read twice.

    Returns:
        How many files were packed.

    Raises:
        OSError: the disk refuses.
    """
    by_place: dict[tuple[int, Kind], list[Path]] = defaultdict(list)
    for path in log_files(folder, ("train", "val", "rows")):
        if place(path)[0] < before and not packed(path):
            by_place[place(path)].append(path)
    for (step, kind), files in by_place.items():
        _pack(files, folder / f"{step:08d}.{kind}.jsonl.gz")
    return sum(map(len, by_place.values()))


def _pack(files: list[Path], target: Path) -> None:
    with ExitStack() as held:
        for path in files:
            held.enter_context(_locked(path))
        lines: list[bytes] = []
        for numbered_lines in _lines_once([*files, target]).values():
            lines += [line for _, line in numbered_lines]
        # Without a time, equal lines are equal bytes.
        write_whole(target, gzip.compress(b"\n".join([*lines, b""]), compresslevel=6, mtime=0))
        for path in files:
            path.unlink()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("rb") as file:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


DEPTH = 3
"""Folders below a run's folder that are looked into."""

ELSEWHERE = ("global_step_", "superseded", "wandb", ".")
"""Beginnings of the names of folders that are not looked into: checkpoints, and what other programs
keep there.
"""


def folders_of(top: Path) -> Iterator[Path]:
    """The folder and those below it that may hold metrics or episodes: no checkpoints, nothing
    superseded.
    """
    for name, below, _ in os.walk(top):
        folder = Path(name)
        yield folder
        deep = len(folder.relative_to(top).parts) >= DEPTH
        # In place: `os.walk` continues where this list says.
        below[:] = [] if deep else sorted(b for b in below if not b.startswith(ELSEWHERE))


def only_folder(top: Path, holds: Callable[[Path], object], what: str) -> Path | None:
    """`top` if it holds `what`, else the only folder below that does; None without any.

    Raises:
        ValueError: there are several below.
    """
    found = [folder for folder in folders_of(top) if holds(folder)]
    if len(found) > 1 and found[0] != top:  # which comes first
        raise ValueError(
            f"{top}: holds {len(found)} {what}, e.g. {found[0]} and {found[1]}; name one"
        )
    return found[0] if found else None


def log_folder(path: Path) -> Path:
    """The episode log that `path` is or holds; one without episodes only if no other exists.

    Raises:
        ValueError: no such folder, or one that holds several logs.
    """
    if not path.is_dir():
        what = "a file, not a folder" if path.exists() else "no such folder"
        raise ValueError(
            f"{path}: {what}; name a run's trainer.default_local_dir, or its rltf.episode_log.dir"
        )
    usual = path / "episodes"
    return only_folder(path, log_files, "episode logs") or (usual if usual.is_dir() else path)
