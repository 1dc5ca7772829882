"""This package beside plain verl and TRL.

    python -m benchmarks.peers race --model smollm2 --trl-python PYTHON   # trainers in turns
    python -m benchmarks.peers losses                     # TRL's SDPO loss and ours, a table
    python -m benchmarks.peers losses --golden FILE       # TRL's numbers for small tensors, as JSON

`losses` runs where `trl` is installed; it is no dependency, and an environment of its own with
`trl==1.16.0` and the repository's root on PYTHONPATH will do. `race` runs where this package is
installed, and starts TRL's trainers with the other environment's PYTHON; without one it leaves them
out. A run that FILE holds is not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

TRL = "1.16.0"
HOUSE = 21


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
    """Run what is missing, one after the other, seeds outermost."""
    from benchmarks.peers.arms import ARMS
    from benchmarks.peers.problems import save
    from benchmarks.peers.race import run, table
    from benchmarks.peers.tasks import TASKS

    model, task = options.model, TASKS[options.model]
    if not task.policy.is_dir():
        sys.exit(f"{task.policy} is not there: python recipes/pretrained/study.py --start {HOUSE}")
    arms = [k for k in options.arms or ARMS[model] if options.trl_python or not ARMS[model][k].trl]
    out = options.out.resolve() / model
    out.mkdir(parents=True, exist_ok=True)
    files, log = save(out / "problems", task, not options.without_copies), out / "race.jsonl"
    log.touch()
    there = [json.loads(line) for line in log.read_text().splitlines()]
    counts = {"steps": options.steps or task.steps, "every": options.every or task.every}
    for seed, key in product(options.seeds, arms):
        asked = {"model": model, "arm": key, **counts, "seed": seed}
        if any(asked.items() <= result.items() for result in there):
            continue
        folder = out / f"{key}-{seed}"
        result = run(folder, model, key, files, options.trl_python, **counts, seed=seed)
        with log.open("a") as file:
            file.write(json.dumps(result) + "\n")
        there.append(result)
        print(table([result], model).splitlines()[-1], flush=True)
    print(table(there, model))


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
    of_race.add_argument("--trl-python", type=Path, help="interpreter that has trl")
    of_race.add_argument("--model", choices=("tiny", "smollm2"), default="tiny")
    of_race.add_argument("--arms", nargs="+")
    of_race.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    of_race.add_argument("--steps", type=int, help="of the task: 85 and 32")
    of_race.add_argument("--every", type=int, help="steps between two validations: 5 and 4")
    of_race.add_argument(
        "--without-copies", action="store_true", help="no problem whose answer is the question"
    )
    of_race.add_argument("--out", type=Path, default=Path("outputs/benchmarks/peers"))
    options = parser.parse_args(words)
    options.run(options)


if __name__ == "__main__":
    main()
