"""The preset sd_logit in the real trainer, on two data-parallel workers: what the teacher says, and
the step taken.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from rltf_verl.objectives.base import VERL_REDUCES
from rltf_verl.types import Role
from tests.e2e import runs

pytestmark = pytest.mark.e2e
STEPS, TIMEOUT, TOP_K, BETA, WEIGHT, TEMPERATURE = 2, 600, 8, 0.3, 2.0, 0.8
SETTINGS = [
    "trainer.v1.trainer_mode=rltf_recorded",
    "rltf/feedback=correctness",
    "rltf.feedback.provider=flaky",
    "rltf.feedback.guard.action=none",
    "rltf.feedback.acknowledge_leaks=true",
    # so that the policy gradient is not 0 where all episodes fare alike
    "rltf.attempt.estimator=none",
    f"trainer.total_training_steps={STEPS}",
    "trainer.save_freq=1",
    "trainer.n_gpus_per_node=2",
    f"actor_rollout_ref.rollout.temperature={TEMPERATURE}",
    f"rltf.logit_distill.top_k={TOP_K}",
    f"rltf.logit_distill.beta={BETA}",
    f"rltf.logit_distill.weight={WEIGHT}",
    "rltf.logit_distill.start_step=1",
    # Plain gradient descent, unclipped: the step of the weights *is* the gradient.
    "actor_rollout_ref.actor.optim.optimizer=SGD",
    f"actor_rollout_ref.actor.optim.lr={runs.LEARNING_RATE}",
    "actor_rollout_ref.actor.optim.weight_decay=0",
    "actor_rollout_ref.actor.optim.clip_grad=1e9",
    "actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
    # Micro-batches of 8 rows, so that rows and the teacher's rows are padded.
    "actor_rollout_ref.actor.use_dynamic_bsz=false",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> runs.Run:
    root = tmp_path_factory.mktemp("sd_logit")
    run = runs.start(
        root / "run",
        runs.build_data(root / "data"),
        SETTINGS,
        "teacher/sd_logit",
    )
    assert run.wait(TIMEOUT) == 0, run.log[-3000:]
    return run


@pytest.mark.parametrize("step", range(2, STEPS + 1))
def test_the_teacher_is_the_policy_before_the_update_given_the_feedback(
    run: runs.Run, step: int
) -> None:
    inputs, model = _teacher_inputs(run, step), _model(run, step - 1)
    assert inputs
    for x1, row in inputs:
        with torch.no_grad():
            teacher = _log_probs(model, x1, row["responses"])
        ids, said = row["rltf_teacher_ids"].long(), row["rltf_teacher_log_probs"]
        assert (teacher.gather(-1, ids) - said[:, :-1]).abs().max() < 1e-4
        assert (teacher.gather(-1, ids) - teacher.topk(TOP_K).values).abs().max() < 1e-4
        assert (_outcomes(teacher, ids)[:, -1].log() - said[:, -1]).abs().max() < 1e-4


@pytest.mark.parametrize("step", range(2, STEPS + 1))
def test_only_first_attempts_with_feedback_have_a_teacher(run: runs.Run, step: int) -> None:
    record = _record(run, step)
    assert any(record["padding"])
    taught = {id(row) for _, row in _teacher_inputs(run, step, record)}
    for row in record["rows"]:
        expected = len(row["responses"]) if id(row) in taught else 0
        assert row["rltf_teacher_ids"].shape == (expected, TOP_K)
        assert row["rltf_teacher_log_probs"].shape == (expected, TOP_K + 1)
        assert row["rltf_teacher_places"].tolist() == list(range(expected))
    episodes = {
        key.rsplit("_", 1)[0]
        for key, padding in zip(record["keys"], record["padding"], strict=True)
        if not padding
    }
    assert 0 < len(taught) < len(episodes), "feedback for some sessions, not for others"
    assert run.metrics()[step - 1]["data"]["rltf/logit_distill/session_share"] == len(taught) / len(
        episodes
    )
    assert record["settings"]["rltf_logit_tokens"] == sum(
        len(row["responses"]) for _, row in _teacher_inputs(run, step)
    )


def _jsd(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """Written out, summed over the tokens of [T, V] log-probs."""
    ids = teacher.topk(TOP_K).indices
    p, q = _outcomes(teacher, ids), _outcomes(student, ids)
    m = BETA * p + (1 - BETA) * q
    return (BETA * p * (p / m).log() + (1 - BETA) * q * (q / m).log()).sum()


def _require_step(before: torch.nn.Module, after: torch.nn.Module) -> None:
    """The weights moved by their gradients."""
    moved = dict(after.named_parameters())
    for name, parameter in before.named_parameters():
        taken = (parameter - moved[name]).detach() / runs.LEARNING_RATE
        assert (taken - parameter.grad).abs().max() < 1e-5, name


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_the_step_of_the_weights_is_the_gradient_of_the_written_out_loss(
    run: runs.Run, step: int
) -> None:
    record, before, after = _record(run, step), _model(run, step - 1), _model(run, step)
    loss = torch.zeros((), dtype=torch.float64)
    for row, padding in zip(record["rows"], record["padding"], strict=True):
        if not padding:
            own = _log_probs(before, row["prompts"], row["responses"]).gather(
                -1, row["responses"].unsqueeze(-1)
            )
            loss = loss - (row["advantages"] * own.squeeze(-1)).sum()
    assert loss != 0
    divergence, tokens = 0.0, 0
    for x1, row in _teacher_inputs(run, step, record) if step > 1 else []:
        with torch.no_grad():
            teacher = _log_probs(before, x1, row["responses"])
        student = _log_probs(before, row["prompts"], row["responses"])
        jsd = _jsd(student, teacher)
        loss, tokens = loss + WEIGHT * jsd, tokens + len(student)
        divergence += jsd.item()
    (loss / record["settings"]["rltf_denominator"]).backward()
    _require_step(before, after)
    if step > 1:
        assert run.metrics()[step - 1]["data"]["rltf/logit_distill/divergence"] == pytest.approx(
            divergence / tokens, rel=1e-3
        )


def test_metrics_and_schedule(run: runs.Run) -> None:
    first, *later = [line["data"] for line in run.metrics()]
    assert not any("logit_distill" in name for name in first), "it starts with the second step"
    for line in later:
        ours = {
            name: value for name, value in line.items() if name.startswith("rltf/logit_distill/")
        }
        assert {name.rsplit("/", 1)[1] for name in ours} == {
            "weight",
            "session_share",
            "token_share",
            "teacher_s",
            "teacher_tail",
            "teacher_gap",
            "teacher_gap_abs",
            "loss",
            "divergence",
        }
        assert not any(word in name for name in ours for word in VERL_REDUCES)
        assert ours["rltf/logit_distill/weight"] == WEIGHT
        assert 0 < ours["rltf/logit_distill/teacher_tail"] < 1


def _record(run: runs.Run, step: int) -> dict[str, Any]:
    record: dict[str, Any] = torch.load(run.folder / "record" / f"{step}.pt")
    return record


def _teacher_inputs(
    run: runs.Run, step: int, record: dict[str, Any] | None = None
) -> list[tuple[torch.Tensor, dict]]:
    """(x_1, row of the first attempt) of every episode that has both, found without the code under
    test.
    """
    record = record or _record(run, step)
    by_turn: dict[tuple[str, int], dict] = {}
    for key, padding, row in zip(record["keys"], record["padding"], record["rows"], strict=True):
        if not padding and row["rltf_role"][0] == Role.ATTEMPT:
            by_turn[key.rsplit("_", 1)[0], int(row["rltf_turn"][0])] = row
    return [
        (by_turn[s, 1]["prompts"], row)
        for (s, k), row in by_turn.items()
        if k == 0 and (s, 1) in by_turn
    ]


def _model(run: runs.Run, step: int) -> torch.nn.Module:
    """The policy after `step`; 0 is what the run started from."""
    folder = (
        run.checkpoints / f"global_step_{step}" / "actor" / "huggingface" if step else runs.POLICY
    )
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )


def _log_probs(
    model: torch.nn.Module, prompt: torch.Tensor, response: torch.Tensor
) -> torch.Tensor:
    """[T, V] by a forward of its own."""
    logits = model(input_ids=torch.cat([prompt, response]).unsqueeze(0)).logits[
        0, len(prompt) - 1 : -1
    ]
    return (logits / TEMPERATURE).log_softmax(-1)


def _outcomes(log_probs: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Probabilities of the tokens and of all others, in double precision."""
    p = log_probs.double().exp()
    return torch.cat([p.gather(-1, ids), p.scatter(-1, ids, 0.0).sum(-1, keepdim=True)], dim=-1)
