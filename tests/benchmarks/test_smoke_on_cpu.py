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

import psutil
import pytest
import verl  # noqa: F401  loads the plugin, which adds the search path

from rltf_verl.adapters.startup.checks import check_config
from tests.support.configs import composed

ROOT = Path(__file__).parents[2]
SMALL = {
    "cpu_rollout": "--requests 4 --hidden 16 --layers 1 --repeats 1",
    "targets": "--sessions 64 --repeats 1 --out {out}",
    "judge": "--latency 0.01 --cap 4 --num 8 --runs 1",
    "precision": "--shape tiny --problems 1 --repeats 1",
    "envs": "--problems 200 --seconds 0.001 --out {out}",
}
"""Options with which a benchmark takes seconds."""
SHOWN = {
    "cpu_rollout": r"^ +4( +\d+){4,5}$",
    "targets": r"largest difference of any advantage: \d\.\de-\d\d",
    "judge": r"answers/s of 400\.0 ideal",
    "precision": r"^ +update +bf16( +\d+){2} +\d+\.\d\d +\d+\.\d$",
    "envs": r"shortest_path strict",
}
WITH_TRAINER = ("controller", "logging_cost", "scale", "step_costs")
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
            log = folder / way / "checkpoints" / "episodes"
            log.mkdir(parents=True)
            (log / "00000001.train.jsonl").write_text("{}\n")
            (folder / way / "probe.trainer.1").write_text("0.5 0.25\n")
            steps[way] = [dict(self.metrics)] * config.trainer.total_training_steps
            self.ways += 1
        assert not probe or (ROOT / "benchmarks" / f"{probe}.py").exists()
        return steps


@pytest.mark.parametrize(
    ("name", "options", "ways"),
    [
        ("controller", "--repeats 1 --steps 4 --warm-up 1 --problems 2 --hidden 16 --layers 1", 2),
        pytest.param(
            "logging_cost", "--steps 4 --warm-up 1 --problems 2", 3, marks=pytest.mark.nightly
        ),
        pytest.param("scale", "--steps 3 --warm-up 1", 9, marks=pytest.mark.nightly),
    ],
)
def test_a_benchmark_of_the_real_trainer_up_to_the_run_and_after_it(
    name: str, options: str, ways: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nightly job starts the trainer; here its configurations are composed and its metrics are
    given.
    """
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    module: Any = importlib.import_module(name)
    keys = [*getattr(module, "SHOWN", {}).values(), *getattr(module, "MEASURED", {}).values()]
    runs = Runs(
        dict.fromkeys(
            [*keys, "timing_s/step", "rltf/session/total", "controller/rows", "controller/tokens"],
            2.0,
        )
    )
    monkeypatch.setattr(module, "run_together", runs)
    monkeypatch.setattr(sys, "argv", [name, *options.split(), "--out", str(tmp_path)])
    module.main()
    assert runs.ways == ways
    (written,) = tmp_path.glob("*.json")
    assert json.loads(written.read_text())["settings"]["steps"] == int(
        options.partition("--steps ")[2].split()[0]
    )


def test_where_a_step_goes_without_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the processes' clocks to the table's numbers, and the configurations of the runs."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    module: Any = importlib.import_module("step_costs")
    for method, overrides in module.METHODS.items():
        (name,) = [o.removeprefix("--config-name=") for o in overrides if o.startswith("--")]
        own = [o for o in overrides if not o.startswith("--")]
        check_config(composed(name, *own, *module.SETTINGS))
        assert method in module.TURNS_AND_ROWS
    name_of = importlib.import_module("trainer_runs").name_of
    assert name_of("ray::WorkerDict.actor_rollout_update_actor") == "actor"
    assert name_of("/usr/lib/raylet --port") == "Ray's own"
    ticks = [
        (10.0 + 2 * i, {1: ("actor", 5.0 + i), 2: ("trainer", 3.0), 3 + i: ("Ray's own", 0.5)})
        for i in range(module.WARM_UP + 4)
    ]
    assert module.summary(ticks, started=8.5) == {
        "wall_start_s": 8.5,
        "wall_step_s": 2.0,
        "cpu_start_s": {"actor": 5.0, "trainer": 3.0, "Ray's own": 0.0},
        "cpu_step_s": {"actor": 1.0, "trainer": 0.0, "Ray's own": 0.5 / 3},
    }


def test_the_clocks_of_a_run_are_read_at_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    module: Any = importlib.import_module("step_costs")
    steps = module.WARM_UP + 3
    program = f"""
import json, time
for _ in range({steps}):
    time.sleep(0.1)
    with open("metrics.jsonl", "a") as file:
        print(json.dumps({{"data": {{"timing_s/step": 0.0625}}}}), file=file)
time.sleep(0.1)
"""

    def start(folder: Path, overrides: Sequence[str], probe: str) -> tuple[Any, Path]:
        folder.mkdir(parents=True)
        ray_dir = folder / "ray"
        ray_dir.mkdir()
        return subprocess.Popen([sys.executable, "-c", program], cwd=folder), ray_dir

    monkeypatch.setattr(module, "start", start)
    monkeypatch.setattr(importlib.import_module("trainer_runs"), "POLL_S", 0.01)
    before = psutil.Process().children()
    with module.neighbours(2):
        assert len(psutil.Process().children()) == len(before) + 2
        found = module.measure(tmp_path, "sd", steps)
    assert psutil.Process().children() == before
    assert found["wall_start_s"] > 0
    assert found["wall_step_s"] > 0
    assert set(found["cpu_step_s"]) == {"Ray's own"}
    assert not (tmp_path / "run" / "ray").exists()
