"""Every benchmark of `make benchmarks` still runs, at small sizes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import verl  # noqa: F401  loads the plugin, which adds the search path

ROOT = Path(__file__).parents[2]
SMALL = {
    "cpu_rollout": "--requests 4 --hidden 16 --layers 1 --repeats 1",
    "logit_memory": "--tokens 8 --vocabulary 1000",
    "log_probs": "--tokens 8 --vocabulary 1000",
    "freed_memory": "--layers 1 --vocabulary 100 --passes 1",
    "targets": "--sessions 64 --repeats 1 --out {out}",
    "judge": "--latency 0.01 --cap 4 --num 8 --runs 1",
    "controller": "--repeats 1 --steps 3 --warm-up 1 --problems 2 --sessions 2 --tokens 16"
    " --hidden 32 --layers 1 --out {out}",
    "driver": "--problems 1 --prompt 16 --answer 32 --out {out}",
    "reach": "--episodes 16 --tokens 16 --latency 0.01",
}
"""Options with which a benchmark takes seconds."""
SHOWN = {
    "cpu_rollout": r"^ +4( +\d+){4,5}$",
    "logit_memory": r"^float32 +in chunks +\d+\.\d +\d+\.\d$",
    "log_probs": r"^float32 +divergence, chunks of 2\^26 +\d+\.\d+ +\d+\.\d+$",
    "freed_memory": r"^kept +\d+\.\d+ +\d+\.\d+ +\d+\.\d+$",
    "targets": r"largest difference of any advantage: \d\.\de-\d\d",
    "judge": r"answers/s of 400\.0 ideal",
    "controller": r"^ours: \d+ steps of \d+ rows",
    "driver": r"^ +16( +\d+\.\d+){7}$",
    "reach": r"^ +16( +\d+\.\d+)+$",
}
ELSEWHERE = {"leak_guard": "test_leak_guard_on_cpu.py"}


def test_none_of_them_is_forgotten() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nbenchmarks:")[2].partition("\n\n")[0]
    assert set(re.findall(r"benchmarks/(\w+)\.py", recipe)) == {*SMALL, *ELSEWHERE}
    assert all((Path(__file__).parent / name).exists() for name in ELSEWHERE.values())


SLOW = {name: [pytest.mark.nightly] for name in SMALL.keys() - {"targets"}}
"""Marks; `targets` makes the trainer's step from settings of its own, which fall behind."""
for name in ("controller", "driver"):
    SLOW[name].append(pytest.mark.e2e)


@pytest.mark.parametrize("name", [pytest.param(n, marks=SLOW.get(n, ())) for n in SMALL])
def test_a_benchmark_runs_by_its_command(name: str, tmp_path: Path) -> None:
    command = [sys.executable, f"benchmarks/{name}.py", *SMALL[name].format(out=tmp_path).split()]
    env = {**os.environ, "VERL_PLATFORM": "cpu"}
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=1800)
    assert run.returncode == 0, run.stderr[-3000:]
    assert re.search(SHOWN[name], run.stdout, re.MULTILINE), run.stdout
