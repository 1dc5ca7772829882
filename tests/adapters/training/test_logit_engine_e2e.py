"""Logit distillation in verl's own engine, on one and two ranks, packed and not: outcomes and
gradients against plain PyTorch on the same weights."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.e2e import recorded
from tests.support.engine import engine_rank, kept_rank, plain
from tests.support.judge.server import free_port

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[3]
POLICY = ROOT / "recipes" / "demo" / "policy"
TOP_K, BETA, TIMEOUT = 6, 0.3, 300
ACTOR = "actor_rollout_ref.actor"
LAYOUTS = {
    "one rank, padded": (1, ["actor_rollout_ref.model.use_remove_padding=false"]),
    "one rank, packed": (1, ["actor_rollout_ref.model.use_remove_padding=true"]),
    "two ranks, packed, micro-batches by tokens": (
        2,
        [
            "actor_rollout_ref.model.use_remove_padding=true",
            f"{ACTOR}.ppo_max_token_len_per_gpu=24",
        ],
    ),
    "two ranks, packed by verl's engine, micro-batches by tokens": (
        2,
        [
            "actor_rollout_ref.model.use_remove_padding=true",
            f"{ACTOR}.ppo_max_token_len_per_gpu=24",
        ],
    ),
    "two ranks, padded, micro-batches of one row": (
        2,
        [
            "actor_rollout_ref.model.use_remove_padding=false",
            f"{ACTOR}.use_dynamic_bsz=false",
            f"{ACTOR}.ppo_micro_batch_size_per_gpu=1",
        ],
    ),
}


def run(folder, world, overrides, script=engine_rank, modules=""):
    port = str(free_port())
    settings = [
        *(["rltf/hardware=cpu"] if not any("hardware" in o for o in overrides) else []),
        f"actor_rollout_ref.model.path={POLICY}",
        f"rltf.logit_distill.top_k={TOP_K}",
        f"rltf.logit_distill.divergence={{name: jsd, beta: {BETA}}}",
        f"{ACTOR}.policy_loss.loss_mode=importance_sampling",
        *overrides,
    ]
    ranks = []
    for rank in range(world):
        env = {
            **os.environ,
            "VERL_PLATFORM": "cpu",
            "OMP_NUM_THREADS": "1",
            "VERL_USE_EXTERNAL_MODULES": modules,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(world),
            "LOCAL_WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        command = [sys.executable, "-m", script.__name__, str(folder / "out.pt"), *settings]
        with (folder / f"{rank}.txt").open("wb") as log:
            ranks.append(
                subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT)
            )
    try:
        codes = [process.wait(TIMEOUT) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert codes == [0] * world, (folder / "0.txt").read_text()[-3000:]
    return torch.load(folder / "out.pt")


log_probs = partial(plain.log_probs, temperature=engine_rank.TEMPERATURE)


def policy():
    return AutoModelForCausalLM.from_pretrained(
        POLICY, dtype=torch.float32, attn_implementation="eager"
    )


@pytest.mark.nightly  # in the trainer, on two ranks: tests/e2e/teacher/test_teacher_e2e.py
@pytest.mark.parametrize("layout", LAYOUTS)
def test_outcomes_and_gradient_equal_plain_pytorch(tmp_path, layout):
    verl_s = "verl" in layout
    record = run(tmp_path, *LAYOUTS[layout], modules="tests.e2e.gpu_engine" if verl_s else "")
    assert record["shared"] == ("one row" not in layout and not verl_s)
    model, loss, divergence, tokens = policy(), torch.zeros(()).double(), 0.0, 0
    for i, (row, (ids, reported_log_probs)) in enumerate(
        zip(record["rows"], record["said"], strict=True)
    ):
        student = log_probs(model, row["x0"], row["y"])
        own = plain.of_tokens(student, row["y"]).double()
        loss = (
            loss - (row["advantage"] * (own + 1).exp()).sum()
        )  # the old log-prob is -1 everywhere
        assert len(ids) == (len(row["y"]) if len(row["x1"]) else 0)
        if not len(ids):
            continue
        with torch.no_grad():
            teacher = log_probs(model, row["x1"], row["y"])
        assert (ids.long() == teacher.topk(TOP_K).indices).all()
        assert (plain.outcomes(teacher, ids.long()).log() - reported_log_probs).abs().max() < 1e-4
        jsd = plain.jsd(student, teacher, TOP_K, BETA)
        loss, divergence, tokens = (
            # `engine_rank` weighs the tokens of every second row twice
            loss + engine_rank.LOGIT_WEIGHT * (1 + i % 2) * jsd,
            divergence + jsd.item(),
            tokens + len(ids),
        )
    (loss / engine_rank.NUM_EPISODES).backward()
    for name, parameter in model.named_parameters():
        assert (record["grads"][name] - parameter.grad).abs().max() < 1e-5, name
    reported = sum(torch.tensor(v).sum().item() for v in record["divergence"]) / len(
        record["divergence"]
    )
    # The engine has the probabilities in fp32: 6e-8 near 1.
    assert reported == pytest.approx(divergence / tokens, rel=1e-4, abs=1e-7)
    assert (record["micro"] > 1) == ("micro-batches" in layout)


def said_by(weights, rows):
    """[T] log-probs of the teacher's rows by a plain forward of these weights."""
    model = policy()
    model.load_state_dict(weights, strict=False)
    with torch.no_grad():
        return [
            plain.of_tokens(log_probs(model, row["x1"], row["y"]), row["y"])
            for row in rows
            if len(row["x1"])
        ]


def assert_answers(answers, expected):
    given = [answer for (answer,) in answers if len(answer)]
    for answer, own in zip(given, expected, strict=True):
        assert (answer - own).abs().max() < 1e-4


OF_AVERAGE = [
    f"{ACTOR}.optim.lr=0.01",
    "rltf.logit_distill.divergence=sampled_token",
    "rltf.teacher.kind=ema",
]
OF_WEIGHTS = {
    "offloaded": [f"{ACTOR}.fsdp_config.param_offload=true"],
    "lora": [
        f"actor_rollout_ref.model.lora_rank={recorded.LORA_RANK}",
        f"actor_rollout_ref.model.lora_alpha={recorded.LORA_ALPHA}",
    ],
}


@pytest.mark.nightly  # other kinds, and on two ranks, in the trainer: tests/e2e/teacher
@pytest.mark.parametrize("kind", OF_WEIGHTS)
def test_an_average_speaks_after_updates_and_after_a_resume(tmp_path, kind):
    """With LoRA it is one of the adapter, which begins as nothing, and the base is without it."""
    record = run(tmp_path, 1, [*OF_AVERAGE, *OF_WEIGHTS[kind]], kept_rank)
    first, moved, share = record["first"], record["moved"], kept_rank.SHARE
    kept = {name: (1 - share) * first[name] + share * moved[name] for name in first}
    of_first, of_kept, of_policy = (
        said_by(recorded.with_adapters(weights), record["rows"]) for weights in (first, kept, moved)
    )
    assert max((a - b).abs().max() for a, b in zip(of_kept, of_policy, strict=True)) > 1e-3
    expected = {"kept at first": of_first, "without adapter": of_first}
    expected |= {"kept": of_kept, "kept after resume": of_kept}
    expected |= {"policy": of_policy, "policy after resume": of_policy}
    for name in expected.keys() & record.keys():
        assert_answers(record[name], expected[name])
