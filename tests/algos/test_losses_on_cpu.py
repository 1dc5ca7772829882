"""Token losses and the losses of roles: values and gradients at points worked out by hand."""

import math

import pytest
import torch

from rltf_verl.algos.losses import TOKEN_LOSSES, shaped
from rltf_verl.algos.role_loss import distill_loss, supervised_loss
from rltf_verl.config import DistillConfig
from rltf_verl.config.objectives import Loss

LOW, HIGH = 0.8, 1.2


def loss_and_grad(name, ratio, advantage, old=-1.0):
    log_prob = torch.tensor([[old + math.log(ratio)]], dtype=torch.float64, requires_grad=True)
    ref = torch.full_like(log_prob, old).detach()
    loss = TOKEN_LOSSES[name](log_prob, ref, torch.full_like(ref, advantage), LOW, HIGH)
    (grad,) = torch.autograd.grad(loss.sum(), log_prob)
    return loss.item(), grad.item()


@pytest.mark.parametrize(
    ("name", "ratio", "advantage", "loss", "grad"),
    [
        # importance sampling never clips: L = -ρA, dL/dℓ = -ρA
        ("importance_sampling", 1.0, 2.0, -2.0, -2.0),
        ("importance_sampling", 1.5, 2.0, -3.0, -3.0),
        ("importance_sampling", 0.5, -2.0, 1.0, 1.0),
        # ppo inside the bounds is the same; outside it is flat where the move would help further
        ("ppo", 1.1, 2.0, -2.2, -2.2),
        ("ppo", 1.5, 2.0, -2.4, 0.0),
        ("ppo", 0.5, 2.0, -1.0, -1.0),
        ("ppo", 0.5, -2.0, 1.6, 0.0),
        ("ppo", 1.5, -2.0, 3.0, 3.0),
        ("ppo", 10.0, -2.0, 20.0, 20.0),  # no dual clip
        # cispo: the clipped ratio weighs the log-prob, which always learns
        ("cispo", 1.0, 2.0, 2.0, -2.0),
        ("cispo", 1.5, 2.0, -1.2 * 2.0 * (-1.0 + math.log(1.5)), -2.4),
        ("cispo", 0.5, 2.0, -0.8 * 2.0 * (-1.0 + math.log(0.5)), -1.6),
        ("cispo", 0.5, -2.0, 0.8 * 2.0 * (-1.0 + math.log(0.5)), 1.6),
    ],
)
def test_token_loss_and_gradient(name, ratio, advantage, loss, grad):
    actual_loss, actual_grad = loss_and_grad(name, ratio, advantage)
    assert actual_loss == pytest.approx(loss, abs=1e-12)
    assert actual_grad == pytest.approx(grad, abs=1e-12)


@pytest.mark.parametrize(
    ("probability", "gamma", "advantage", "loss", "grad"),
    [
        # f = π/(π+γ), dL/dℓ = −A γπ/(π+γ)²
        (0.1, 0.1, 2.0, -2 * 1 / 2, -2 * 0.25),  # at π = γ the pull is greatest
        (1.0, 0.1, 1.0, -1 / 1.1, -0.1 / 1.21),
        (0.3, 0.1, 1.0, -0.75, -0.03 / 0.16),
        (0.5, 0.5, -3.0, 1.5, 0.75),
        (0.01, 0.1, 1.0, -0.01 / 0.11, -0.001 / 0.0121),
    ],
)
def test_the_shaped_probability_by_hand(probability, gamma, advantage, loss, grad):
    log_prob = torch.tensor([[math.log(probability)]], dtype=torch.float64, requires_grad=True)
    actual = shaped(log_prob, torch.tensor([[advantage]], dtype=torch.float64), gamma)
    (actual_grad,) = torch.autograd.grad(actual.sum(), log_prob)
    assert (actual.item(), actual_grad.item()) == (
        pytest.approx(loss, abs=1e-12),
        pytest.approx(grad, abs=1e-12),
    )


