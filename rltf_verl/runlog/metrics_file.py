"""verl's file logger (`trainer.logger: [file]`), whose file a resumed run would erase.

verl 0.9.1 opens it to write (`utils/tracking.py`, `FileLogger`). Before that, ours moves it aside
under the number of its process: `metrics.jsonl` becomes `metrics.process_1.jsonl`, the next one
`metrics.process_2.jsonl`.
"""

from __future__ import annotations

import re
from pathlib import Path

_EARLIER = re.compile(r"(?P<stem>.+)\.process_(?P<number>\d+)")


def set_aside(path: Path) -> Path | None:
    """Rename the file of an earlier process; None if it is missing or empty.

    Raises:
        OSError: the disk refuses.
    """
    if not path.is_file() or path.stat().st_size == 0:
        return None
    numbers = [_number(p) for p in processes_of(path) if p != path]
    return path.rename(
        path.with_name(f"{path.stem}.process_{max(numbers, default=0) + 1}{path.suffix}")
    )


def processes_of(path: Path) -> list[Path]:
    """The files of one run, the earliest process first; `path` is that of any of them."""
    stem = stem_of(path)
    files = [
        p
        for p in path.parent.iterdir()
        if p.suffix == path.suffix and p.is_file() and stem_of(p) == stem
    ]
    # the file without a number is that of the newest process
    return sorted(files, key=lambda p: (_EARLIER.fullmatch(p.stem) is None, _number(p)))


def stem_of(path: Path) -> str:
    """The file's name without suffix and number of the process.

    >>> stem_of(Path("sd.process_2.jsonl")), stem_of(Path("sd.jsonl"))
    ('sd', 'sd')
    """
    match = _EARLIER.fullmatch(path.stem)
    return match["stem"] if match else path.stem


def _number(path: Path) -> int:
    match = _EARLIER.fullmatch(path.stem)
    return int(match["number"]) if match else 0
