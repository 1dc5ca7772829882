"""Evaluations of several models side by side: the four metrics of RL2F, in per cent, a table for
each set of problems.

    python side_by_side.py base=outputs/rl2f/eval/base/results.json rl2f=…/results.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltf_verl.tools.report.evaluation.bootstrap import Estimate
from rltf_verl.tools.report.evaluation.show import shown
from rltf_verl.tools.report.terminal.console import show_table

Results = Mapping[str, Any]
"""Of one model on one set: what `rltf eval` writes under `results`."""


def table(arms: Mapping[str, Results]) -> list[tuple[str, ...]]:
    """A header and a line per metric; a column per model.

    Raises:
        ValueError: they have not the same number of turns.
    """
    turns = {name: len(result["turns"]) for name, result in arms.items()}
    if len(set(turns.values())) > 1:
        raise ValueError(f"turns differ, evaluate all with the same --rounds: {turns}")
    last = max(turns.values())
    names = (
        *(f"accuracy, turn {k}" for k in range(1, last + 1)),
        "multi-turn gain",
        "plasticity",
        "correction success",
    )
    return [("", *arms), *zip(names, *map(_column, arms.values()), strict=True)]


def _column(result: Results) -> list[str]:
    turns = [_with_names_of_today(turn) for turn in result["turns"]]
    standing = [_shown(turn["standing"]) for turn in turns]
    gain = _shown(turns[-1]["improvement"], signed=True) if len(turns) > 1 else "–"
    rounds = result["rounds"][:1]  # all together
    return [
        *standing,
        gain,
        *(_shown(rounds[0][name]) if rounds else "–" for name in ("plasticity", "corrected")),
    ]


def _with_names_of_today(turn: Mapping[str, Any]) -> Mapping[str, Any]:
    """Files of earlier versions say `accuracy` and `gain`."""
    if "standing" in turn:
        return turn
    return {"standing": turn["accuracy"], "improvement": turn["gain"]}


def _shown(estimate: Mapping[str, Any], *, signed: bool = False) -> str:
    return shown(Estimate(**estimate), signed)


def main() -> None:
    named = dict(word.split("=", 1) for word in sys.argv[1:])
    read = {
        name: json.loads(Path(path).read_text(encoding="utf-8"))["results"]
        for name, path in named.items()
    }
    for source in sorted(set().union(*read.values())):
        print(source)
        show_table(
            table({name: result[source] for name, result in read.items() if source in result})
        )


if __name__ == "__main__":
    main()
