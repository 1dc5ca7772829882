"""The equations of the teacher against TRL's SDPO trainer (1.16.0), whose numbers stand in a file.

python -m benchmarks.peers losses --golden tests/golden/trl_sdpo.json    # where trl is installed
"""

import json
from pathlib import Path

import pytest
import torch

from rltf_verl.algos.logit_distill import (
    DIVERGENCES,
    clipped_ratio,
    outcome_log_probs,
    sampled_token,
    top_k_ids,
)

TRL = json.loads((Path(__file__).parents[1] / "golden" / "trl_sdpo.json").read_text("utf-8"))
STUDENT, TEACHER, OLD = (
    torch.tensor(TRL[name], dtype=torch.float64) for name in ("student", "teacher", "old")
)
IDS = torch.tensor(TRL["ids"])


def log_probs_of(logits: torch.Tensor) -> torch.Tensor:
    return logits.log_softmax(-1).gather(-1, IDS[:, None])[:, 0]


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize(("mode", "top_k"), [("full_logits", 7), ("topk_logits", TRL["top_k"])])
def test_each_divergence_is_trls(mode: str, top_k: int, divergence: str) -> None:
    """Of the top k too, where both sides find the same tokens likely: TRL keeps the student's,
    this package the teacher's.
    """
    kept = top_k_ids(TEACHER, top_k)
    assert torch.equal(kept.sort().values, top_k_ids(STUDENT, top_k).sort().values)
    student, teacher = outcome_log_probs(STUDENT, kept), outcome_log_probs(TEACHER, kept)
    theirs = torch.tensor(TRL[f"{mode}, {divergence}"], dtype=torch.float64)
    assert theirs.max() > 0.01
    torch.testing.assert_close(
        DIVERGENCES[divergence](student, teacher, 0.5), theirs, rtol=0, atol=1e-6
    )


def test_the_clipped_gradient_of_the_tokens_said_is_trls() -> None:
    """Values differ by a factor that is a constant for the gradient."""
    logits = STUDENT.clone().requires_grad_()
    loss = sampled_token(log_probs_of(logits), log_probs_of(TEACHER)) * clipped_ratio(
        log_probs_of(logits), OLD, 2.0
    )
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    theirs = torch.tensor(TRL["sampled_token, gradient in the student's logits"]).double()
    assert theirs.abs().max() > 0.1
    torch.testing.assert_close(gradient, theirs, rtol=0, atol=1e-6)
