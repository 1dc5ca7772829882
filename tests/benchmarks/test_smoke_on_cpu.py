"""Every benchmark of `make benchmarks` still runs: small sizes, or, of those with the real trainer,
all but the run.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import verl  # noqa: F401  loads the plugin, which adds the search path

from rltf_verl.adapters.startup.checks import check_config
from tests.support.configs import composed

ROOT = Path(__file__).parents[2]
SMALL = {
    "cpu_rollout": "--requests 4 --hidden 16 --layers 1 --repeats 1",
    "targets": "--sessions 64 --repeats 1 --out {out}",
    "judge": "--latency 0.01 --cap 4 --num 8 --runs 1",
}
"""Options with which a benchmark takes seconds."""
SHOWN = {
    "cpu_rollout": r"^ +4( +\d+){4,5}$",
    "targets": r"largest difference of any advantage: \d\.\de-\d\d",
    "judge": r"answers/s of 400\.0 ideal",
}
WITH_TRAINER = ("controller",)
ELSEWHERE = {"leak_guard": "test_leak_guard_on_cpu.py"}


def test_none_of_them_is_forgotten() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nbenchmarks:")[2].partition("\n\n")[0]
    assert set(re.findall(r"benchmarks/(\w+)\.py", recipe)) == {*SMALL, *WITH_TRAINER, *ELSEWHERE}
    assert all((Path(__file__).parent / name).exists() for name in ELSEWHERE.values())


@pytest.mark.nightly
@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_runs_by_its_command(name: str, tmp_path: Path) -> None:
    command = [sys.executable, f"benchmarks/{name}.py", *SMALL[name].format(out=tmp_path).split()]
    env = {**os.environ, "VERL_PLATFORM": "cpu"}
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr[-3000:]
    assert re.search(SHOWN[name], run.stdout, re.MULTILINE), run.stdout


class Runs:
    """In place of `run_together`: composes what the runs would be started with, and gives each step
    these metrics.
    """

    def __init__(self, metrics: Mapping[str, float]) -> None:
        self.metrics, self.ways = metrics, 0

    def __call__(
        self, folder: Path, ways: Mapping[str, Sequence[str]], probe: str
    ) -> dict[str, list[dict[str, float]]]:
        steps = {}
        for way, overrides in ways.items():
            (name,) = [
                o.removeprefix("--config-name=")
                for o in overrides
                if o.startswith("--config-name=")
            ]
            config = composed(name, *(o for o in overrides if not o.startswith("--")))
            if "rltf" in config:
                check_config(config)
            assert Path(config.data.train_files).exists()
            assert (Path(config.actor_rollout_ref.model.path) / "model.safetensors").exists()
            steps[way] = [dict(self.metrics)] * config.trainer.total_training_steps
            self.ways += 1
        assert (ROOT / "benchmarks" / f"{probe}.py").exists()
        return steps


def test_the_controllers_runs_up_to_the_trainer_and_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nightly job starts the trainer; here its configurations are composed and its metrics are
    given.
    """
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    module: Any = importlib.import_module("controller")
    keys = [*module.SHOWN.values(), "timing_s/step", "controller/rows", "controller/tokens"]
    runs = Runs(dict.fromkeys(keys, 2.0))
    options = "--repeats 1 --steps 4 --warm-up 1 --problems 2 --hidden 16 --layers 1"
    monkeypatch.setattr(module, "run_together", runs)
    monkeypatch.setattr(sys, "argv", ["controller", *options.split(), "--out", str(tmp_path)])
    module.main()
    assert runs.ways == 2
    (written,) = tmp_path.glob("*.json")
    assert json.loads(written.read_text())["settings"]["steps"] == 4
