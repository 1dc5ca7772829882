"""How fast problems are built and answers graded: `python benchmarks/envs.py`.

One process, one core. Answers are right ones in the reference's words and wrong ones, each in a box
behind 200 words of reasoning, as a policy writes them; "unboxed" is the same text without the box.
The official knights and knaves need reasoning-gym (`pip install rltf-verl[data]`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))  # also when started by its path

from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env
from rltf_verl.types import Problem

SETS = [
    ("binary_matrix", {"mode": "official"}),
    ("binary_matrix", {}),
    ("binary_matrix", {"style": "compact"}),
    ("knights_knaves", {"mode": "official"}),
    ("knights_knaves", {}),
    ("knights_knaves", {"style": "compact"}),
    ("shortest_path", {"mode": "official"}),
    ("shortest_path", {}),
    ("shortest_path", {"style": "compact"}),
]
SHOWN_DATA = {"binary_matrix": "matrix", "knights_knaves": "statements", "shortest_path": "grid"}
REASONING = "First we look at what is given, and then we try one case after the other. " * 14
BATCH = 2_000


def measure(name: str, options: dict[str, Any], num: int, seconds: float) -> dict[str, Any]:
    """Build `num` problems, then grade for at least `seconds` each."""
    env = make_env(name, **options)
    start = time.perf_counter()
    splits = env.build(0, num - num // 100, num // 100)
    took = time.perf_counter() - start
    problems = [*splits.train, *splits.test][:BATCH]
    right = [f"{REASONING}\n\\boxed{{{problem.reference}}}" for problem in problems]
    wrong = [*right[1:], right[0]]
    unboxed = [f"{REASONING}\n\n{problem.reference}" for problem in problems]
    return {
        "environment": name,
        "options": options,
        "problems": num,
        "different": len({str(p.data[SHOWN_DATA[name]]) for p in (*splits.train, *splits.test)}),
        "build_seconds": took,
        "grades_per_second": {
            kind: rate(env, problems, texts, seconds)
            for kind, texts in (("right", right), ("another's", wrong), ("unboxed", unboxed))
        },
        "explanations_per_second": rate(env, problems, wrong, seconds, explained(env)),
    }


def rate(
    env: Env,
    problems: Sequence[Problem],
    texts: Sequence[str],
    seconds: float,
    work: Callable[[Problem, str], Any] | None = None,
) -> float:
    """Texts per second."""
    work, done, start = work or env.grade, 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for problem, text in zip(problems, texts, strict=True):
            work(problem, text)
        done += len(problems)
    return done / (time.perf_counter() - start)


def explained(env: Env) -> Callable[[Problem, str], str]:
    """Grade and explain."""
    return lambda problem, text: env.explain(problem, text, env.grade(problem, text), "hint")


def show(results: Sequence[dict[str, Any]], console: Console) -> None:
    """One line per environment and options."""
    table = Table(title="environments: seconds to build, thousands of answers per second to grade")
    for column in (
        "environment",
        "problems",
        "different",
        "build, s",
        "right",
        "another's",
        "unboxed",
        "explained",
    ):
        table.add_column(column, justify="left" if column == "environment" else "right")
    for found in results:
        options = " ".join(found["options"].values()) or "strict"
        rates = [*found["grades_per_second"].values(), found["explanations_per_second"]]
        table.add_row(
            f"{found['environment']} {options}",
            f"{found['problems']}",
            f"{found['different']}",
            f"{found['build_seconds']:.1f}",
            *(f"{value / 1000:.1f}" for value in rates),
        )
    console.print(table)


def main() -> None:
    """Measure, print the table, write the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=20_000)
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="of grading, each kind of answer"
    )
    parser.add_argument("--out", type=Path, default=Path("outputs/benchmarks"))
    args = parser.parse_args()
    results = [measure(name, options, args.problems, args.seconds) for name, options in SETS]
    show(results, Console(width=120))
    args.out.mkdir(parents=True, exist_ok=True)
    settings = {"problems": args.problems, "seconds": args.seconds}
    (args.out / "envs.json").write_text(
        json.dumps({"settings": settings, "results": results}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
