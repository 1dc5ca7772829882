"""What must hold after `soak.py`, read from the run's files and from samples of its processes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rltf_verl.runlog.files import log_files, read_bytes

MB = 2**20


def problems_by_step(records: Iterable[dict[str, Any]]) -> dict[int, Counter[tuple[int, int]]]:
    """Training step -> how often each (problem, episode) was played."""
    steps: dict[int, Counter[tuple[int, int]]] = defaultdict(Counter)
    for record in records:
        if record["split"] == "train":
            steps[record["step"]][record["index"], record["session_id"]] += 1
    return steps


def wrong_steps(
    steps: dict[int, Counter[tuple[int, int]]], order: Sequence[Sequence[int]], n: int
) -> list[str]:
    """Steps that did not play just the episodes of an undisturbed run, each once.

    Args:
        steps: of `problems_by_step`.
        order: the problems of step 1, 2, … of an undisturbed run.
        n: episodes per problem.
    """
    troubles = []
    for step, problems in enumerate(order, 1):
        expected = Counter({(problem, i): 1 for problem in problems for i in range(n)})
        missing, extra = (
            expected - steps.get(step, Counter()),
            steps.get(step, Counter()) - expected,
        )
        if missing or extra:
            troubles.append(
                f"step {step}: {missing.total()} episodes missing, {extra.total()} extra"
            )
    return troubles


def broken_lines(folder: Path) -> list[str]:
    """Lines of an episode log, of now or set aside, that are no JSON object."""
    folders = [folder, *(p for p in folder.rglob("*") if p.is_dir())]
    files = [p for each in folders for p in log_files(each, ("train", "val", "rows"))]
    return [
        f"{path.name}:{number}"
        for path in files
        for number, line in enumerate(read_bytes(path).split(b"\n"), 1)
        if line.strip() and not _is_object(line)
    ]


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def growth(samples: Sequence[tuple[float, float]]) -> float | None:
    """Megabytes that a process has more in the last third of its life than in the middle one.

    Args:
        samples: (seconds, bytes) of one process; the first third is start-up.

    Returns:
        Difference of the medians, or None when there are fewer than 9 samples.
    """
    third = len(samples) // 3
    if third < 3:
        return None
    middle, last = samples[third : 2 * third], samples[2 * third :]
    return (median(b for _, b in last) - median(b for _, b in middle)) / MB
