"""Token losses and losses of roles at points worked out by hand; in any mix of roles in one batch
each role's gradient is its own.
"""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.algos.episodes import in_line
from rltf_verl.algos.losses import TOKEN_LOSSES, importance_sampling, shaped
from rltf_verl.algos.role_loss import distill_loss, supervised_loss
from rltf_verl.algos.targets import RowBatch, sampled_tokens
from rltf_verl.config import DistillConfig, RLTFConfig
from rltf_verl.config.objectives import Loss
from rltf_verl.objectives import BUILT_IN, Method
from rltf_verl.objectives.targets import compute_targets
from rltf_verl.types import CONTEXT, Role
from tests.support.effort import examples

CONFIGS = {
    "AWR": RLTFConfig(gamma=0.3, distill=DistillConfig(weight=1.0)),
    "clipped": RLTFConfig(
        gamma=0.3, distill=DistillConfig(weight=1.0, reference="sampler", loss=Loss("ppo"))
    ),
}
NAMES = {int(role): name for name, (_, role) in BUILT_IN.items()}
WEIGHTS = {
    "attempt": 1.0,
    "distill": 0.1,
    "critique": 0.5,
    "feedback_modeling": 0.2,
    "imitate": 0.3,
}
NUM_EPISODES, NUM_TURNS, NUM_TOKENS = 5, 3, 4


