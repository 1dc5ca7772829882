"""Which runs are meant: `NAME=path` is a seed of the arm NAME; parts of one run are joined by
commas.
"""

from __future__ import annotations

import glob
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rltf_verl.tools.report.run_files import Place, run_name

_SEED = re.compile(r"[-_.]*seed[-_=]?\d+$")


def arms_of(arguments: Sequence[str]) -> dict[str, list[Place]]:
    """Arm -> its runs, in the order given.

    `NAME=pattern` stands for one run per match. Without a name, a run is called after its folder,
    and runs whose folders differ in a trailing `seed<number>` only are one arm.

    Raises:
        ValueError: nothing matches a pattern; a run is given twice.
    """
    named = [(name, place) for argument in arguments for name, place in _runs(argument)]
    seen = Counter(tuple(path.resolve() for path in place) for _, place in named)
    for place, times in seen.items():
        if times > 1:
            raise ValueError(f"{place[0]} is given {times} times; a run counts once")
    names = _default_names([place for name, place in named if name is None])
    arms: dict[str, list[Place]] = {}
    for name, place in named:
        arms.setdefault(name or names[place], []).append(place)
    return arms


def _runs(argument: str) -> list[tuple[str | None, Place]]:
    name, equals, rest = argument.partition("=")
    if Path(argument).exists() or not equals:
        return [(None, place) for place in _places(argument)]
    if not name:
        raise ValueError(f"{argument}: an arm needs a name; write NAME={rest}")
    return [(name, place) for place in _places(rest)]


def _places(text: str) -> list[Place]:
    if Path(text).exists():
        return [(Path(text),)]
    if glob.has_magic(text):
        found = sorted(glob.glob(text))  # noqa: PTH207 - a pattern may begin with a root
        if not found:
            raise ValueError(f"{text}: no file or folder matches")
        return [(Path(path),) for path in found]
    return [tuple(Path(part) for part in text.split(","))]


def _default_names(places: Sequence[Place]) -> dict[Place, str]:
    folders = {place: run_name(place[0]) for place in places}
    times = Counter(folders.values())
    # Equal names of different runs: seeds only if they say so.
    unique = {p: name if times[name] == 1 else str(p[0]) for p, name in folders.items()}
    return {p: _SEED.sub("", name) or name for p, name in unique.items()}
