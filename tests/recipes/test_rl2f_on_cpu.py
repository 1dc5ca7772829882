"""`recipes/rl2f`: its configs, what its episodes and dialogues are, and what its scripts would
start, seen by programs that print their words.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import verl  # noqa: F401  # registers our search path with Hydra
from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.tools.data.build import build_parquet
from tests.recipes.composing import RECIPES, composed, program, rltf_of
from tests.recipes.conftest import Start, write_program
from tests.support.commands import ran
from tests.support.judge.server import InThread, JudgeServer

PPO = ("rl2f/rl2f", "rl2f/rlvr")


def test_the_baseline_differs_in_the_method_alone() -> None:
    (ours, method), (theirs, _) = ((composed(name), rltf_of(name)) for name in PPO)
    for key in (
        *("judge", "trainer", "algorithm", "actor_rollout_ref.actor", "actor_rollout_ref.model"),
        *("data.train_files", "data.val_files", "data.train_batch_size"),
        "data.max_response_length",
    ):
        assert OmegaConf.select(ours, key, throw_on_missing=True) == OmegaConf.select(
            theirs, key
        ), key
    assert ours.actor_rollout_ref.rollout.n == theirs.actor_rollout_ref.rollout.n
    assert (method.attempt.weight, method.distill.enabled, method.imitate.enabled) == (
        1.0,
        False,
        False,
    )


def test_the_sft_trainer_takes_the_longest_dialogue() -> None:
    sft, rl2f = composed("rl2f/sft").data, composed("rl2f/rl2f").data
    assert sft.max_length >= rl2f.max_prompt_length + rl2f.max_response_length
    assert sft.max_token_len_per_gpu >= sft.max_length


REFERENCES = {"How many edges?": "4173", "How many corners?": "5829", "How many faces?": "7364"}
SOLVED, NEVER, TOLD = REFERENCES
"""Right at the third answer; never right; the teacher cannot help telling it."""
LEAK = "The answer is {}."
HINT = "Count them again, side {}."


def played(body: dict[str, Any]) -> str:
    """Student and teacher."""
    said = "\n".join(message["content"] for message in body["messages"])
    question = next(q for q in REFERENCES if q in said)
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    if body["model"] == "student":
        return (
            f"It is \\boxed{{{REFERENCES[question] if question == SOLVED and turn == 2 else turn}}}"
        )
    leaks = question == TOLD or (turn == 0 and body["seed"] % 2)
    hint = LEAK.format(REFERENCES[question]) if leaks else HINT.format("abcde"[turn])
    return f"Thinking: hm.\n\nHint: {hint}"


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Path, list[dict[str, Any]], list[dict[str, Any]]]]:
    """The folder of episodes of the recipe's config, the episodes, the bodies of all requests."""
    folder = tmp_path_factory.mktemp("rl2f")
    source = folder / "problems.jsonl"
    source.write_text(
        "\n".join(json.dumps({"question": q, "answer": a}) for q, a in REFERENCES.items())
    )
    train = build_parquet("math", folder / "data", 0, 3, 0, source=str(source)).train
    OmegaConf.save(composed("rl2f/rl2f"), folder / "rl2f.yaml", resolve=True)
    with InThread(JudgeServer(reply=played)) as thread:
        url = thread.server.url
        ran(
            *("eval", train, "--config", folder / "rl2f.yaml", "episode.stop_when_solved_val=true"),
            *(f"endpoint.base_url={url}", "endpoint.model=student"),
            *(f"feedback.endpoint.base_url={url}", "-n", 8, "--rounds", 4),
            *("--out", folder / "out"),
        )
        yield folder / "out", list(read_episodes(folder / "out" / "episodes")), thread.server.bodies


def test_only_the_teacher_sees_the_reference(run) -> None:
    _, _, bodies = run
    assert {body["model"] == "student" for body in bodies} == {True, False}
    for body in bodies:
        read = json.dumps(body["messages"])
        asked = {reference for question, reference in REFERENCES.items() if question in read}
        seen = {reference for reference in REFERENCES.values() if reference in read}
        assert seen == (set() if body["model"] == "student" else asked)


def test_an_episode_is_one_dialogue_of_at_most_five_answers(run) -> None:
    _, episodes, bodies = run
    turns = {
        q: {len(episode["turns"]) for episode in episodes if q in episode["question"]}
        for q in REFERENCES
    }
    assert turns == {SOLVED: {3}, NEVER: {5}, TOLD: {1}}
    last = max((body["messages"] for body in bodies if body["model"] == "student"), key=len)
    assert [message["role"] for message in last] == ["user", "assistant"] * 4 + ["user"]
    assert [HINT.format(side) in last[2 * k + 2]["content"] for k, side in enumerate("abcd")] == [
        True
    ] * 4


