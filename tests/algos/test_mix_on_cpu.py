"""Token losses and losses of roles at points worked out by hand; in any mix of roles in one batch
each role's gradient is its own; and the golden case through the whole path of training.
"""

import asyncio
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.algos.episodes import in_line
from rltf_verl.algos.losses import TOKEN_LOSSES, importance_sampling, shaped
from rltf_verl.algos.role_loss import distill_loss, supervised_loss
from rltf_verl.algos.targets import RowBatch, sampled_tokens
from rltf_verl.config import DistillConfig, ImitateConfig, RLTFConfig
from rltf_verl.config.objectives import Loss
from rltf_verl.objectives import BUILT_IN, Method
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.objectives.targets import compute_targets
from rltf_verl.types import CONTEXT, Attempt, Episode, Grade, Problem, Role, Turn
from tests.support.effort import examples
from tests.support.methods import targets_of
from tools.parity.pack import pack_episodes, pack_rows

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


@pytest.mark.parametrize("moved", [0.0, 0.7, -3.0, 40.0, -200.0])
def test_awr_gradient_is_minus_the_advantage_however_far_the_policy_has_moved(moved):
    old = torch.tensor([[-1.0, -2.0, -3.0], [-0.5, -4.0, -1.0]])
    advantages = torch.tensor([[0.7, 0.0, -0.3], [1.25, -2.0, 0.1]])
    log_prob, mask = (old + moved).requires_grad_(), torch.ones(2, 3, dtype=torch.bool)
    total = distill_loss(log_prob, old, advantages, mask, DistillConfig(reference="current"))
    (grad,) = torch.autograd.grad(total, log_prob)
    assert torch.equal(grad, -advantages)
    assert total.item() == pytest.approx(-advantages.sum().item(), abs=1e-6)


WHOLE = {"weight": 1.0, "log_prob_floor": None}


# (rewards, sampler log-probs of each turn, log-probs of the last answer under the first prompt)
SESSIONS = [
    ([1.0], [(-0.5, -0.25)], None),
    ([0.0, 1.0], [(-0.7, -0.3, -0.1), (-0.2, -0.4, -0.6, -0.1)], (-1.0, -6.0, -5.0, -0.3)),
    ([-0.1, 0.0], [(-1.1, -0.9), (-0.3, -0.8)], (-2.0, -5.5)),
    ([0.0, 1.0], [(-0.2, -0.2), (-0.5, -0.5, -0.5)], (-0.9, -4.999, -5.001)),
    ([0.0, 1.0], [(-0.6,), (-0.1,)], (-7.0,)),
    ([-0.1, 0.9], [(-0.4, -1.4), (-0.05, -2.0)], (-0.2, -0.3)),
]
GROUP = [0, 0, 0, 1, 1, 1]


def golden_config(**distill):
    """The paper's RLTF-SD, or what is changed in its `distill` block."""
    return RLTFConfig(distill=DistillConfig(**{"weight": 0.1, **distill}))


def golden_batch(
    settings=None, sessions=SESSIONS, group=GROUP, order=None, graded=lambda reward: reward > 0.5
):
    """The rows of the objectives that have a weight."""
    episodes, rows, row_episode, old = [], [], [], []
    for s, (rewards, sampler, student) in enumerate(sessions):
        turns = tuple(
            Turn(
                Attempt((s, k), tuple(range(len(lp))), lp, "", True),
                Grade(graded(r), True),
                r,
            )
            for k, (r, lp) in enumerate(zip(rewards, sampler, strict=True))
        )
        episodes.append(Episode(Problem("x", 0, {}, ""), s, turns))
        for row in asyncio.run(
            episode_rows(None, [], episodes[-1], Method(settings or golden_config()))
        ):
            rows.append(row)
            row_episode.append(s)
            old.append(row.log_probs if row.role[0] == Role.ATTEMPT else student)
    order = range(len(rows)) if order is None else order
    rows, row_episode, old = ([values[i] for i in order] for values in (rows, row_episode, old))
    return pack_rows(rows, row_episode, pack_episodes(episodes, group), old)


def of_role(packed, values, role):
    """Values of the rows of one role, its tokens only."""
    rows = zip(packed.by_row(values), packed.by_row(packed.tokens(role)), strict=True)
    return [own[mask].tolist() for own, mask in rows if mask.any()]


def test_attempt_rows_of_the_golden_case():
    packed = golden_batch()
    actual = of_role(packed, targets_of(packed, golden_config()).advantages, Role.ATTEMPT)
    expected = [
        [2 / 3] * 2,
        [-0.7 / 3] * 3,
        [0.5] * 4,
        [-1.3 / 3] * 2,
        [-0.5] * 2,
        [0.11 / 3] * 2,
        [0.1 / 3] * 3,
        [0.11 / 3],
        [0.1 / 3],
        [-0.22 / 3] * 2,
        [-0.2 / 3] * 2,
    ]
    for a, e in zip(actual, expected, strict=True):
        assert a == pytest.approx(e, abs=1e-6)


