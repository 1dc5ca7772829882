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
from benchmarks.peers import race, trl_trainers


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
    assert [result["to"]["0.2"]["steps"] for result in results] == [4, 4]
    assert [result["to"]["0.35"]["steps"] for result in results] == [8, 8]
    assert all(result["tokens"] == 100 for result in results)
