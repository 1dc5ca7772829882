"""The scripts of `recipes/rl2f`: what they would start, seen by programs that print their words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.recipes.conftest import Start

RECIPE = Path(__file__).parents[2] / "recipes" / "rl2f"
SERVER = '#!/bin/bash\necho $$ >>served.txt\necho "$*" >>served.txt\ntouch up\nexec /bin/sleep 60\n'


@pytest.fixture(autouse=True)
def a_server_that_comes_up(programs: Path) -> None:
    """`vllm` serves until it is ended; nothing waits long."""
    up = "#!/bin/bash\n[[ -e up ]] && rm up\n"
    short = "#!/bin/bash\nexec /bin/sleep 0.05\n"
    for name, text in {"vllm": SERVER, "sleep": short, "curl": up}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)


@pytest.mark.parametrize(("script", "name"), [("4_rlvr.sh", "rlvr"), ("5_rl2f.sh", "rl2f")])
def test_training(script: str, name: str, start: Start) -> None:
    code, (line,), _ = start(
        RECIPE / script,
        "trainer.test_freq=-1",
        ROLLOUT="sglang",
        MODEL="mine",
        RL2F_OUT="o",
        NUM_GPUS="4",
    )
    words = line.split()
    assert code == 0
    assert words[:3] == ["python3", "-m", "verl.trainer.main_ppo"]
    assert words[words.index("--config-name") + 1] == name
    assert words[-1] == "trainer.test_freq=-1", "the user's overrides come last"
    assert {
        "actor_rollout_ref.rollout.name=sglang",
        "actor_rollout_ref.model.path=mine",
        "trainer.n_gpus_per_node=4",
        f"trainer.default_local_dir=o/{name}",
    } <= set(words)
    assert start(RECIPE / script, ROLLOUT="hf")[0] == 2


def test_the_probe_serves_the_base_model_on_loopback_and_ends_it(
    start: Start, tmp_path: Path
) -> None:
    code, (played, shown, gate), _ = start(
        RECIPE / "1_probe.sh", "--problems", "9", MODEL="mine", STUDENT_PORT="8123"
    )
    assert code == 0
    assert played.startswith("rltf eval data/rl2f/train.parquet --config outputs/rl2f/rl2f.yaml ")
    assert "endpoint.base_url=http://127.0.0.1:8123/v1 endpoint.model=mine" in played
    assert played.endswith("--out outputs/rl2f/probe --problems 9")
    assert (tmp_path / "outputs/rl2f/probe.json").read_text() == f"{shown} --json\n"
    assert gate.endswith("probe_gate.py outputs/rl2f/probe.json")
    pid, served = (tmp_path / "served.txt").read_text().splitlines()
    assert served.startswith("serve mine --host 127.0.0.1 --port 8123 ")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    settings = (tmp_path / "outputs" / "rl2f" / "rl2f.yaml").read_text()
    assert settings.strip().endswith("--config-name rl2f --cfg job --resolve")


def test_dialogues_from_an_endpoint_that_is_there(start: Start, tmp_path: Path) -> None:
    endpoint = {"STUDENT_BASE_URL": "http://h/v1", "STUDENT_MODEL": "m", "PROBLEMS": "5"}
    code, (played, exported), _ = start(RECIPE / "2_dialogues.sh", "seed=1", **endpoint)
    assert code == 0
    assert "endpoint.base_url=http://h/v1 endpoint.model=m " in played
    assert "--problems 5 " in played
    assert played.endswith("seed=1")
    assert exported == (
        "rltf log export outputs/rl2f/dialogues/episodes --as dialogues --split val "
        "--out outputs/rl2f/dialogues.parquet"
    )
    assert not (tmp_path / "served.txt").exists()


def test_sft_needs_dialogues(start: Start, tmp_path: Path) -> None:
    code, lines, message = start(RECIPE / "3_sft.sh")
    assert (code, lines) == (2, [])
    assert "./2_dialogues.sh writes it" in message
    (tmp_path / "outputs" / "rl2f").mkdir(parents=True)
    (tmp_path / "outputs" / "rl2f" / "dialogues.parquet").touch()
    code, (line,), _ = start(RECIPE / "3_sft.sh", "optim.lr=5e-6", NUM_GPUS="2")
    assert code == 0
    assert line.startswith(
        "torchrun --standalone --nproc_per_node=2 -m verl.trainer.sft_trainer --config-dir "
    )
    assert line.endswith("optim.lr=5e-6")
    assert start(RECIPE / "3_sft.sh", "optim.lr=5e-6", NUM_GPUS="2")[0] == 0, "it goes on"
    (tmp_path / "outputs" / "rl2f" / "dialogues.parquet").write_text("more")
    code, lines, message = start(RECIPE / "3_sft.sh", "optim.lr=5e-6", NUM_GPUS="2")
    assert (code, lines) == (2, [])
    assert "holds a run of other dialogues" in message


def test_evaluation_of_all_with_the_same_teacher(start: Start, tmp_path: Path) -> None:
    out = tmp_path / "o"
    for arm, inner in (
        ("sft", "huggingface"),
        ("rlvr", "actor/huggingface"),
        ("rl2f", "actor/huggingface"),
    ):
        weights = out / arm / "global_step_7" / inner / "model.safetensors"
        weights.parent.mkdir(parents=True)
        weights.touch()
        (out / arm / "latest_checkpointed_iteration.txt").write_text("7")
    code, lines, _ = start(RECIPE / "6_evaluate.sh", "-n", "2", RL2F_OUT="o", MODEL="mine")
    assert code == 0
    *evaluated, table = lines
    served = [
        "mine",
        "o/sft/global_step_7/huggingface",
        *(f"o/{a}/global_step_7/actor/huggingface" for a in ("rlvr", "rl2f")),
    ]
    for line, path, arm in zip(evaluated, served, ("base", "sft", "rlvr", "rl2f"), strict=True):
        assert "--config o/rl2f.yaml" in line
        assert f"endpoint.model={path} " in line
        assert f"--rounds 4 --out o/eval/{arm} -n 2" in line
    assert table.split("side_by_side.py ")[1].split()[0] == "base=o/eval/base/results.json"
    assert len((tmp_path / "served.txt").read_text().splitlines()) == 8


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ("base rl2f", "o/rl2f: no checkpoint with weights in actor/huggingface"),
        ("rlhf", "ARMS: unknown arm rlhf"),
    ],
)
def test_a_checkpoint_that_is_not_there_is_said_before_anything_starts(
    arms: str, message: str, start: Start
) -> None:
    code, lines, error = start(RECIPE / "6_evaluate.sh", ARMS=arms, RL2F_OUT="o")
    assert code != 0
    assert lines == []
    assert message in error


def program(name: str, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RECIPE / name), *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(RECIPE.parents[1]), "COLUMNS": "200"}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def probed(first: float | None, dead: float | None = 0.3, blocks: bool = False) -> dict[str, Any]:
    shares = {"first_right": first, "dead_groups": dead, "corrected": 0.4}
    level = "error" if blocks else "note"
    findings = [{"key": "cut_off", "value": "50 %", "why": "too short", "level": level}]
    return {
        "measured": {"shares": {k: {"value": v} for k, v in shares.items()}},
        "findings": findings,
    }


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        (probed(0.04), "solves 4.0% at once, less than 5%; hints fix 40% of its wrong answers"),
        (probed(0.96), "solves 96.0% at once, more than 95%"),
        (probed(0.5, 0.8), "80% of the groups have equal rewards (zero variance)"),
        (probed(0.5, blocks=True), "rltf probe: cut_off=50 %: too short"),
        (probed(None, None), "no first answer could be graded"),
    ],
)
def test_the_gate_stops(probe: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "probe.json").write_text(json.dumps(probe))
    ended = program("probe_gate.py", tmp_path / "probe.json")
    assert ended.returncode == 1
    assert ended.stderr.startswith("STOP: ")
    assert message in ended.stderr


def results(accuracy: list[float]) -> dict[str, Any]:
    values = {"revisions/plasticity": 0.9, "revisions/corrected": 0.25}
    for k, value in enumerate(accuracy, 1):
        values[f"turn_{k}/standing"] = value
        values[f"turn_{k}/improvement"] = value - accuracy[0]
    numbers = {
        name: {"value": value, "low": None, "high": None, "problems": 1}
        for name, value in values.items()
    }
    return {"results": {"rltf/math": {"num_turns": len(accuracy), "numbers": numbers}}}


def test_the_four_metrics_side_by_side(tmp_path: Path) -> None:
    for name, accuracy in (("a", [0.5, 0.625]), ("b", [0.25, 0.125]), ("c", [0.5])):
        (tmp_path / f"{name}.json").write_text(json.dumps(results(accuracy)))
    message = program("side_by_side.py", *(f"{arm}={tmp_path / arm}.json" for arm in "ab"))
    assert message.returncode == 0, message.stderr
    lines = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in message.stdout.splitlines()
        if "│" in line
    ]
    assert lines == [
        ["accuracy, turn 1", "50.0", "25.0"],
        ["accuracy, turn 2", "62.5", "12.5"],
        ["multi-turn gain", "+12.5", "-12.5"],
        ["plasticity", "90.0", "90.0"],
        ["correction success", "25.0", "25.0"],
    ]
    differ = program("side_by_side.py", *(f"{arm}={tmp_path / arm}.json" for arm in "ac"))
    assert "evaluate all with the same --rounds" in differ.stderr
