"""What training cost elsewhere: scores on tasks outside training, before it and after.

The files are results of lm-evaluation-harness (`results_….json`) and logs of Inspect
(`--log-format json`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Score:
    """A model's score on a task."""

    model: str
    task: str
    metric: str
    value: float
    stderr: float | None


def read_scores(arguments: Sequence[str]) -> list[Score]:
    """Of `NAME=FILE` arguments; the first NAME is the model before training.

    Raises:
        ValueError: a file is neither a result of lm-evaluation-harness nor a log of Inspect, or
            holds no score.
    """
    return [score for argument in arguments for score in _read(argument)]


def _read(argument: str) -> list[Score]:
    name, equals, path = argument.partition("=")
    if not (name and equals):
        raise ValueError(f"--elsewhere {argument}: write NAME=FILE")
    try:
        facts = json.loads(Path(path).read_text("utf-8"))
        scores = list(_scores(name, facts))
    except (UnicodeDecodeError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"--elsewhere {argument}: neither a results_….json of lm-evaluation-harness nor a log"
            f" of Inspect as json ({type(error).__name__})"
        ) from error
    if not scores:
        raise ValueError(f"--elsewhere {argument}: there is no score in it")
    return scores


def _scores(model: str, facts: Mapping[str, Any]) -> Iterator[Score]:
    if "eval" in facts:  # Inspect
        for scorer in (facts["results"] or {}).get("scores", []):
            numbers = {name: found["value"] for name, found in scorer["metrics"].items()}
            stderr = numbers.pop("stderr", None)
            for metric, value in numbers.items():
                yield Score(model, facts["eval"]["task"], metric, float(value), stderr)
        return
    for task, numbers in facts["results"].items():  # lm-evaluation-harness: "acc,none"
        for key, value in numbers.items():
            metric, comma, chosen = key.partition(",")
            if comma and not metric.endswith("_stderr"):
                stderr = numbers.get(f"{metric}_stderr,{chosen}")
                known = isinstance(stderr, float)  # "N/A" for some metrics
                shown = metric if chosen == "none" else key
                yield Score(model, task, shown, float(value), stderr if known else None)