def test_verls_dataset_trains_on_the_students_words_only(run, tmp_path) -> None:
    folder, _, _ = run
    out = tmp_path / "dialogues.parquet"
    ran("log", "export", folder / "episodes", "--split", "val", "--out", out)
    assert set(pq.read_table(out)["num_turns"].to_pylist()) == {3}, "those that ended right"
    tokenizer = AutoTokenizer.from_pretrained(RECIPES / "demo" / "policy")
    item = MultiTurnSFTDataset([str(out)], tokenizer, composed("rl2f/sft").data)[0]
    ids, trained = item["input_ids"], item["loss_mask"].bool()
    said = tokenizer.decode(ids[trained], skip_special_tokens=True).replace(" ", "")
    assert said == "".join(f"Itis\\boxed{{{one}}}" for one in (0, 1, REFERENCES[SOLVED]))
    assert HINT.format("a").replace(" ", "") in tokenizer.decode(ids).replace(" ", "")


RECIPE = RECIPES / "rl2f"
UP = "#!/bin/bash\n[[ -e up ]] && rm up\n"
SHORT = "#!/bin/bash\nexec /bin/sleep 0.05\n"
SERVER = '#!/bin/bash\necho $$ >>served.txt\necho "$*" >>served.txt\ntouch up\nexec /bin/sleep 60\n'


@pytest.fixture(autouse=True)
def a_server_that_comes_up(programs: Path) -> None:
    """`vllm` serves until it is ended; nothing waits long."""
    for name, text in {"vllm": SERVER, "sleep": SHORT, "curl": UP}.items():
        write_program(programs / name, text)


@pytest.mark.parametrize(("script", "name"), [("4_rlvr.sh", "rlvr"), ("5_rl2f.sh", "rl2f")])
def test_training(script: str, name: str, start: Start) -> None:
    (line,), _ = start(
        RECIPE / script,
        "trainer.test_freq=-1",
        ROLLOUT="sglang",
        MODEL="mine",
        RL2F_OUT="o",
        NUM_GPUS="4",
    )
    assert f"--config-name {name} " in line
    assert line.endswith(" trainer.test_freq=-1"), "the user's overrides come last"
    assert {
        "actor_rollout_ref.rollout.name=sglang",
        "actor_rollout_ref.model.path=mine",
        "trainer.n_gpus_per_node=4",
        f"trainer.default_local_dir=o/{name}",
    } <= set(line.split())


def test_the_probe_serves_the_base_model_on_loopback_and_ends_it(
    start: Start, tmp_path: Path
) -> None:
    (played, shown, gate), _ = start(
        RECIPE / "1_probe.sh", "--problems", "9", MODEL="mine", STUDENT_PORT="8123"
    )
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


def test_sft_needs_dialogues(start: Start, tmp_path: Path) -> None:
    dialogues = tmp_path / "outputs/rl2f/dialogues.parquet"
    dialogues.parent.mkdir(parents=True)
    assert start(RECIPE / "3_sft.sh", status=2)[0] == []
    dialogues.touch()
    (line,), _ = start(RECIPE / "3_sft.sh", "optim.lr=5e-6", NUM_GPUS="2")
    assert line.startswith(
        "torchrun --standalone --nproc_per_node=2 -m verl.trainer.sft_trainer --config-dir "
    )
    assert line.endswith("optim.lr=5e-6")
    assert start(RECIPE / "3_sft.sh", "optim.lr=5e-6", NUM_GPUS="2")[0] == [line], "it goes on"
    dialogues.write_text("more")  # the folder holds a run of other dialogues
    assert start(RECIPE / "3_sft.sh", "optim.lr=5e-6", NUM_GPUS="2", status=2)[0] == []


def test_evaluation_of_all_with_the_same_teacher(start: Start, tmp_path: Path) -> None:
    served = {
        "sft": "o/sft/global_step_7/huggingface",
        "rlvr": "o/rlvr/global_step_7/actor/huggingface",
        "rl2f": "o/rl2f/global_step_7/actor/huggingface",
    }
    for arm, folder in served.items():
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "model.safetensors").touch()
        (tmp_path / "o" / arm / "latest_checkpointed_iteration.txt").write_text("7")
    (*evaluated, table), _ = start(RECIPE / "6_evaluate.sh", "-n", "2", RL2F_OUT="o", MODEL="mine")
    arms = [("base", "mine"), *served.items()]
    for line, (arm, path) in zip(evaluated, arms, strict=True):
        assert "--config o/rl2f.yaml" in line
        assert f"endpoint.model={path} " in line
        assert f"--rounds 4 --out o/eval/{arm} -n 2" in line
    assert table.split("side_by_side.py ")[1].split()[0] == "base=o/eval/base/results.json"
    assert len((tmp_path / "served.txt").read_text().splitlines()) == 8


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
        (
            probed(0.04),
            "the base model solves 4.0% at once, less than 5%; hints fix 40% of",
        ),
        (probed(0.96), "the base model solves 96.0% at once, more than 95%"),
        (probed(0.5, 0.8), "80% of the groups have equal rewards (zero variance)"),
        (probed(0.5, blocks=True), "rltf probe: cut_off=50 %: too short"),
        (probed(None, None), "no first answer could be graded"),
    ],
)
def test_the_gate_stops(
    probe: dict[str, Any],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "probe.json").write_text(json.dumps(probe))
    monkeypatch.setattr(sys, "argv", ["probe_gate.py", str(tmp_path / "probe.json")])
    with pytest.raises(SystemExit, match="True"):
        program("rl2f/probe_gate.py").main()
    assert f"STOP: {message}" in capsys.readouterr().err