def test_the_shaped_loss_of_distillation_rows():
    """The objective's token sum is that of `shaped`, whatever the reference; outside the mask
    nothing is computed.
    """
    mask = torch.tensor([[True, True, False]])
    log_prob = torch.tensor([[math.log(0.3), -300.0, float("nan")]], requires_grad=True)
    config = DistillConfig(loss=Loss("shaped", gamma=0.1))
    total = distill_loss(
        log_prob, torch.full((1, 3), float("nan")), torch.tensor([[2.0, 1.0, 5.0]]), mask, config
    )
    (grad,) = torch.autograd.grad(total, log_prob)
    assert total.item() == pytest.approx(-1.5)
    assert grad[0].tolist() == [pytest.approx(-2 * 0.03 / 0.16), pytest.approx(0.0, abs=1e-30), 0.0]
    with pytest.raises(ValueError, match=r"advantages has shape \(2, 1\), expected \(2, 3\)"):
        shaped(torch.zeros(2, 3), torch.zeros(2, 1), 0.1)


def distilled(log_prob, ref, advantages, mask, reference="current", loss="importance_sampling"):
    log_prob = log_prob.clone().requires_grad_()
    config = DistillConfig(reference="old", loss=Loss(loss, clip_low=LOW, clip_high=HIGH))
    object.__setattr__(
        config, "reference", reference
    )  # also what is refused: a clipped loss at ratio 1
    total = distill_loss(log_prob, ref, advantages, mask, config)
    return total, torch.autograd.grad(total, log_prob)[0]


@pytest.mark.parametrize("moved", [0.0, 0.7, -3.0, 40.0, -200.0])
def test_awr_gradient_is_minus_the_advantage_however_far_the_policy_has_moved(moved):
    old = torch.tensor([[-1.0, -2.0, -3.0], [-0.5, -4.0, -1.0]])
    advantages = torch.tensor([[0.7, 0.0, -0.3], [1.25, -2.0, 0.1]])
    total, grad = distilled(old + moved, old, advantages, torch.ones(2, 3, dtype=torch.bool))
    assert torch.equal(grad, -advantages)
    assert total.item() == pytest.approx(-advantages.sum().item(), abs=1e-6)


def test_with_reference_old_the_ratio_is_taken_to_the_given_log_probs():
    old, advantages = torch.tensor([[-1.0, -2.0]]), torch.tensor([[1.0, -0.5]])
    _, grad = distilled(
        old + math.log(1.1), old, advantages, torch.ones(1, 2, dtype=torch.bool), "old"
    )
    torch.testing.assert_close(grad, -1.1 * advantages)
    _, grad = distilled(
        old + math.log(1.5), old, advantages, torch.ones(1, 2, dtype=torch.bool), "sampler", "ppo"
    )
    torch.testing.assert_close(grad, torch.tensor([[0.0, 0.75]]))


@pytest.mark.parametrize("loss", sorted(TOKEN_LOSSES))
@pytest.mark.parametrize("reference", ["current", "old"])
@pytest.mark.parametrize("bad", [float("-inf"), float("inf"), float("nan"), 1e30, -1e30])
def test_masked_positions_get_exactly_zero_gradient_whatever_stands_there(loss, reference, bad):
    mask = torch.tensor([[True, False, True], [False, False, False]])
    log_prob = torch.where(mask, torch.tensor(-1.0), torch.tensor(bad))
    old = torch.where(mask, torch.tensor(-1.0), torch.tensor(-bad))
    total, grad = distilled(log_prob, old, torch.full((2, 3), 0.5), mask, reference, loss)
    assert torch.isfinite(total)
    assert torch.equal(grad, torch.where(mask, torch.tensor(-0.5), torch.tensor(0.0)))


@pytest.mark.parametrize("moved", [0.0, 0.7, -3.0, -200.0])
def test_the_supervised_gradient_is_minus_the_weight_however_far_the_policy_has_moved(moved):
    log_prob = torch.tensor([[-1.0, -2.0, -3.0], [-0.5, -4.0, -1.0]]) + moved
    weights = torch.tensor([[0.1, 0.1, 0.0], [0.3, 0.1, 0.1]])
    mask = torch.tensor([[True, True, True], [True, False, True]])
    total = supervised_loss(log_prob.requires_grad_(), weights, mask)
    (grad,) = torch.autograd.grad(total, log_prob)
    assert torch.equal(grad, torch.where(mask, -weights, 0.0))
    assert total.item() == pytest.approx(-(log_prob * weights)[mask].sum().item(), rel=1e-6)
