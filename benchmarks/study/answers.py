"""What the trained policies answer, from the episodes of the last evaluation: where the errors are,
and how varied.

    python -m benchmarks.study.answers [OUT] [--show ARM]

Prints one line per arm, seeds taken together; `--show grpo` also prints ten episodes of each of its
seeds.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

Session = dict[str, Any]


def last_test(path: Path) -> list[Session]:
    """The held-out episodes of a run's last evaluation."""
    episodes = json.loads(path.read_text())
    last = max(e["step"] for e in episodes)
    return [e for e in episodes if e["step"] == last and e["split"] == "test"]


def flat(text: str) -> str:
    """An answer on one line."""
    return text.replace("\\boxed{", "").rstrip("}").replace("\n", "/")


def summary(runs: list[list[Session]]) -> str:
    """Variety, problems solved by at least one answer and by all, and errors per distance."""
    problems: dict[tuple[int, int], list[Session]] = defaultdict(list)
    wrong: Counter[str] = Counter()
    cells: Counter[str] = Counter()
    for seed, sessions in enumerate(runs):
        for session in sessions:
            problems[seed, session["index"]].append(session)
            given, wanted = flat(session["turns"][0]["text"]), flat(session["reference"])
            cells.update(wanted)
            wrong.update(
                w for w, g in zip(wanted, given.ljust(len(wanted)), strict=False) if g != w
            )
    right = [[s["turns"][0]["right"] for s in sessions] for sessions in problems.values()]
    variety = statistics.mean(
        len({s["turns"][0]["text"] for s in sessions}) for sessions in problems.values()
    )
    errors = ", ".join(f"{d}: {wrong[d] / cells[d]:.2f}" for d in sorted(cells) if d.isdigit())
    some, every = statistics.mean(map(any, right)), statistics.mean(map(all, right))
    return f"{variety:.2f} | {some:.2f} | {every:.2f} | {errors}"


def show(sessions: list[Session]) -> None:
    """Ten of them."""
    for session in sessions[:: max(len(sessions) // 10, 1)][:10]:
        first, second = session["turns"]
        print(
            f"  {flat(session['question'])} -> {flat(session['reference'])}   first"
            f" {flat(first['text'])}   said {first['feedback']}   second {flat(second['text'])}"
        )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, nargs="?", default=Path("outputs/study"))
    parser.add_argument("--show")
    arguments = parser.parse_args()
    arms: dict[str, list[list[Session]]] = defaultdict(list)
    for path in sorted((arguments.out / "episodes").glob("*.json")):
        arms[path.stem.rpartition("-s")[0]].append(last_test(path))
    print(
        "| arm | answers per problem, of 4 | solved by one or more | by all 4 | share of wrong"
        " cells, by distance |"
    )
    print("|---|---:|---:|---:|---|")
    for arm, runs in arms.items():
        print(f"| {arm} | {summary(runs)} |")
        if arm == arguments.show:
            for sessions in runs:
                show(sessions)


if __name__ == "__main__":
    main()
