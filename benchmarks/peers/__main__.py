"""This package beside plain verl and TRL.

    python -m benchmarks.peers race --trl-python PYTHON   # trainers in turns, a table
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
    found = {"trl": TRL, **golden()}
    options.golden.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def race(options: argparse.Namespace) -> None:
    """Run what is missing, one after the other, seeds outermost."""
    from benchmarks.peers.arms import ARMS
    from benchmarks.peers.problems import save
    from benchmarks.peers.race import run, table

    arms = [key for key in options.arms or ARMS if options.trl_python or not ARMS[key].trl]
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    files, log = save(out / "problems", not options.without_copies), out / "race.jsonl"
    log.touch()
    there = [json.loads(line) for line in log.read_text().splitlines()]
    for seed, key in product(options.seeds, arms):
        counts = {"steps": options.steps, "every": options.every, "seed": seed}
        if any({"arm": key, **counts}.items() <= one.items() for one in there):
            continue
        result = run(out / f"{key}-{seed}", key, files, options.trl_python, **counts)
        with log.open("a") as file:
            file.write(json.dumps(result) + "\n")
        there.append(result)
        print(table([result]).splitlines()[-1], flush=True)
    print(table(there))


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
    of_race.add_argument("--arms", nargs="+")
    of_race.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    of_race.add_argument("--steps", type=int, default=85)
    of_race.add_argument("--every", type=int, default=5, help="steps between two validations")
    of_race.add_argument(
        "--without-copies", action="store_true", help="no problem whose answer is the question"
    )
    of_race.add_argument("--out", type=Path, default=Path("outputs/benchmarks/peers"))
    options = parser.parse_args(words)
    options.run(options)


if __name__ == "__main__":
    main()