@pytest.mark.parametrize(
    ("distill", "expected"),
    [
        (
            {},
            [[0.07, 0, 0.07, 0.07], [-0.03, 0], [0.31 / 3, 0.31 / 3, 0], [0], [0.28 / 3, 0.28 / 3]],
        ),
        (WHOLE, [[0.7] * 4, [-0.3] * 2, [3.1 / 3] * 3, [3.1 / 3], [2.8 / 3] * 2]),
        (
            {"baseline": "second_turn"},
            [[0.05, 0, 0.05, 0.05], [-0.05, 0], [0.01 / 3, 0.01 / 3, 0], [0], [-0.02 / 3] * 2],
        ),
        ({"baseline": "rejection"}, [[0.1, 0, 0.1, 0.1], [0, 0], [0.1, 0.1, 0], [0], [0.1, 0.1]]),
        ({**WHOLE, "baseline": "none"}, [[1.0] * 4, [0.0] * 2, [1.0] * 3, [1.0], [0.9] * 2]),
        # tokens at −6, −5.5, −5.001, −7 below the floor of −5 keep e^-1, e^-0.5, e^-0.001, e^-2
        (
            {"floor": "soft"},
            [
                [0.07, 0.07 * 0.3678794, 0.07, 0.07],
                [-0.03, -0.03 * 0.6065307],
                [0.31 / 3, 0.31 / 3, 0.31 / 3 * 0.9990005],
                [0.31 / 3 * 0.1353353],
                [0.28 / 3, 0.28 / 3],
            ],
        ),
    ],
)
def test_distillation_rows_of_the_golden_case(distill, expected):
    packed = golden_batch()
    targets = targets_of(packed, golden_config(**distill))
    for a, e in zip(of_role(packed, targets.advantages, Role.DISTILL), expected, strict=True):
        assert a == pytest.approx(e, abs=1e-6)


def test_a_soft_floor_masks_nothing_else():
    packed = golden_batch()
    soft, hard = (
        targets_of(packed, golden_config(floor="soft")),
        targets_of(packed, golden_config()),
    )
    assert torch.equal(soft.floor_masked, hard.floor_masked)
    kept = ~hard.floor_masked
    assert torch.equal(soft.advantages[kept], hard.advantages[kept])
    whole = targets_of(packed, golden_config(floor="soft", log_prob_floor=None))
    assert torch.equal(
        whole.advantages, targets_of(packed, golden_config(log_prob_floor=None)).advantages
    )


def test_imitation_rows_of_the_golden_case():
    """RLTF_SPEC 8.1, sft: cross-entropy rows for all second answers but that of episode 2, which is
    wrong.
    """
    settings = RLTFConfig(imitate=ImitateConfig(weight=0.1))
    packed = golden_batch(settings)
    actual = of_role(packed, targets_of(packed, settings).advantages, Role.IMITATE)
    assert [len(row) for row in actual] == [4, 3, 1, 2]
    assert all(a == pytest.approx(0.1) for row in actual for a in row)


def test_floor_masked_shares_of_the_golden_case():
    packed = golden_batch()
    targets = targets_of(packed, golden_config())
    shares = [sum(row) / len(row) for row in of_role(packed, targets.floor_masked, Role.DISTILL)]
    assert shares == pytest.approx([0.25, 0.5, 1 / 3, 1.0, 0.0])
    assert not targets.floor_masked[
        ~packed.tokens(Role.DISTILL)
    ].any()  # attempts are never floored


def test_the_reference_of_distillation_rows():
    packed = golden_batch()
    distill = packed.tokens(Role.DISTILL)
    old = targets_of(packed, golden_config(reference="old")).ref_log_probs
    assert torch.equal(old, packed.old_log_probs)
    # a sampler that lags behind concerns the distilled answers only
    lagging = replace(packed, sampler_log_probs=packed.sampler_log_probs - 1)
    sampler = targets_of(lagging, golden_config(reference="sampler")).ref_log_probs
    assert torch.equal(sampler[~distill], packed.old_log_probs[~distill])
    assert of_role(packed, sampler, Role.DISTILL)[0] == pytest.approx([-1.2, -1.4, -1.6, -1.1])


@examples(20)
@given(st.permutations(range(16)))
def test_the_order_of_rows_does_not_matter(order):
    plain, shuffled = golden_batch(), golden_batch(order=order)
    a, b = targets_of(plain, golden_config()), targets_of(shuffled, golden_config())
    for name in ("advantages", "floor_masked"):
        expected = plain.by_row(getattr(a, name))
        rows = shuffled.by_row(getattr(b, name))
        for own, i in zip(rows, order, strict=True):
            torch.testing.assert_close(own, expected[i], atol=1e-6, rtol=0)
