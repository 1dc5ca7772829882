"""This package beside plain verl and TRL.

    python -m benchmarks.peers race --trl-python PYTHON    # trainers in turns
    python -m benchmarks.peers losses                     # TRL's SDPO loss and ours, a table
    python -m benchmarks.peers losses --golden FILE       # TRL's numbers for small tensors, as JSON

`losses` runs where `trl` is installed; it is no dependency, and an environment of its own with
`trl==1.16.0` and the repository's root on PYTHONPATH will do. `race` runs where this package is
installed, and starts TRL's trainers with the other environment's PYTHON; without one it leaves them
out. What has a line in race.jsonl is not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

TRL = "1.16.0"
RACE = Path(__file__).resolve().parent / "race.jsonl"
"""A line per run."""


def losses(options: argparse.Namespace) -> None:
    """Exits with 1 if something is apart that should not be."""
    try:
        import trl
    except ImportError:
        sys.exit(f"benchmarks.peers: trl is not installed here; pip install trl=={TRL}")
    from benchmarks.peers.losses import compared, golden

    if trl.__version__ != TRL:
        print(f"made for trl {TRL}, this is {trl.__version__}", file=sys.stderr)
    if options.golden is None:
        sys.exit(0 if compared() else 1)
    numbers = {"trl": TRL, **golden()}
    options.golden.write_text(json.dumps(numbers, indent=1) + "\n", "utf-8")


def race(options: argparse.Namespace) -> None:
    """Run what has no line yet, one after the other, repeats outermost."""
    from benchmarks.peers.arms import ARMS
    from benchmarks.peers.problems import save
    from benchmarks.peers.race import run, table
    from benchmarks.peers.tasks import TASKS, policy
    from rltf_verl.jsonl import append_lines, read_lines

    task = TASKS[options.task]
    task = replace(task, hardware=options.hardware or task.hardware)
    arms = [k for k, arm in ARMS[task.name].items() if options.trl_python or not arm.trl]
    out = options.out.resolve() / task.name
    lines = read_lines(RACE) if RACE.exists() else []
    of = {"task": task.name, "hardware": task.hardware}
    turns = range(1, options.repeats + 1)
    asked_for = [of | {"arm": arm, "seed": seed} for seed in turns for arm in arms]
    missing = [a for a in asked_for if not any(a.items() <= line.items() for line in lines)]
    if missing:
        task = replace(task, policy=policy(task))
        files = save(out / "problems", task)
    for asked in missing:
        arm, seed = asked["arm"], asked["seed"]
        lines.append(asked | run(out / f"{arm}-{seed}", task, arm, files, options.trl_python, seed))
        append_lines(RACE, lines[-1:])
        print(table(lines[-1:], task).splitlines()[-1], flush=True)
    print(table(lines, task))


def main(words: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)
    of_losses = commands.add_parser("losses")
    of_losses.set_defaults(run=losses)
    of_losses.add_argument("--golden", type=Path, help="write this file instead")
    of_race = commands.add_parser("race")
    of_race.set_defaults(run=race)
    of_race.add_argument("--task", choices=("tiny", "smollm2", "sql"), default="smollm2")
    of_race.add_argument("--hardware", choices=("cpu", "cpu_bf16"), help="the task's own")
    of_race.add_argument("--repeats", type=int, default=5)
    of_race.add_argument("--trl-python", type=Path, help="interpreter that has trl")
    of_race.add_argument("--out", type=Path, default=Path("outputs/benchmarks/peers"))
    options = parser.parse_args(words)
    options.run(options)


if __name__ == "__main__":
    main()
