"""Rows -> advantages and references: the golden case through the whole path of training."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.algos.pack import pack_episodes, pack_rows
from rltf_verl.algos.targets import sampled_tokens
from rltf_verl.config import (
    CritiqueConfig,
    FeedbackModelingConfig,
    ImitateConfig,
    RLTFConfig,
)
from rltf_verl.episode.rows import attempt_rows
from rltf_verl.objectives.critique import critique_rows
from rltf_verl.types import Attempt, Episode, Feedback, Grade, Problem, Role, Turn
from tests.support.effort import examples
from tests.support.golden_batch import GROUP, batch, config, of_role
from tests.support.methods import targets_of

WHOLE = {"weight": 1.0, "log_prob_floor": None}


def test_the_episodes_are_packed_as_they_were_played():
    sessions = batch().episodes
    rewards = [[1.0, 0.0], [0.0, 1.0], [-0.1, 0.0], [0.0, 1.0], [0.0, 1.0], [-0.1, 0.9]]
    torch.testing.assert_close(sessions.rewards, torch.tensor(rewards))
    assert sessions.valid.tolist() == [[True, False]] + [[True, True]] * 5
    assert sessions.parent.tolist() == [[-1, -1]] + [[-1, 0]] * 5
    assert sessions.group.tolist() == GROUP


def test_attempt_rows_of_the_golden_case():
    packed = batch()
    actual = of_role(packed, targets_of(packed, config()).advantages, Role.ATTEMPT)
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
    packed = batch()
    targets = targets_of(packed, config(**distill))
    for a, e in zip(of_role(packed, targets.advantages, Role.DISTILL), expected, strict=True):
        assert a == pytest.approx(e, abs=1e-6)


def test_a_soft_floor_masks_nothing_else():
    packed = batch()
    soft, hard = targets_of(packed, config(floor="soft")), targets_of(packed, config())
    assert torch.equal(soft.floor_masked, hard.floor_masked)
    kept = ~hard.floor_masked
    assert torch.equal(soft.advantages[kept], hard.advantages[kept])
    whole = targets_of(packed, config(floor="soft", log_prob_floor=None))
    assert torch.equal(whole.advantages, targets_of(packed, config(log_prob_floor=None)).advantages)


def test_turns_that_are_too_old_weigh_nothing_in_distillation_and_feedback():
    packed = batch()
    stale = torch.zeros(6, 2, dtype=torch.bool)
    stale[1], stale[3, 0] = True, True  # episode 1's second answer; of episode 3 only the first
    targets = targets_of(packed, config(), stale)
    plain = targets_of(packed, config())
    distilled = of_role(packed, targets.advantages, Role.DISTILL)
    assert distilled == [[0.0] * 4, *of_role(packed, plain.advantages, Role.DISTILL)[1:]]
    attempts = packed.tokens(Role.ATTEMPT)
    assert torch.equal(targets.advantages[attempts], plain.advantages[attempts])
    modelled = replace(packed, role=torch.where(attempts, int(Role.FEEDBACK_MODELING), packed.role))
    settings = RLTFConfig(feedback_modeling=FeedbackModelingConfig(weight=0.5))
    weighed = targets_of(modelled, settings, stale)
    first = [row[0] for row in of_role(modelled, weighed.advantages, Role.FEEDBACK_MODELING)]
    # rows of episodes 0, 1, 1, 2, 2, 3, 3, …
    assert first[:7] == [0.5, 0.0, 0.0, 0.5, 0.5, 0.0, 0.5]


def test_imitation_rows_of_the_golden_case():
    """RLTF_SPEC 8.1, sft: cross-entropy rows for all second answers but that of episode 2, which is
    wrong.
    """
    settings = RLTFConfig(imitate=ImitateConfig(weight=0.1))
    packed = batch(settings)
    actual = of_role(packed, targets_of(packed, settings).advantages, Role.IMITATE)
    assert [len(row) for row in actual] == [4, 3, 1, 2]
    assert all(a == pytest.approx(0.1) for row in actual for a in row)


def test_floor_masked_shares_of_the_golden_case():
    packed = batch()
    targets = targets_of(packed, config())
    shares = [sum(row) / len(row) for row in of_role(packed, targets.floor_masked, Role.DISTILL)]
    assert shares == pytest.approx([0.25, 0.5, 1 / 3, 1.0, 0.0])
    assert not targets.floor_masked[
        ~packed.tokens(Role.DISTILL)
    ].any()  # attempts are never floored


def test_the_on_policy_loss_of_the_golden_case():
    """With ratio 1 everywhere the importance-sampling loss is minus the sum of all advantages
    (RLTF_SPEC 8.1).
    """

    def total(settings):
        return -targets_of(batch(settings), settings).advantages.sum().item()

    assert total(RLTFConfig()) == pytest.approx(-0.73, abs=1e-5)
    assert total(config()) == pytest.approx(-1.30333, abs=1e-5)
    assert total(config(baseline="second_turn")) == pytest.approx(-0.82333, abs=1e-5)
    assert total(config(**WHOLE)) == pytest.approx(-8.93, abs=1e-5)
    assert total(config(**WHOLE, baseline="second_turn")) == pytest.approx(-1.73, abs=1e-5)


def test_the_reference_of_distillation_rows():
    packed = batch()
    distill = packed.tokens(Role.DISTILL)
    old = targets_of(packed, config(reference="old")).ref_log_probs
    assert torch.equal(old, packed.old_log_probs)
    # a sampler that lags behind concerns the distilled answers only
    lagging = replace(packed, sampler_log_probs=packed.sampler_log_probs - 1)
    sampler = targets_of(lagging, config(reference="sampler")).ref_log_probs
    assert torch.equal(sampler[~distill], packed.old_log_probs[~distill])
    assert of_role(packed, sampler, Role.DISTILL)[0] == pytest.approx([-1.2, -1.4, -1.6, -1.1])


@examples(20)
@given(st.permutations(range(16)))
def test_the_order_of_rows_does_not_matter(order):
    plain, shuffled = batch(), batch(order=order)
    a, b = targets_of(plain, config()), targets_of(shuffled, config())
    for name in ("advantages", "floor_masked"):
        expected = plain.by_row(getattr(a, name))
        rows = shuffled.by_row(getattr(b, name))
        for own, i in zip(rows, order, strict=True):
            torch.testing.assert_close(own, expected[i], atol=1e-6, rtol=0)


def two_turns(first_prompt, second_prompt, rewards, feedback=None):
    turns = (
        Turn(
            Attempt(first_prompt, (2,), (-1.0,), "", True), Grade(False, True), rewards[0], feedback
        ),
        Turn(
            Attempt(second_prompt, (3, 4), (-1.0, -1.0), "", True),
            Grade(True, True),
            rewards[1],
            parent=0,
        ),
    )
    return Episode(Problem("x", 0, {}, ""), 0, turns)


def test_a_merged_row_carries_each_turns_advantage_and_nothing_in_its_gap():
    episodes = [two_turns((1,), (1, 2, 7, 7), rewards) for rewards in ((0.0, 1.0), (0.0, 0.0))]
    rows = [attempt_rows(e)[0] for e in episodes]
    packed = pack_rows(rows, [0, 1], pack_episodes(episodes, [0, 0]), [[-1.0] * 5] * 2)
    advantages = targets_of(packed, RLTFConfig(gamma=0.5)).advantages
    expected = [0.25, 0, 0, 0.5, 0.5, -0.25, 0, 0, -0.5, -0.5]
    torch.testing.assert_close(advantages, torch.tensor(expected))


def test_critique_rows_are_credited_with_the_turn_they_led_to():
    critique = Feedback("", "policy", attempt=Attempt((8,), (9, 9), (-1.0, -1.0), "", True))
    episodes = [two_turns((1,), (3,), (0.0, reward), critique) for reward in (1.0, 0.0)]
    rows = [row for e in episodes for row in critique_rows(e)]
    packed = pack_rows(rows, [0, 1], pack_episodes(episodes, [0, 0]), [r.log_probs for r in rows])
    assert targets_of(packed, RLTFConfig()).advantages.tolist() == [0.5, 0.5, -0.5, -0.5]
    assert sampled_tokens(packed.role).all()
    halved = RLTFConfig(critique=CritiqueConfig(weight=0.5))
    assert targets_of(packed, halved).advantages.tolist() == [0.25, 0.25, -0.25, -0.25]
