"""The study: every method, feedback level and seed, then the table and the picture.

    python -m benchmarks.study [--out outputs/study] [--workers 2] [--quick]

A run that has its file in `OUT/runs` is not run again. `--quick` is a smoke test and writes nothing outside OUT.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from benchmarks.study.policy import PHASES
from benchmarks.study.report import write_report
from benchmarks.study.runs import run_all
from benchmarks.study.settings import QUICK, Scale

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # of the workers; more threads make a model this small slower
    scale = QUICK if arguments.quick else Scale()
    out = arguments.out or Path("outputs/study-quick" if arguments.quick else "outputs/study")
    with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool:
        run_all(scale, out, pool, [replace(p, steps=2) for p in PHASES] if arguments.quick else PHASES)
    if arguments.quick:
        write_report(out, out / "results.json", out / "study.png")
    else:
        write_report(out, ROOT / "benchmarks" / "study" / "results.json", ROOT / "docs" / "study.png")


if __name__ == "__main__":
    main()