@st.composite
def batches(draw):
    """Rows with any role on any token, of episodes of any length in two groups; and the policy's
    log-probs.
    """
    num = draw(st.integers(1, 6))
    token = st.sampled_from([CONTEXT, *map(int, Role)])
    lengths = draw(st.lists(st.integers(1, NUM_TOKENS), min_size=num, max_size=num))
    total = sum(lengths)
    role = torch.tensor(draw(st.lists(token, min_size=total, max_size=total)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    played = torch.randint(1, NUM_TURNS + 1, (NUM_EPISODES,), generator=generator)
    valid = torch.arange(NUM_TURNS) < played.unsqueeze(1)
    rewards = torch.rand(NUM_EPISODES, NUM_TURNS, generator=generator)
    group = torch.randint(0, 2, (NUM_EPISODES,), generator=generator)
    row_episode = torch.randint(0, NUM_EPISODES, (num,), generator=generator)
    episode = row_episode.repeat_interleave(torch.tensor(lengths))
    turn = (torch.rand(total, generator=generator) * played[episode]).long()
    old = -7 * torch.rand(total, generator=generator)
    sampler = old + torch.randn(old.shape, generator=generator) / 3
    episodes = in_line(rewards, valid, group)
    batch = RowBatch(role, turn, episode, torch.tensor(lengths), episodes, old, sampler)
    return batch, old + torch.randn(old.shape, generator=generator) / 3


def gradient(batch, log_prob, config, weights=WEIGHTS):
    """Of the whole loss with respect to the policy's log-probs, put together as the worker's loss
    does it.
    """
    log_prob = log_prob.clone().requires_grad_()
    targets = compute_targets(batch, Method(config), weights)
    sampled = sampled_tokens(batch.role)
    kept = torch.where(sampled, log_prob, 0.0)
    ref = torch.where(sampled, targets.ref_log_probs, 0.0)
    loss = (importance_sampling(kept, ref, targets.advantages, 0.8, 1.2) * sampled).sum()
    loss = loss + distill_loss(
        log_prob,
        targets.ref_log_probs,
        targets.advantages,
        batch.tokens(Role.DISTILL),
        config.distill,
    )
    for role in (Role.FEEDBACK_MODELING, Role.IMITATE):
        loss = loss + supervised_loss(log_prob, targets.advantages, batch.tokens(role))
    return torch.autograd.grad(loss, log_prob)[0]


def rows(batch, order):
    """Some of the rows, in this order, and where their tokens were."""
    places = torch.arange(len(batch.role)).split(batch.lengths.tolist())
    at = torch.cat([torch.zeros(0, dtype=torch.int64), *(places[i] for i in order)])
    fields = ("role", "turn", "episode", "old_log_probs", "sampler_log_probs")
    kept = {name: getattr(batch, name)[at] for name in fields}
    return replace(batch, lengths=batch.lengths[list(order)], **kept), at


@pytest.mark.parametrize("config", CONFIGS)
@examples(40, quick=8)
@given(batches(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(config, mix, random):
    batch, log_prob = mix
    order = random.sample(range(len(batch.lengths)), len(batch.lengths))
    shuffled, at = rows(batch, order)
    whole = gradient(batch, log_prob, CONFIGS[config])
    torch.testing.assert_close(gradient(shuffled, log_prob[at], CONFIGS[config]), whole[at])


@pytest.mark.parametrize("config", CONFIGS)
@examples(40, quick=8)
@given(batches(), st.sampled_from(list(Role)))
def test_rows_of_one_role_change_nothing_for_the_others(config, mix, role):
    """Without the role's tokens, or with the rows that hold any taken out, the rest of the gradient
    is the same.
    """
    batch, log_prob = mix
    whole = gradient(batch, log_prob, CONFIGS[config])
    without = replace(batch, role=torch.where(batch.tokens(role), CONTEXT, batch.role))
    assert torch.equal(
        gradient(without, log_prob, CONFIGS[config]), torch.where(batch.tokens(role), 0.0, whole)
    )
    own = batch.by_row(batch.tokens(role))
    others, at = rows(batch, [i for i, tokens in enumerate(own) if not tokens.any()])
    assert torch.equal(gradient(others, log_prob[at], CONFIGS[config]), whole[at])


@pytest.mark.parametrize("config", CONFIGS)
@examples(40, quick=8)
@given(batches(), st.sampled_from(list(Role)), st.floats(0, 8, width=16))
def test_a_roles_weight_scales_its_own_gradient_and_no_other(config, mix, role, factor):
    batch, log_prob = mix
    one = gradient(batch, log_prob, CONFIGS[config])
    scaled = gradient(
        batch, log_prob, CONFIGS[config], {**WEIGHTS, NAMES[role]: factor * WEIGHTS[NAMES[role]]}
    )
    torch.testing.assert_close(
        scaled, torch.where(batch.tokens(role), factor * one, one), atol=1e-6, rtol=1e-5
    )
    off = gradient(batch, log_prob, CONFIGS[config], {**WEIGHTS, NAMES[role]: 0.0})
    assert torch.equal(off, torch.where(batch.tokens(role), 0.0, one))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf"), 1e30])
@examples(25, quick=8)
@given(batches())
def test_context_gets_exactly_zero_gradient_whatever_stands_there(bad, mix):
    batch, log_prob = mix
    context = batch.role == CONTEXT
    poisoned = replace(
        batch,
        old_log_probs=torch.where(context, bad, batch.old_log_probs),
        sampler_log_probs=torch.where(context, bad, batch.sampler_log_probs),
    )
    for config in CONFIGS.values():
        actual = gradient(poisoned, torch.where(context, bad, log_prob), config)
        assert torch.equal(actual, gradient(batch, log_prob, config))
        assert not actual[context].any()


@examples(40, quick=8)
@given(batches(), st.sampled_from(["hard", "soft", None]))
def test_what_each_role_gets(mix, floor):
    """One token at a time, from the definition: the sign, the weight, the floor and the ratio of
    every role.
    """
    batch, log_prob = mix
    old, distill = batch.old_log_probs, DistillConfig(weight=1.0, log_prob_floor=None)
    plain = RLTFConfig(gamma=0.3, distill=distill)
    advantages = compute_targets(batch, Method(plain), WEIGHTS).advantages
    floors = {"hard": (old >= -5.0).float(), "soft": (old + 5.0).clamp(max=0.0).exp(), None: 1.0}
    ratio = (log_prob - old).exp()
    correct = batch.episodes.correct[batch.episode, batch.turn].float()
    expected = {
        Role.ATTEMPT: -ratio * advantages,
        Role.CRITIQUE: -ratio * advantages,
        Role.DISTILL: -advantages * floors[floor],
        Role.FEEDBACK_MODELING: torch.full_like(ratio, -WEIGHTS["feedback_modeling"]),
        Role.IMITATE: -WEIGHTS["imitate"] * correct,
    }
    floored = DistillConfig(weight=1.0, floor=floor) if floor else distill
    config = replace(plain, distill=floored)
    actual = gradient(batch, log_prob, config)
    for role, values in expected.items():
        at = batch.tokens(role)
        torch.testing.assert_close(actual[at], values[at], atol=1e-6, rtol=1e-5)
    below = compute_targets(batch, Method(config), WEIGHTS).floor_masked
    low = batch.tokens(Role.DISTILL) & (old < -5.0)
    assert torch.equal(below, low if floor else torch.zeros_like(low))


@examples(20, quick=8)
@given(batches(), st.sampled_from(["old", "sampler"]))
def test_the_reference_of_distilled_tokens(mix, reference):
    batch, _ = mix
    config = RLTFConfig(distill=DistillConfig(weight=1.0, reference=reference))
    by_sampler = batch.tokens(Role.DISTILL) & (reference == "sampler")
    expected = torch.where(by_sampler, batch.sampler_log_probs, batch.old_log_probs)
    assert torch.equal(compute_targets(batch, Method(config), WEIGHTS).ref_log_probs, expected)


def loss_and_grad(token_loss, log_prob):
    leaf = torch.tensor([[log_prob]], dtype=torch.float64, requires_grad=True)
    loss = token_loss(leaf)
    (grad,) = torch.autograd.grad(loss.sum(), leaf)
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
    old, weight = torch.tensor([[[-1.0]], [[advantage]]], dtype=torch.float64)
    token_loss = partial(
        TOKEN_LOSSES[name], ref_log_prob=old, advantages=weight, clip_low=0.8, clip_high=1.2
    )
    actual = loss_and_grad(token_loss, -1.0 + math.log(ratio))
    assert actual == pytest.approx((loss, grad), abs=1e-12)


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
    weight = torch.tensor([[advantage]], dtype=torch.float64)
    actual = loss_and_grad(partial(shaped, advantages=weight, gamma=gamma), math.log(probability))
    assert actual == pytest.approx((loss, grad), abs=1e-12)


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
