"""What verl can select by name from us, and what we lean on in verl, without Ray running."""

import numpy as np
import pytest
import torch
from verl.trainer.ppo import core_algos
from verl.utils.config import omega_conf_to_dataclass

from rltf_verl.adapters.compat import required_batch_multiple
from rltf_verl.adapters.registered import ADV_ESTIMATOR, POLICY_LOSSES
from rltf_verl.algos.losses import TOKEN_LOSSES


@pytest.fixture
def actor(verl_config):
    """verl's actor config with bounds 0.7 and 1.4."""
    bounds = [
        "actor_rollout_ref.actor.clip_ratio_low=0.3",
        "actor_rollout_ref.actor.clip_ratio_high=0.4",
    ]
    return omega_conf_to_dataclass(verl_config(*bounds).actor_rollout_ref.actor)


def test_the_estimator_centres_outcomes_without_std_and_a_lone_row_gets_zero():
    rewards = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.25, 0.25, 0.0], [0.0, 0.0, 3.0]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 1]])
    index = np.array(["b", "a", "b", "c"], dtype=object)
    estimator = core_algos.get_adv_estimator_fn(ADV_ESTIMATOR)
    advantages, returns = estimator(
        token_level_rewards=rewards, response_mask=mask, index=index, config=None
    )
    expected = torch.tensor([[0.25, 0.25, 0], [0, 0, 0], [-0.25, -0.25, -0.25], [0, 0, 0]])
    torch.testing.assert_close(advantages, expected)
    torch.testing.assert_close(returns, expected)


@pytest.mark.parametrize("name", sorted(POLICY_LOSSES))
@pytest.mark.parametrize("weights", [None, 0.5])
def test_registered_losses_are_ours_with_the_actors_bounds(actor, name, weights):
    torch.manual_seed(0)
    old, log_prob, advantages = (torch.randn(4, 5, dtype=torch.float64) for _ in range(3))
    log_prob.requires_grad_()
    mask = torch.tensor([[1, 1, 1, 0, 0]] * 3 + [[0] * 5])
    loss, metrics = core_algos.get_policy_loss_fn(name)(
        old_log_prob=old,
        log_prob=log_prob,
        advantages=advantages,
        response_mask=mask,
        loss_agg_mode="token-sum",
        config=actor,
        rollout_is_weights=None if weights is None else torch.full_like(old, weights),
    )
    expected = (
        TOKEN_LOSSES[POLICY_LOSSES[name]](log_prob, old, advantages, 0.7, 1.4) * mask
    ).sum() * (weights or 1.0)
    torch.testing.assert_close(loss, expected)
    (grad,) = torch.autograd.grad(loss, log_prob, retain_graph=True)
    torch.testing.assert_close(grad, torch.autograd.grad(expected, log_prob)[0])
    ratio = torch.exp(log_prob - old)[mask.bool()]
    outside = ((ratio < 0.7) | (ratio > 1.4)).float().mean().item()
    assert 0 < outside < 1
    assert metrics["actor/pg_clipfrac"] == pytest.approx(outside)
    assert metrics["actor/ppo_kl"] == pytest.approx(-torch.log(ratio).mean().item())


def test_a_registered_loss_over_no_tokens_is_zero_and_reports_the_same_names(actor):
    """verl refuses data-parallel ranks of which one reports a metric less often."""
    zeros = torch.zeros(2, 3)
    log_prob = torch.zeros(2, 3, requires_grad=True)
    loss, metrics = core_algos.get_policy_loss_fn("importance_sampling")(
        old_log_prob=zeros,
        log_prob=log_prob,
        advantages=zeros,
        response_mask=zeros,
        loss_agg_mode="token-sum",
        config=actor,
    )
    assert (loss.item(), metrics) == (0.0, {"actor/pg_clipfrac": 0, "actor/ppo_kl": 0})


def test_verls_own_cispo_is_still_verls():
    assert core_algos.get_policy_loss_fn("cispo").__module__ == "verl.trainer.ppo.core_algos"


@pytest.mark.parametrize(
    ("overrides", "per_update", "expected"),
    [
        (["use_dynamic_bsz=true"], 2, 2),
        (["use_dynamic_bsz=false", "ppo_micro_batch_size_per_gpu=4"], 2, 2 * 12),
        (["use_dynamic_bsz=false", "ppo_micro_batch_size_per_gpu=4", "use_kl_loss=true"], 1, 60),
        (["use_dynamic_bsz=false", "ppo_micro_batch_size_per_gpu=3"], 6, 6 * 3),
    ],
)
def test_rows_are_padded_to_what_verls_split_needs(verl_config, overrides, per_update, expected):
    config = verl_config(
        *(f"actor_rollout_ref.actor.{o}" for o in overrides),
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=3",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=5",
    )
    assert required_batch_multiple(config, per_update) == expected
