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
    turns = {name: result["num_turns"] for name, result in arms.items()}
    if len(set(turns.values())) > 1:
        raise ValueError(f"turns differ, evaluate all with the same --rounds: {turns}")
    last = max(turns.values())
    names = {f"accuracy, turn {k}": f"turn_{k}/standing" for k in range(1, last + 1)} | {
        "multi-turn gain": f"turn_{last}/improvement",
        "plasticity": "revisions/plasticity",
        "correction success": "revisions/corrected",
    }
    return [
        ("", *arms),
        *(
            (label, *(_shown(result, name) for result in arms.values()))
            for label, name in names.items()
        ),
    ]


def _shown(result: Results, name: str) -> str:
    return shown(Estimate(**result["numbers"][name]), signed=name.endswith("improvement"))


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
