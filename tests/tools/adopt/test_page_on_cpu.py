"""docs/coming_from.md: its function grades, and its first commands do what it says."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from datasets import Dataset

from rltf_verl.registry import load
from tests.e2e import runs
from tests.support.commands import ran, rltf
from tests.support.plan_runs import pretend
from tests.support.verl_rows import verl_row, write_rows
from tests.tools.adopt.bash import started

PAGE, _, OTHERS = (
    (runs.ROOT / "docs" / "coming_from.md").read_text("utf-8").partition("\n## verl's interactions")
)
RUN = """set -x
export CACHE="a b"
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.train_files=$DATA data.val_files=$DATA data.train_batch_size=1 \\
    data.max_prompt_length=100 data.max_response_length=20 \\
    actor_rollout_ref.model.path=$MODEL \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=1 \\
    custom_reward_function.path=reward.py "$@"
"""
ROW = verl_row("012\n101", "12", extra_info={"index": 0, "answer": "1 + 11 = 12\n#### 12"})


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def test_the_reward_function_says_what_is_wrong(tmp_path: Path) -> None:
    (code,) = blocks("python")
    (tmp_path / "reward.py").write_text(code, "utf-8")
    score = load("the page", f"{tmp_path / 'reward.py'}:compute_score")
    assert score("mine", "1 + 11 = 12\n#### 12", "12")["feedback"] == ""
    wrong = score("mine", "#### 13", "12")
    assert (wrong["score"], wrong["acc"], "'13'" in wrong["feedback"]) == (0.0, False, True)


def test_the_functions_for_other_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    interaction, _, trl = re.findall(r"```py\n(.*?)```", OTHERS, re.S)
    Path("gsm8k.py").write_text(interaction, "utf-8")
    score = load("the page", "./gsm8k.py:compute_score")
    assert (score("mine", "4", "4")["feedback"], score("mine", "3", "4")["acc"]) == ("", 0)
    example = {"prompt": [{"role": "user", "content": "2+2"}], "solution": "4"}
    names = {
        "reward_func": lambda answers, solution: [float(answers[0][0]["content"] == solution[0])],
        "dataset": Dataset.from_list([{**example, "privileged_context": "Add."}]),
    }
    exec(trl, names)  # noqa: S102
    (row,) = pq.read_table("train.parquet").to_pylist()
    assert row["prompt"] == example["prompt"]
    truth = row["reward_model"]["ground_truth"]
    graded = [names["compute_score"]("mine", text, truth, row["extra_info"]) for text in "45"]
    assert [(one["acc"], one["feedback"]) for one in graded] == [(1.0, "Add."), (0.0, "Add.")]


def test_its_commands_adopt_and_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"HOME": str(tmp_path), "DATA": "data.parquet", "MODEL": str(runs.POLICY)}
    write_rows(Path("data.parquet"), [ROW])
    Path("run.sh").write_text(RUN, "utf-8")
    Path("reward.py").write_text(blocks("python")[0], "utf-8")
    Path("bin").mkdir()
    program = f'#!/bin/sh\nexec {sys.executable} -m rltf_verl.tools.cli.app "$@"\n'
    Path("bin/rltf").write_text(program, "utf-8")
    Path("bin/rltf").chmod(0o755)
    adopt, plan, doctor, run, *look = (block.strip() for block in blocks("bash"))
    path = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHONPATH": str(runs.ROOT)}
    overrides = "rltf/hardware=cpu rltf.episode.quote=none rltf.episode.revise=compact_guide"
    done = subprocess.run(
        ["bash", "-ec", f"{adopt} {overrides}"], env=environ | path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (plan, doctor) == (f'RUN="rltf plan" {run}', f'RUN="rltf doctor" {run}')
    words, variables = started(tmp_path / run.removeprefix("bash "), environ) or ([], {})
    assert variables["CACHE"] == "a b"
    exports = re.findall(r"^export (\w+)=", Path("run_rltf.sh").read_text("utf-8"), re.MULTILINE)
    assert exports == ["CACHE"], "and nothing that importing torch and Ray sets"
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    pretend(monkeypatch, "cpu")
    planned = ran("plan", *words[2:])
    assert "Check each step of your calculation." in " ".join(planned.stdout.split())
    for line in "\n".join(look).splitlines():
        name = shlex.split(line)[1:2] if "log" not in line else shlex.split(line)[1:3]
        assert rltf(*name, "--help").exit_code == 0
