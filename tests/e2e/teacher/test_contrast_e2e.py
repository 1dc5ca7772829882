"""Contrasted teachers in the real trainer, on two data-parallel workers: the step of the weights is
that of the equation written out, from a forward of its own.
"""

from collections import defaultdict
from typing import cast

import pytest
import torch

from rltf_verl.adapters.queue.columns import teacher_spans
from rltf_verl.types import TeacherSpan
from tests.e2e import recorded, runs
from tests.e2e.teacher.test_teacher_e2e import (
    ROUNDING,
    SETTINGS,
    STEPS,
    TEMPERATURE,
    TIMEOUT,
    log_probs,
)
from tests.e2e.test_reward_function_e2e import in_verls_form

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
NUM, SCALE, SAME = 6, 0.5, 1e-5
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
        "rltf.teacher.gate.width=1",
        "rltf.teacher.against.n=2",
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
    return request.param, run.finished(TIMEOUT)


def contrast_of(model: torch.nn.Module, span: TeacherSpan, response: torch.Tensor) -> torch.Tensor:
    """[T] c tanh(e / c), e = log p(y_t | right) − log mean_k p(y_t | wrong_k)."""

    def probs(prompt: tuple[int, ...]) -> torch.Tensor:
        with torch.no_grad():
            whole = log_probs(model, torch.tensor(prompt), response)
        return cast(torch.Tensor, whole.double().gather(-1, response[:, None])[:, 0].exp())

    wrong = torch.stack([probs(prompt) for prompt in span.against]).mean(dim=0)
    return 10 * ((probs(span.prompt_ids) / wrong).log() / 10).tanh()


def advantages_of(rows: list[recorded.Row]) -> list[float]:
    """Reward minus the group's mean."""
    rewards = defaultdict(list)
    for row in rows:
        rewards[row["episode"].rsplit("_", 1)[0]].append(float(row["rm_scores"].sum()))
    means = {group: sum(values) / len(values) for group, values in rewards.items()}
    return [float(row["rm_scores"].sum()) - means[row["episode"].rsplit("_", 1)[0]] for row in rows]


def with_residual(advantage: float, gap: torch.Tensor) -> torch.Tensor:
    """RLCSD's advantage, of a width of 1."""
    added = SCALE * gap.tanh()
    moved = advantage + added.where(added.abs() > 0.02, 0.0)
    if abs(advantage) < 1e-6:
        return torch.full_like(gap, advantage)
    return moved.clamp(min=0) if advantage > 0 else moved.clamp(max=0)


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_the_step_of_the_weights_is_that_of_the_written_out_equation(
    run: tuple[str, runs.Run], step: int
) -> None:
    method, made = run
    rlcsd = method == "teacher/rlcsd"
    teacher = recorded.policy(made.folder, step - 1 if rlcsd else 0)
    rows, weights, num_voices = recorded.rows(made, step), [], []
    for row, advantage in zip(rows, advantages_of(rows), strict=True):
        response = row["responses"]
        weight = torch.full((len(response),), advantage * rlcsd, dtype=torch.float64)
        for span in teacher_spans(row["rltf_teachers"]):
            assert (span.start, span.end) == (0, len(response))
            num_voices.append(len(span.against))
            gap = contrast_of(teacher, span, response)
            weight = with_residual(advantage, gap) if rlcsd else gap
            if not rlcsd:
                target = row["rltf_teacher_log_prob"] - row["old_log_probs"]
                assert (target - gap).abs().max() < 2 * ROUNDING
        weights.append(weight)
    assert max(num_voices) == (2 if rlcsd else 1)
    expected = recorded.gradient(made, step, TEMPERATURE, advantages=weights)
    assert max(float(g.abs().max()) for g in expected.values()) > 100 * SAME
    assert recorded.largest_difference(recorded.step_taken(made, step), expected) < SAME
    ours = {key.rpartition("/")[2] for key in made.metrics()[step - 1]["data"] if "logit_d" in key}
    assert {"teacher_gap", "against_gap", "teacher_gap_abs"} <= ours
    assert ("loss" in ours) == (method == "teacher/purified_opsd")
