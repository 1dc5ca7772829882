"""Logit distillation: values worked out by hand, the exact divergence as the oracle, and the edges
of float numbers.
"""

import math

import pytest
import torch

from rltf_verl.algos.logit_distill import (
    DIVERGENCES,
    clipped_ratio,
    entropy_weight,
    logit_divergence,
    outcome_log_probs,
    sampled_token,
    soft_clip,
    top_k_ids,
)

KINDS = sorted(DIVERGENCES)
BETA = 0.3


def random_logits(*shape, seed=0, scale=2.0):
    return scale * torch.randn(
        *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def exact(student_logits, teacher_logits, kind):
    """The divergence over the whole vocabulary, from its definition."""
    q, p = student_logits.softmax(-1), teacher_logits.softmax(-1)
    kl = lambda a, b: (a * (a / b).log()).sum(-1)  # noqa: E731
    if kind == "forward_kl":
        return kl(p, q)
    if kind == "reverse_kl":
        return kl(q, p)
    m = BETA * p + (1 - BETA) * q
    return BETA * kl(p, m) + (1 - BETA) * kl(q, m)


def with_tail(student_logits, teacher_logits, k, kind):
    ids = top_k_ids(teacher_logits, k)
    return logit_divergence(student_logits, ids, outcome_log_probs(teacher_logits, ids), kind, BETA)


def test_outcomes_by_hand():
    logits = torch.tensor(
        [[4.0, 1.0, 2.0, 1.0]], dtype=torch.float64
    ).log()  # probabilities 1/2, 1/8, 1/4, 1/8
    ids = top_k_ids(logits, 2)
    assert ids.tolist() == [[0, 2]]
    torch.testing.assert_close(
        outcome_log_probs(logits, ids).exp(), torch.tensor([[0.5, 0.25, 0.25]]).double()
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [15, 16], ids=["all but one token", "all tokens"])
def test_with_the_whole_vocabulary_it_is_the_exact_divergence(kind, k):
    student, teacher = random_logits(7, 16, seed=1).requires_grad_(), random_logits(7, 16, seed=2)
    actual, expected = with_tail(student, teacher, k, kind), exact(student, teacher, kind)
    torch.testing.assert_close(actual, expected)
    weights = random_logits(7, seed=3)
    (grad,) = torch.autograd.grad((actual * weights).sum(), student)
    (reference,) = torch.autograd.grad((expected * weights).sum(), student)
    torch.testing.assert_close(grad, reference)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_tail_below_the_precision_of_one_is_still_right(dtype):
    """One token takes all but 2e-11: 1 − Σp is 0 in float32, the tail's own sum is not."""
    logits = torch.tensor([[25.0, 0.0, 0.0]], dtype=dtype).requires_grad_()
    outcomes = outcome_log_probs(logits, torch.tensor([[0]]))
    assert outcomes.dtype == torch.float32
    assert outcomes[0, 1].item() == pytest.approx(math.log(2) - 25, rel=1e-6)
    (grad,) = torch.autograd.grad(outcomes[0, 1], logits)
    torch.testing.assert_close(grad, torch.tensor([[-1.0, 0.5, 0.5]], dtype=dtype))


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_that_cannot_be_said_do_no_harm(kind):
    """Logits of −inf (a padded vocabulary), among the kept tokens and in the tail."""
    student = torch.tensor([[1.0, 0.0, -torch.inf, -torch.inf]]).requires_grad_()
    teacher = torch.tensor([[0.0, 1.0, -torch.inf, -torch.inf]])
    for k in (1, 2, 3, 4):
        value = with_tail(student, teacher, k, kind)
        (grad,) = torch.autograd.grad(value.sum(), student)
        assert torch.isfinite(value).all()
        assert torch.isfinite(grad).all()
        assert grad[0, 2:].tolist() == [0.0, 0.0]


def test_the_sampled_token_is_the_reverse_kl_on_average_and_so_is_its_gradient():
    logits, teacher = random_logits(9, seed=20), random_logits(9, seed=21).log_softmax(-1)
    values, grads = [], []  # of each token that could be said
    for token in range(len(logits)):
        leaf = logits.clone().requires_grad_()
        value = sampled_token(leaf.log_softmax(-1)[token, None], teacher[token, None])
        grads.append(torch.autograd.grad(value.sum(), leaf)[0])
        values.append(value.detach())
    q = logits.softmax(-1)
    leaf = logits.clone().requires_grad_()
    exact_value = exact(leaf[None], teacher[None], "reverse_kl").sum()
    torch.testing.assert_close((q * torch.cat(values)).sum(), exact_value.detach())
    (exact_grad,) = torch.autograd.grad(exact_value, leaf)
    torch.testing.assert_close(q @ torch.stack(grads), exact_grad)


def test_a_contrast_is_clipped_softly():
    gap = torch.tensor([-1e4, -0.3, 0.0, 0.01, 1e4], dtype=torch.float64)
    by_hand = [-10, -10 * math.tanh(0.03), 0, 10 * math.tanh(0.001), 10]
    assert soft_clip(gap).tolist() == pytest.approx(by_hand, abs=1e-12)


def test_a_ratio_is_cut_off_and_finite_for_a_token_that_could_not_be_said():
    sampled = torch.tensor([0.0, -0.5, -1.0, -torch.inf])
    ratio = clipped_ratio(torch.full((4,), -0.5), sampled, 1.2)
    torch.testing.assert_close(ratio, torch.tensor([math.exp(-0.5), 1.0, 1.2, 1.2]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_clip_cuts_off_single_outcomes_and_their_gradient(kind):
    student, teacher = random_logits(40, 16, seed=25), random_logits(40, 16, seed=26)
    ids = top_k_ids(teacher, 6)
    outcomes = outcome_log_probs(teacher, ids)

    def of(logits, clip):
        return logit_divergence(logits, ids, outcomes, kind, BETA, clip)

    torch.testing.assert_close(of(student, 1e9), of(student, None))
    clip = 0.05
    p, q = outcomes.exp(), outcome_log_probs(student, ids).exp()
    m = BETA * p + (1 - BETA) * q
    terms = {
        "forward_kl": p * (p / q).log(),
        "reverse_kl": q * (q / p).log(),
        "jsd": BETA * p * (p / m).log() + (1 - BETA) * q * (q / m).log(),
    }[kind]
    assert (terms > clip).any()
    torch.testing.assert_close(of(student, clip), terms.clamp(max=clip).sum(-1))
    leaf = student.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda logits: of(logits, clip).sum(), leaf)


def test_the_entropy_weight_keeps_the_scale_of_the_whole():
    weight = entropy_weight(torch.rand(50) * 5, 0.7)
    assert weight.mean().item() == pytest.approx(1.0, abs=1e-6)
    assert entropy_weight(torch.zeros(0), 1.0).shape == (0,)
    assert entropy_weight(torch.tensor([4.0, 5.0]), 30.0).tolist() == pytest.approx([2.0, 0.0])
