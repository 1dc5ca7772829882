"""Logit distillation in verl's own engine, on one and two ranks, packed and not: outcomes and
gradients against plain PyTorch on the same weights."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.support import engine_rank

pytestmark = pytest.mark.e2e
POLICY = Path(__file__).parents[2] / "recipes" / "demo" / "policy"
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
    "two ranks, padded, micro-batches of one row": (
        2,
        [
            "actor_rollout_ref.model.use_remove_padding=false",
            f"{ACTOR}.use_dynamic_bsz=false",
            f"{ACTOR}.ppo_micro_batch_size_per_gpu=1",
        ],
    ),
}


def run(folder, world, overrides):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    settings = [
        *(["rltf/hardware=cpu"] if not any("hardware" in o for o in overrides) else []),
        f"actor_rollout_ref.model.path={POLICY}",
        f"rltf.logit_distill.top_k={TOP_K}",
        f"rltf.logit_distill.beta={BETA}",
        f"{ACTOR}.policy_loss.loss_mode=importance_sampling",
        *overrides,
    ]
    ranks = []
    for rank in range(world):
        env = {
            **os.environ,
            "VERL_PLATFORM": "cpu",
            "OMP_NUM_THREADS": "1",
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(world),
            "LOCAL_WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        command = [sys.executable, engine_rank.__file__, str(folder / "out.pt"), *settings]
        with (folder / f"{rank}.txt").open("wb") as log:
            ranks.append(subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT))
    try:
        codes = [process.wait(TIMEOUT) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert codes == [0] * world, (folder / "0.txt").read_text()[-3000:]
    return torch.load(folder / "out.pt")


def log_probs(model, prompt, response):
    logits = model(torch.cat([prompt, response]).unsqueeze(0)).logits[0, len(prompt) - 1 : -1]
    return (logits / engine_rank.TEMPERATURE).log_softmax(-1)


def outcomes(values, ids):
    """Probabilities of the tokens and of all others, in double precision."""
    p = values.double().exp()
    return torch.cat([p.gather(-1, ids), p.scatter(-1, ids, 0.0).sum(-1, keepdim=True)], dim=-1)


EVERY_RUN = "two ranks, packed, micro-batches by tokens"


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(name, marks=[] if name == EVERY_RUN else pytest.mark.nightly)
        for name in LAYOUTS
    ],
)
def test_outcomes_and_gradient_equal_plain_pytorch(tmp_path, layout):
    record = run(tmp_path, *LAYOUTS[layout])
    model = AutoModelForCausalLM.from_pretrained(
        POLICY, dtype=torch.float32, attn_implementation="eager"
    )
    loss, divergence, tokens = torch.zeros(()).double(), 0.0, 0
    for row, (ids, said) in zip(record["rows"], record["said"], strict=True):
        student = log_probs(model, row["x0"], row["y"])
        own = student.gather(-1, row["y"].unsqueeze(-1)).double()
        loss = (
            loss - (row["advantage"] * (own + 1).exp()).sum()
        )  # the old log-prob is -1 everywhere
        assert len(ids) == (len(row["y"]) if len(row["x1"]) else 0)
        if not len(ids):
            continue
        with torch.no_grad():
            teacher = log_probs(model, row["x1"], row["y"])
        assert (ids.long() == teacher.topk(TOP_K).indices).all()
        p, q = outcomes(teacher, ids.long()), outcomes(student, ids.long())
        assert (p.log() - said).abs().max() < 1e-4
        m = BETA * p + (1 - BETA) * q
        jsd = (BETA * p * (p / m).log() + (1 - BETA) * q * (q / m).log()).sum()
        loss, divergence, tokens = (
            loss + engine_rank.LOGIT_WEIGHT * jsd,
            divergence + jsd.item(),
            tokens + len(ids),
        )
    (loss / engine_rank.NUM_SESSIONS).backward()
    for name, parameter in model.named_parameters():
        assert (record["grads"][name] - parameter.grad).abs().max() < 1e-5, name
    reported = sum(torch.tensor(v).sum().item() for v in record["divergence"]) / len(
        record["divergence"]
    )
    # The engine has the probabilities in fp32: 6e-8 near 1.
    assert reported == pytest.approx(divergence / tokens, rel=1e-4, abs=1e-7)
    assert (record["micro"] > 1) == ("micro-batches" in layout)
