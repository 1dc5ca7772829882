"""The race beside plain verl and TRL, without its runs, and all of TRL's side that needs no TRL."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import verl  # noqa: F401  loads the plugin, which adds the search path

from benchmarks import trainer_runs
from benchmarks.peers import __main__ as peers
from benchmarks.peers import problems, race, trl_trainers
from benchmarks.peers.arms import ARMS, verl_overrides
from benchmarks.peers.tasks import TASKS
from rltf_verl.adapters.startup.checks import check_config
from tests.support.configs import composed

COUNTS = {"steps": 8, "every": 4, "seed": 3}
VERL = [(model, key) for model in ARMS for key, arm in ARMS[model].items() if not arm.trl]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, problems.Files]:
    return problems.save(tmp_path_factory.mktemp("problems"), TASKS["tiny"])


def test_the_losses_say_when_trl_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere it is run by hand; `tests/algos/test_trl_on_cpu.py` holds its numbers."""
    monkeypatch.setitem(sys.modules, "trl", None)
    with pytest.raises(SystemExit, match="trl is not installed here; pip install trl=="):
        peers.main(["losses"])


@pytest.mark.parametrize(
    ("model", "key"), [VERL[0], *(pytest.param(*k, marks=pytest.mark.nightly) for k in VERL[1:])]
)
def test_the_trainers_share_batch_answers_and_optimiser(
    model: str, key: str, files: dict[str, problems.Files]
) -> None:
    arm = ARMS[model][key]
    words = verl_overrides(model, arm, files[arm.files], **COUNTS)
    (name,) = [o.removeprefix("--config-name=") for o in words if o.startswith("--")]
    config = composed(name, *(o for o in words if not o.startswith("--")))
    if "rltf" in config:
        check_config(config)
    optim, theirs = config.actor_rollout_ref.actor.optim, trl_trainers.race_settings(TASKS[model])
    rollout = config.actor_rollout_ref.rollout
    assert theirs["per_device_train_batch_size"] == config.data.train_batch_size * rollout.n
    assert (theirs["num_generations"], TASKS[model].tested) == (rollout.n, rollout.val_kwargs.n)
    assert theirs["max_completion_length"] == config.data.max_response_length
    assert theirs["learning_rate"] == optim.lr
    assert [theirs["adam_beta1"], theirs["adam_beta2"]] == list(optim.betas)
    assert theirs["weight_decay"] == optim.weight_decay
    assert theirs["max_grad_norm"] == optim.clip_grad
    assert theirs["lr_scheduler_type"] == optim.lr_scheduler_type
    assert (rollout.temperature, rollout.val_kwargs.temperature) == (1.0, 1.0)
    assert (config.trainer.total_training_steps, config.trainer.test_freq) == (8, 4)


def test_all_are_asked_the_same_problems_and_given_the_same_grade(
    files: dict[str, problems.Files],
) -> None:
    ours, theirs = (problems.read(files[way].test) for way in ("ours", "verl"))
    assert ours == theirs
    assert len(ours) == TASKS["tiny"].num_test
    assert all(problem.demonstration.count("=") == 9 for problem in ours)
    right, none = ours[0].reference, "?"
    told = problems.compute_score("", right, ours[0].reference, problems_info(files["verl"].test))
    assert told == {"score": 1.0, "acc": 1.0}
    assert problems.scores(ours[:1], [none]) == [{"score": -problems.FORMAT_COEF, "acc": 0.0}]


def problems_info(path: Path) -> dict[str, Any]:
    rows: list[dict[str, Any]] = problems.pq.read_table(path).to_pylist()
    return rows[0]["extra_info"]


def test_a_validation_costs_nothing_and_the_first_line_is_start_up_and_a_step() -> None:
    at = [10.0, 13.0, 14.0, 15.0, 16.0, 18.0, 27.0, 30.0]
    assert race.step_costs(at, {7: 0.5}) == [8.0, 2.0, 3.0, 1.0, 1.0, 1.0, 2.0, 2.0, 3.0]


def test_time_to_an_accuracy_is_of_the_first_validation_that_finds_it() -> None:
    costs = {"wall": [8.0, 2.0, 2.0, 3.0], "cpu": [4.0, 1.0, 1.0, 1.5]}
    held_out = {1: 0.0, 2: 0.25, 3: 0.1}
    assert race.time_to(0.2, held_out, costs) == {
        "steps": 2,
        "wall": 4.0,
        "cpu": 2.0,
        "wall with start-up": 12.0,
        "cpu with start-up": 6.0,
    }
    assert race.time_to(0.35, held_out, costs) is None


def program(steps: int) -> str:
    """Writes metrics as a run does; the accuracy rises at every second step."""
    return f"""
import json, os, time
for step in range(1, {steps} + 1):
    time.sleep(0.06)
    data = {{"tokens": 100}} | ({{}} if step % 2 else {{{trl_trainers.ACC!r}: step / 20}})
    with open("metrics.jsonl", "a") as file:
        print(json.dumps({{"step": step, "data": data}}), file=file)
"""


@pytest.mark.nightly
def test_the_race_runs_what_is_missing_and_prints_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = []

    def launch(folder: Path, command: Sequence[str], probe: str = "") -> tuple[Any, Path]:
        started.append(command)
        folder.mkdir(parents=True)
        child = subprocess.Popen([sys.executable, "-c", program(8)], cwd=folder)
        return child, folder / "ray"

    monkeypatch.setattr(trainer_runs, "POLL_S", 0.01)
    monkeypatch.setattr(race, "launch", launch)
    monkeypatch.setattr(race, "start", launch)
    words = ["race", "--arms", "sd", "trl_sdpo", "--seeds", "1", "--steps", "8", "--every", "2"]
    words += ["--out", str(tmp_path)]
    peers.main(words)
    assert len(started) == 1
    peers.main([*words, "--trl-python", "python-with-trl"])
    assert [command[0] for command in started] == ["--config-name=rltf_sd", "python-with-trl"]
    assert "this package: RLTF-SD" in (shown := capsys.readouterr().out)
    assert "| TRL: SDPO |" in shown
    assert "not in 8 steps" not in shown
    results = [json.loads(line) for line in (tmp_path / "tiny/race.jsonl").read_text().splitlines()]
    assert [one["to"]["0.2"]["steps"] for one in results] == [4, 4]
    assert [one["to"]["0.35"]["steps"] for one in results] == [8, 8]
    assert all(one["tokens"] == 100 for one in results)


def test_a_run_that_fails_ends_the_race_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, problems.Files]
) -> None:
    def launch(folder: Path, command: Sequence[str]) -> tuple[Any, Path]:
        folder.mkdir(parents=True)
        (folder / "log.txt").write_text("no such trainer\n")
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"]), folder / "ray"

    monkeypatch.setattr(trainer_runs, "POLL_S", 0.01)
    monkeypatch.setattr(race, "launch", launch)
    with pytest.raises(SystemExit, match="trl_grpo failed:\nno such trainer"):
        race.run(tmp_path / "run", "tiny", "trl_grpo", files, Path("python"), **COUNTS)
