"""`rltf feedback check`: planted faults are named, and good feedback is left alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rltf_verl.envs.dry_run import DryRun
from rltf_verl.findings import Finding
from rltf_verl.tools.evaluate.probe import checked_feedback
from rltf_verl.tools.feedback import attempts
from rltf_verl.tools.feedback.verdicts import FAULTS as RULES, findings_of
from tests.support.commands import ran, refused, rltf
from tests.tools.feedback.functions import FAULTS, GOOD, TASKS

FUNCTIONS = Path(__file__).with_name("functions.py")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "CALL_S", 1.0)


def written(folder: Path, task: str) -> Path:
    rows = [
        {
            "data_source": task,
            "prompt": [{"role": "user", "content": question}],
            "reward_model": {"style": "rule", "ground_truth": answer},
            "extra_info": {"index": i},
        }
        for i, (question, answer) in enumerate(TASKS[task])
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / f"{task}.parquet")
    return folder / f"{task}.parquet"


def found(overrides: dict[str, Any], file: Path) -> list[Finding]:
    return findings_of(checked_feedback(overrides, file, 8, None, DryRun(60.0)))


def of_function(name: str, file: Path) -> list[Finding]:
    env = {"name": "reward_function", "function": f"{FUNCTIONS}:{name}"}
    return found({"env": env}, file)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(name: str, tmp_path: Path) -> None:
    task, verdict = FAULTS[name]
    lines = of_function(name, written(tmp_path, task))
    assert verdict in [line.key for line in lines], lines
    print(*lines, sep="\n")


@pytest.mark.parametrize("name", GOOD)
def test_good_feedback_has_no_fault(name: str, tmp_path: Path) -> None:
    assert of_function(name, written(tmp_path, GOOD[name])) == []


def test_each_verdict_has_a_planted_fault() -> None:
    errors = {rule.name for rule in RULES if rule.level == "error"}
    assert {verdict for _, verdict in FAULTS.values()} == errors
