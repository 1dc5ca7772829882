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


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        # teacher (1/2, 1/4, tail 1/4), student (1/4, 1/4, tail 1/2)
        ("forward_kl", 0.5 * math.log(2) + 0.25 * math.log(0.5)),
        ("reverse_kl", 0.25 * math.log(0.5) + 0.5 * math.log(2)),
        # m = (3/8, 1/4, 3/8), both halves by symmetry the same
        ("jsd", 0.5 * math.log(4 / 3) + 0.25 * math.log(2 / 3)),
    ],
)
def test_golden_numbers(kind, value):
    teacher = torch.tensor([[4.0, 1.0, 2.0, 1.0]], dtype=torch.float64).log()
    student = torch.tensor([[2.0, 3.0, 2.0, 1.0]], dtype=torch.float64).log()
    ids = top_k_ids(teacher, 2)
    actual = logit_divergence(student, ids, outcome_log_probs(teacher, ids), kind, 0.5)
    assert actual.item() == pytest.approx(value, abs=1e-12)


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


def test_the_teacher_is_a_constant():
    teacher = random_logits(2, 8, seed=12).requires_grad_()
    ids = top_k_ids(teacher.detach(), 3)
    student = random_logits(2, 8, seed=13).requires_grad_()
    value = logit_divergence(student, ids, outcome_log_probs(teacher, ids), "jsd", BETA)
    assert torch.autograd.grad(value.sum(), teacher, allow_unused=True) == (None,)


def sampled_gradient(logits, teacher):
    """[V, V] gradient in the logits for each token that could be said, and its value."""
    values, grads = [], []
    for token in range(len(logits)):
        leaf = logits.clone().requires_grad_()
        value = sampled_token(leaf.log_softmax(-1)[token, None], teacher[token, None])
        grads.append(torch.autograd.grad(value.sum(), leaf)[0])
        values.append(value.detach())
    return torch.stack(grads), torch.cat(values)


def test_the_sampled_token_is_the_reverse_kl_on_average_and_so_is_its_gradient():
    logits, teacher = random_logits(9, seed=20), random_logits(9, seed=21).log_softmax(-1)
    grads, values = sampled_gradient(logits, teacher)
    q = logits.softmax(-1)
    leaf = logits.clone().requires_grad_()
    exact_value = exact(leaf[None], teacher[None], "reverse_kl").sum()
    torch.testing.assert_close((q * values).sum(), exact_value.detach())
    (exact_grad,) = torch.autograd.grad(exact_value, leaf)
    torch.testing.assert_close(q @ grads, exact_grad)


def test_a_contrast_pulls_to_the_policy_times_the_ratio_though_its_constant_is_left_out():
    """The gradient by sampled tokens is the finite difference of KL(q ‖ q_0 e^Δ / Z), of which the
    target holds no Z (Purified OPSD, arXiv 2607.02234, equations 5 to 8, β = 1).
    """
    logits, old, right, *wrong = (random_logits(9, seed=seed) for seed in range(30, 35))
    marginal = torch.stack([each.softmax(-1) for each in wrong]).mean(0).log()
    gap = soft_clip(right.log_softmax(-1) - marginal)
    target = old.log_softmax(-1) + gap
    assert abs(target.exp().sum() - 1) > 0.1
    grads, _ = sampled_gradient(logits, target)

    def divergence(z):
        return exact(z[None], target[None], "reverse_kl").sum()

    step = 1e-5 * torch.eye(9, dtype=torch.float64)
    difference = [(divergence(logits + h) - divergence(logits - h)) / 2e-5 for h in step]
    torch.testing.assert_close(
        logits.softmax(-1) @ grads, torch.stack(difference), atol=1e-8, rtol=1e-6
    )


def test_a_contrast_is_clipped_softly():
    gap = torch.tensor([-1e4, -0.3, 0.0, 0.01, 1e4], dtype=torch.float64)
    by_hand = [-10, -10 * math.tanh(0.03), 0, 10 * math.tanh(0.001), 10]
    assert soft_clip(gap).tolist() == pytest.approx(by_hand, abs=1e-12)


def test_with_the_ratio_a_policy_that_has_moved_still_has_that_gradient_on_average():
    """Tokens of π_old, weighed by π_θ / π_old: unbiased as long as nothing is cut off."""
    logits, teacher = random_logits(9, seed=22), random_logits(9, seed=23).log_softmax(-1)
    old = (logits + random_logits(9, seed=24, scale=0.3)).log_softmax(-1)
    grads, _ = sampled_gradient(logits, teacher)
    now = logits.log_softmax(-1)
    weight = clipped_ratio(now, old, 1e9)
    torch.testing.assert_close((old.exp() * weight) @ grads, now.exp() @ grads)
    assert clipped_ratio(now, old, 1.0).max() == 1.0
    assert torch.isfinite(clipped_ratio(torch.zeros(1), torch.full((1,), -torch.inf), 2.0)).all()


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
