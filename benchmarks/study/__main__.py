"""The study: every arm on every policy, then the tables and the picture.

    python -m benchmarks.study [--out outputs/study] [--workers 2] [--seeds 1 2 3 4 5 6] [--quick |
    --report]

A run that has its file in OUT is not run again. `--quick` is a smoke test and writes nothing
outside OUT. `--report` runs nothing and reports what is there.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from benchmarks.study import mechanism
from benchmarks.study.policy import RECIPES
from benchmarks.study.report import write_report
from benchmarks.study.runs import run_all
from benchmarks.study.settings import QUICK, Scale

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=Scale().seeds)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = (
        "1"  # of the workers; more threads make a model this small slower
    )
    scale = QUICK if arguments.quick else replace(Scale(), seeds=tuple(arguments.seeds))
    out = arguments.out or Path("outputs/study-quick" if arguments.quick else "outputs/study")
    if not arguments.report:
        with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool:
            run_everything(scale, out, pool, quick=arguments.quick)
    if arguments.quick:
        write_report(out, out / "results.json", out / "study.png")
    else:
        results = ROOT / "benchmarks" / "study" / "results.json"
        write_report(out, results, ROOT / "docs" / "pictures" / "study.png")


def run_everything(scale: Scale, out: Path, pool: Executor, *, quick: bool) -> None:
    """Both experiments."""
    plan = mechanism.QUICK if quick else mechanism.Plan()
    recipes = {name: replace(r, steps=2) if quick else r for name, r in RECIPES.items()}
    for future in [
        pool.submit(mechanism.run_seed, seed, out, plan, recipes["blank"]) for seed in scale.seeds
    ]:
        future.result()
    run_all(scale, out, pool, recipes["vague"])


if __name__ == "__main__":
    main()
