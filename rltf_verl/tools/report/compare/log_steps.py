"""An episode log by steps: the numbers of `rltf log stats`, episodes, tokens. One step is in memory
at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path

from rltf_verl.runlog.files import log_files, place, read_files
from rltf_verl.runlog.turns import Record
from rltf_verl.tools.report.stats import Stats, stats

PREFIX = "log/"
OWN_FEEDBACK = "policy"
"""Feedback that the policy wrote: the log does not say how many tokens that took."""


@dataclass(frozen=True)
class LogStep:
    """The episodes of one step."""

    values: Mapping[str, float]
    """`log/<split>/…`, see `flat`."""
    episodes: int
    """Training episodes."""
    tokens: int | None
    """Tokens of the attempts in training episodes; None if the policy wrote feedback too."""


def read_log(folder: Path) -> dict[int, LogStep]:
    """Step -> its episodes."""
    files: dict[int, list[Path]] = defaultdict(list)
    for path in log_files(folder):
        files[place(path)[0]].append(path)
    return {step: _step(list(read_files(files[step]))) for step in sorted(files)}


def flat(s: Stats) -> dict[str, float]:
    """The numbers by name, e.g. `log/val/turn_1/acc`, `log/train/turn_2/revisions/fixed`,
    `log/val/friction`.
    """
    named = dict(_numbers(s, f"{PREFIX}{s.split}/"))
    for turn in s.turns:
        named |= dict(_numbers(turn, f"{PREFIX}{s.split}/turn_{turn.turn}/"))
    return named


def _numbers(block: object, prefix: str) -> Iterator[tuple[str, float]]:
    for field in fields(block):  # type: ignore[arg-type]  # `Stats` or a block of it, all dataclasses
        value = getattr(block, field.name)
        if is_dataclass(value):
            yield from _numbers(value, f"{prefix}{field.name}/")
        elif isinstance(value, (int, float)) and field.name not in (
            "turn",
            "first_step",
            "last_step",
        ):
            yield prefix + field.name, float(value)


def _step(records: Sequence[Record]) -> LogStep:
    trained = [record for record in records if record["split"] == "train"]
    found = [s for s in (stats(records, split) for split in ("train", "val")) if s.sessions]
    values = {name: value for s in found for name, value in flat(s).items()}
    return LogStep(values, len(trained), _tokens(trained))


def _tokens(trained: Sequence[Record]) -> int | None:
    turns = [turn for record in trained for turn in record["turns"]]
    said = [
        feedback
        for turn in turns
        for feedback in (turn["feedback"], turn.get("withheld"))
        if feedback
    ]
    if any(feedback["provider"] == OWN_FEEDBACK for feedback in said):
        return None
    return sum(turn.get("num_tokens") or 0 for turn in turns)
