"""`recipes/rl2f`: its configs, and what its episodes and dialogues are."""

from __future__ import annotations

import json
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
from tests.recipes.composing import RECIPES, composed, rltf_of
from tests.support.commands import ran
from tests.support.judge.server import InThread, JudgeServer

RECIPE = RECIPES / "rl2f"
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
        words = [
            *("eval", train, "--config", folder / "rl2f.yaml", "episode.stop_when_solved_val=true"),
            *(f"endpoint.base_url={url}", "endpoint.model=student"),
            *(f"feedback.endpoint.base_url={url}", "-n", 8, "--rounds", 4),
            *("--out", folder / "out"),
        ]
        ran(*words)
        yield folder / "out", list(read_episodes(folder / "out" / "episodes")), thread.server.bodies


def test_only_the_teacher_sees_the_reference(run) -> None:
    _, _, bodies = run
    student = [body for body in bodies if body["model"] == "student"]
    teacher = [body for body in bodies if body["model"] != "student"]
    for body in student:
        assert not any(
            reference in json.dumps(body["messages"]) for reference in REFERENCES.values()
        )
    for body in teacher:
        question = next(q for q in REFERENCES if q in body["messages"][0]["content"])
        assert REFERENCES[question] in body["messages"][0]["content"]
    assert student
    assert teacher


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


def test_a_hint_that_tells_is_asked_for_again_and_then_dropped(run) -> None:
    _, episodes, _ = run
    first = {q: [s["turns"][0] for s in episodes if q in s["question"]] for q in REFERENCES}
    assert all(
        turn["feedback"]["text"] == HINT.format("a") for turn in first[SOLVED] + first[NEVER]
    )
    assert any(turn["feedback"]["leak"] for turn in first[SOLVED] + first[NEVER]), "regenerated"
    assert all(turn["stop"] == "feedback_unavailable" for turn in first[TOLD])
    assert all(REFERENCES[TOLD] in turn["withheld"]["text"] for turn in first[TOLD])


def test_verls_dataset_trains_on_the_students_words_only(run, tmp_path) -> None:
    folder, _, _ = run
    out = tmp_path / "dialogues.parquet"
    ran("log", "export", folder / "episodes", "--split", "val", "--out", out)
    assert set(pq.read_table(out)["num_turns"].to_pylist()) == {3}, "those that ended right"
    tokenizer = AutoTokenizer.from_pretrained(RECIPES / "demo" / "policy")
    item = MultiTurnSFTDataset([str(out)], tokenizer, composed("rl2f/sft").data)[0]
    trained, whole = (
        tokenizer.decode(ids, skip_special_tokens=True).replace(" ", "")
        for ids in (item["input_ids"][item["loss_mask"].bool()], item["input_ids"])
    )
    assert trained == "".join(f"Itis\\boxed{{{said}}}" for said in (0, 1, REFERENCES[SOLVED]))
    assert HINT.format("a").replace(" ", "") in whole
