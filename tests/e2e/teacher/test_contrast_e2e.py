"""Contrasted teachers in the real trainer, on two data-parallel workers: the step of the weights is
that of the equation written out, from a forward of its own.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from rltf_verl.adapters.queue.columns import teacher_spans
from rltf_verl.types import TeacherSpan
from tests.e2e import runs
from tests.e2e.teacher.test_sd_logit_e2e import (
    SETTINGS,
    STEPS,
    TIMEOUT,
    _log_probs,
    _model,
    _record,
    _require_step,
)
from tests.e2e.test_reward_function_e2e import in_verls_form

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
NUM, ROUNDING, SCALE = 6, 5e-4, 0.5
"""`ROUNDING`: nats, as in `test_teacher_e2e`; two log-probs make a contrast."""
REWARD = """
def compute_score(data_source, solution_str, ground_truth, extra_info):
    digits = [int(letter) for letter in solution_str if letter.isdigit()]
    return float(sum(digits) % 3 == 0)
"""
"""A third of the answers is right, in every group: the policy knows no first answer."""
OTHERS = ("rltf.logit_distill", "rltf.feedback.provider", "rltf.attempt")
OWN = [
    *(word for word in SETTINGS if not word.startswith(OTHERS)),
    "rltf.teacher.prompt=teacher/compact",
    f"actor_rollout_ref.rollout.n={NUM}",
    "data.train_batch_size=8",
]
CASES = {
    # A width of 1, so that rounding is not blown up fifty times.
    "teacher/rlcsd": [
        "rltf.attempt.norm_by_std=false",
        "rltf.teacher.gate_width=1",
        "rltf.teacher.against_n=2",
        "data.max_prompt_length=80",
    ],
    "teacher/purified_opsd": ["data.max_prompt_length=80"],
}


@pytest.fixture(scope="module", params=CASES)
def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, runs.Run]:
    root = tmp_path_factory.mktemp("contrast")
    (root / "reward.py").write_text(REWARD)
    words = [*OWN, *CASES[request.param], f"rltf.env.function={root}/reward.py:compute_score"]
    data = in_verls_form(root / "data", "digits")
    run = runs.start(root / "run", data, words, request.param, env="reward_function")
    assert run.wait(TIMEOUT) == 0, run.log[-3000:]
    return request.param, run


def rows_of(run: runs.Run, step: int) -> list[tuple[str, dict[str, Any]]]:
    """(group, row)"""
    record = _record(run, step)
    columns = zip(record["keys"], record["padding"], record["rows"], strict=True)
    return [(key.rsplit("_", 2)[0], row) for key, padding, row in columns if not padding]


def contrast_of(model: torch.nn.Module, span: TeacherSpan, response: torch.Tensor) -> torch.Tensor:
    """[T] c tanh(e / c), e = log p(y_t | right) − log mean_k p(y_t | wrong_k)."""

    def probs(prompt: tuple[int, ...]) -> torch.Tensor:
        with torch.no_grad():
            said = _log_probs(model, torch.tensor(prompt), response)
        return said.double().gather(-1, response[:, None])[:, 0].exp()

    wrong = torch.stack([probs(prompt) for prompt in span.against]).mean(dim=0)
    return 10 * ((probs(span.prompt_ids) / wrong).log() / 10).tanh()


def advantages_of(rows: list[tuple[str, dict[str, Any]]]) -> list[float]:
    """Reward minus the group's mean."""
    rewards = defaultdict(list)
    for group, row in rows:
        rewards[group].append(float(row["rm_scores"].sum()))
    return [float(row["rm_scores"].sum()) - sum(rewards[g]) / len(rewards[g]) for g, row in rows]


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_the_step_of_the_weights_is_that_of_the_written_out_equation(
    run: tuple[str, runs.Run], step: int
) -> None:
    method, made = run
    before, after, rows = _model(made, step - 1), _model(made, step), rows_of(made, step)
    teacher = before if method == "teacher/rlcsd" else _model(made, 0)
    loss, num_voices = torch.zeros((), dtype=torch.float64), []
    for (_, row), advantage in zip(rows, advantages_of(rows), strict=True):
        response = row["responses"]
        student = _log_probs(before, row["prompts"], response)
        own = student.gather(-1, response[:, None])[:, 0]
        weights = torch.full((len(response),), advantage, dtype=torch.float64)
        if method == "teacher/purified_opsd":
            weights = torch.zeros_like(weights)
        for span in teacher_spans(row["rltf_teachers"]):
            assert (span.start, span.end) == (0, len(response))
            num_voices.append(len(span.against))
            gap = contrast_of(teacher, span, response)
            if method == "teacher/purified_opsd":
                weights = gap
                said = row["rltf_teacher_said"] - row["old_log_probs"]
                assert (said - gap).abs().max() < 2 * ROUNDING
                continue
            added = SCALE * gap.tanh()
            added = added.where(added.abs() > 0.02, 0.0)
            weights = {
                1: (advantage + added).clamp(min=0),
                -1: (advantage + added).clamp(max=0),
                0: weights,
            }[(advantage > 1e-6) - (advantage < -1e-6)]
            clear = (added.abs() - 0.02).abs() > ROUNDING
            assert (weights - row["advantages"])[clear | (added == 0)].abs().max() < ROUNDING
        loss = loss - (weights * own).sum()
    assert num_voices
    assert max(num_voices) == (2 if method == "teacher/rlcsd" else 1)
    (loss / _record(made, step)["settings"]["rltf_denominator"]).backward()
    _require_step(before, after)


def test_prompts_differ_in_what_is_contrasted_alone(run: tuple[str, runs.Run]) -> None:
    method, made = run
    tokenizer = AutoTokenizer.from_pretrained(runs.POLICY)
    for _, row in rows_of(made, 1):
        attempt = tokenizer.decode(row["responses"], skip_special_tokens=True)
        for span in teacher_spans(row["rltf_teachers"]):
            texts = [tokenizer.decode(ids) for ids in (span.prompt_ids, *span.against)]
            question = tokenizer.decode(row["prompts"])
            if method == "teacher/rlcsd":
                assert len(set(texts)) == len(texts)
                assert all(attempt not in text for text in texts), "never its own hint"
            else:
                assert texts[1] != texts[0]
                assert len(texts[0]) - len(texts[1]) <= len(question)


def test_metrics(run: tuple[str, runs.Run]) -> None:
    method, made = run
    for line in made.metrics():
        ours = {k.rpartition("/")[2] for k in line["data"] if "logit_distill" in k}
        assert {"teacher_gap", "against_gap", "teacher_gap_abs"} <= ours
        assert ("loss" in ours) == (method == "teacher/purified_opsd")
