"""Any mix of roles in one batch: each role's gradient is its own, whatever the others hold."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.algos.episodes import in_line
from rltf_verl.algos.losses import importance_sampling
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


def rows(batch, keep):
    """The batch of some rows only, and where its tokens were."""
    at = keep.repeat_interleave(batch.lengths)
    fields = ("role", "turn", "episode", "old_log_probs", "sampler_log_probs")
    kept = {name: getattr(batch, name)[at] for name in fields}
    return replace(batch, lengths=batch.lengths[keep], **kept), at


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
    others, at = rows(batch, torch.tensor([not bool(tokens.any()) for tokens in own]))
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
@given(batches())
def test_what_each_role_gets(mix):
    """One token at a time, from the definition: the sign, the weight, the floor and the ratio of
    every role.
    """
    batch, log_prob = mix
    config = CONFIGS["AWR"]
    actual, targets = (
        gradient(batch, log_prob, config),
        compute_targets(batch, Method(config), WEIGHTS),
    )
    ratio = (log_prob - batch.old_log_probs).exp()
    correct = batch.episodes.correct[batch.episode, batch.turn].float()
    expected = {
        Role.ATTEMPT: -ratio * targets.advantages,
        Role.CRITIQUE: -ratio * targets.advantages,
        Role.DISTILL: -torch.where(batch.old_log_probs >= -5.0, targets.advantages, 0.0),
        Role.FEEDBACK_MODELING: torch.full_like(ratio, -WEIGHTS["feedback_modeling"]),
        Role.IMITATE: -WEIGHTS["imitate"] * correct,
    }
    for role, values in expected.items():
        at = batch.tokens(role)
        torch.testing.assert_close(actual[at], values[at], atol=1e-6, rtol=1e-5)
