"""Outcomes in chunks are those of the equation, values and gradients, without its memory."""

import pytest
import torch

from rltf_verl.algos import log_probs
from rltf_verl.algos.logit_distill import (
    DIVERGENCES,
    clipped_ratio,
    logit_divergence,
    outcome_log_probs,
    outcomes_of_rows,
    top_k_ids,
)

VOCABULARY, OWN = 19, "own"


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Four rows at a time."""
    monkeypatch.setitem(log_probs._CHUNK, "cpu", 4 * VOCABULARY)


def inputs(dtype, top_k, rows):
    """Logits of 11 rows as a model makes them, and the teacher of a token for each of `rows`."""
    generator = torch.Generator().manual_seed(0)
    logits = (3 * torch.randn(11, VOCABULARY, generator=generator)).to(dtype)
    teacher = torch.randn(len(rows), VOCABULARY, generator=generator)
    ids = top_k_ids(teacher, top_k)
    return logits, torch.tensor(rows, dtype=torch.int64), ids, outcome_log_probs(teacher, ids)


HALF_SQUARE = """
def half_square(student, teacher, beta, clip):
    gap = student - teacher
    return 0.5 * (gap * gap.exp().detach()).square().sum(-1) / len(gap)
"""


@pytest.mark.parametrize("kind", [*DIVERGENCES, OWN])
@pytest.mark.parametrize("top_k", [5, VOCABULARY], ids=["top", "all"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize(
    "rows", [[0, 1, 2, 5, 6, 10], [9, 3, 9, 0, 3, 3, 8, 9], []], ids=["once", "shared", "none"]
)
def test_value_and_gradient_are_those_of_the_whole(rows, dtype, top_k, kind, tmp_path):
    logits, rows, ids, teacher = inputs(dtype, top_k, rows)
    (tmp_path / "mine.py").write_text(HALF_SQUARE)
    kind = f"{tmp_path}/mine.py:half_square" if kind == OWN else kind
    clip = 0.3 if kind in DIVERGENCES else None
    old = torch.linspace(-4, 0, len(rows))
    values, grads = [], []
    for chosen, given in ((True, rows), (False, None)):
        leaf = logits.clone().requires_grad_()
        seen = leaf if chosen else leaf[rows]
        value = logit_divergence(seen, ids, teacher, kind, 0.3, clip, given)
        weights = clipped_ratio(torch.zeros(len(rows)), old, 2.0)
        (grad,) = torch.autograd.grad((weights * value).sum(), leaf)
        values.append(value.detach())
        grads.append(grad)
    assert grads[0].dtype == dtype
    assert grads[0].any() == bool(len(rows))
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*grads)


def test_the_teacher_s_outcomes_need_no_graph():
    logits, rows, ids, _ = inputs(torch.bfloat16, 5, [2, 3, 3, 10, 7, 0])
    torch.testing.assert_close(
        outcomes_of_rows(logits, rows, ids), outcome_log_probs(logits[rows], ids), rtol=0, atol=0
    )


def test_a_cross_entropy_that_writes_over_the_logits_changes_nothing():
    """As flash-attn's `cross_entropy_loss(inplace_backward=True)` does, unseen by autograd. verl
    makes it after the divergence, so its backward pass comes first.
    """
    logits, rows, ids, teacher = inputs(torch.float32, 5, [0, 1, 2, 5, 6, 10])
    grads = []
    for in_place in (True, False):
        leaf = logits.clone().requires_grad_()
        made = leaf * 1.0
        value = logit_divergence(made, ids, teacher, "jsd", 0.5, None, rows).sum()
        if in_place:
            made.data.fill_(7.0)
        grads += torch.autograd.grad(value, leaf)
    torch.testing.assert_close(*grads)


def test_a_second_backward_pass_is_refused():
    """The first one has replaced the copy of the logits by their gradient."""
    logits, rows, ids, teacher = inputs(torch.float32, 5, [0, 4])
    leaf = logits.requires_grad_()
    value = logit_divergence(leaf, ids, teacher, "jsd", 0.5, None, rows).sum()
    torch.autograd.grad(value, leaf, retain_graph=True)
    with pytest.raises(RuntimeError, match="inplace"):
        torch.autograd.grad(value, leaf)
