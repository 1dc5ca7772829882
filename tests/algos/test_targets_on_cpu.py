"""Rows -> advantages and references: the golden case through the whole path of training."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rltf_verl.algos.pack import pack_rows
from rltf_verl.algos.targets import RowBatch, compute_targets, turn_table
from rltf_verl.episode.rows import episode_to_rows
from rltf_verl.types import Attempt, Episode, Feedback, Grade, Problem, Role, Turn

# RLTF_SPEC 8.1: (rewards, sampler log-probs of each turn, log-probs of the last answer under the first prompt)
SESSIONS = [
    ([1.0], [(-0.5, -0.25)], None),
    ([0.0, 1.0], [(-0.7, -0.3, -0.1), (-0.2, -0.4, -0.6, -0.1)], (-1.0, -6.0, -5.0, -0.3)),
    ([-0.1, 0.0], [(-1.1, -0.9), (-0.3, -0.8)], (-2.0, -5.5)),
    ([0.0, 1.0], [(-0.2, -0.2), (-0.5, -0.5, -0.5)], (-0.9, -4.999, -5.001)),
    ([0.0, 1.0], [(-0.6,), (-0.1,)], (-7.0,)),
    ([-0.1, 0.9], [(-0.4, -1.4), (-0.05, -2.0)], (-0.2, -0.3)),
]
GROUP = [0, 0, 0, 1, 1, 1]


def batch(sessions=SESSIONS, group=GROUP, distill=True, order=None):
    rows, row_session, old = [], [], []
    for s, (rewards, sampler, student) in enumerate(sessions):
        turns = tuple(
            Turn(Attempt((s, k), tuple(range(len(lp))), lp, "", True), Grade(r > 0.5, True), r)
            for k, (r, lp) in enumerate(zip(rewards, sampler, strict=True))
        )
        for row in episode_to_rows(Episode(Problem("x", 0, {}, ""), s, turns, "horizon"), distill=distill):
            rows.append(row)
            row_session.append(s)
            old.append(student if row.role is Role.DISTILL else row.log_probs)
    order = range(len(rows)) if order is None else order
    rows, row_session, old = ([values[i] for i in order] for values in (rows, row_session, old))
    return pack_rows(rows, row_session, group, old)


def of_role(packed, values, role):
    """Values of the rows of one role, masked tokens only."""
    keep = packed.has_role(role)
    return [v[m].tolist() for v, m in zip(values[keep], packed.mask[keep], strict=True)]


def test_the_turns_are_read_back_from_the_rows():
    table = turn_table(batch())
    rewards = [[1.0, 0.0], [0.0, 1.0], [-0.1, 0.0], [0.0, 1.0], [0.0, 1.0], [-0.1, 0.9]]
    torch.testing.assert_close(table.rewards, torch.tensor(rewards))
    assert table.valid.tolist() == [[True, False]] + [[True, True]] * 5
    assert table.group.tolist() == GROUP


def test_attempt_rows_of_the_golden_case():
    packed = batch()
    targets = compute_targets(packed, gamma=0.1, distill_weight=0.1)
    actual = of_role(packed, targets.advantages, Role.ATTEMPT)
    expected = [
        [2 / 3] * 2, [-0.7 / 3] * 3, [0.5] * 4, [-1.3 / 3] * 2, [-0.5] * 2,
        [0.11 / 3] * 2, [0.1 / 3] * 3, [0.11 / 3], [0.1 / 3], [-0.22 / 3] * 2, [-0.2 / 3] * 2,
    ]  # fmt: skip
    for a, e in zip(actual, expected, strict=True):
        assert a == pytest.approx(e, abs=1e-6)


@pytest.mark.parametrize(
    ("baseline", "floor", "weight", "expected"),
    [
        (
            "first_turn",
            -5.0,
            0.1,
            [[0.07, 0, 0.07, 0.07], [-0.03, 0], [0.31 / 3, 0.31 / 3, 0], [0], [0.28 / 3, 0.28 / 3]],
        ),
        ("first_turn", None, 1.0, [[0.7] * 4, [-0.3] * 2, [3.1 / 3] * 3, [3.1 / 3], [2.8 / 3] * 2]),
        ("second_turn", -5.0, 0.1, [[0.05, 0, 0.05, 0.05], [-0.05, 0], [0.01 / 3, 0.01 / 3, 0], [0], [-0.02 / 3] * 2]),
    ],
)
def test_distillation_rows_of_the_golden_case(baseline, floor, weight, expected):
    packed = batch()
    targets = compute_targets(packed, gamma=0.1, distill_weight=weight, baseline=baseline, log_prob_floor=floor)
    for a, e in zip(of_role(packed, targets.advantages, Role.DISTILL), expected, strict=True):
        assert a == pytest.approx(e, abs=1e-6)


def test_floor_masked_shares_of_the_golden_case():
    packed = batch()
    targets = compute_targets(packed, gamma=0.1, distill_weight=0.1)
    shares = [sum(row) / len(row) for row in of_role(packed, targets.floor_masked, Role.DISTILL)]
    assert shares == pytest.approx([0.25, 0.5, 1 / 3, 1.0, 0.0])
    assert not targets.floor_masked[packed.has_role(Role.ATTEMPT)].any()  # attempts are never floored


def test_the_on_policy_loss_of_the_golden_case():
    """With ratio 1 everywhere the importance-sampling loss is minus the sum of all advantages (RLTF_SPEC 8.1)."""

    def total(**kwargs):
        return -compute_targets(batch(**kwargs), gamma=0.1, distill_weight=0.1).advantages.sum().item()

    assert total(distill=False) == pytest.approx(-0.73, abs=1e-5)
    assert total() == pytest.approx(-1.30333, abs=1e-5)


def test_the_reference_of_distillation_rows():
    packed = batch()
    distill, mask = packed.has_role(Role.DISTILL), packed.mask
    old = compute_targets(packed, gamma=0.1, distill_weight=0.1, reference="old").ref_log_probs
    assert torch.equal(old, packed.old_log_probs)
    sampler = compute_targets(packed, gamma=0.1, distill_weight=0.1, reference="sampler").ref_log_probs
    assert torch.equal(sampler[~distill], packed.old_log_probs[~distill])
    assert sampler[distill][0][mask[distill][0]].tolist() == pytest.approx([-0.2, -0.4, -0.6, -0.1])


def test_distillation_rows_change_nothing_for_attempt_rows():
    alone, mixed = batch(distill=False), batch(distill=True)
    a = compute_targets(alone, gamma=0.1, distill_weight=0.0)
    b = compute_targets(mixed, gamma=0.1, distill_weight=7.0, baseline="second_turn")
    keep = mixed.has_role(Role.ATTEMPT)
    assert torch.equal(b.advantages[keep], a.advantages)
    assert torch.equal(b.ref_log_probs[keep], a.ref_log_probs)


def test_the_weight_scales_distillation_rows_linearly_and_nothing_else():
    packed = batch()
    one, three, none = (compute_targets(packed, gamma=0.1, distill_weight=w).advantages for w in (1.0, 3.0, 0.0))
    distill = packed.has_role(Role.DISTILL)
    torch.testing.assert_close(three[distill], 3 * one[distill])
    assert not none[distill].any()
    assert torch.equal(three[~distill], one[~distill])
    assert one[distill].any()


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(16)))
def test_the_order_of_rows_does_not_matter(order):
    plain, shuffled = batch(), batch(order=order)
    a = compute_targets(plain, gamma=0.1, distill_weight=0.1)
    b = compute_targets(shuffled, gamma=0.1, distill_weight=0.1)
    torch.testing.assert_close(b.advantages, a.advantages[list(order)], atol=1e-6, rtol=0)
    assert torch.equal(b.floor_masked, a.floor_masked[list(order)])


def test_a_group_of_one_learns_nothing_from_attempts_and_still_distills():
    packed = batch(sessions=[SESSIONS[1]], group=[0])
    targets = compute_targets(packed, gamma=0.1, distill_weight=1.0, log_prob_floor=None)
    assert all(a == 0.0 for row in of_role(packed, targets.advantages, Role.ATTEMPT) for a in row)
    assert of_role(packed, targets.advantages, Role.DISTILL) == [[1.0] * 4]


def test_a_merged_row_carries_each_turns_advantage_and_nothing_in_its_gap():
    def merged(rewards):
        turns = (
            Turn(Attempt((1,), (2,), (-1.0,), "", True), Grade(False, True), rewards[0]),
            Turn(Attempt((1, 2, 7, 7), (3, 4), (-1.0, -1.0), "", True), Grade(True, True), rewards[1]),
        )
        return episode_to_rows(Episode(Problem("x", 0, {}, ""), 0, turns, "horizon"), distill=False)[0]

    packed = pack_rows([merged((0.0, 1.0)), merged((0.0, 0.0))], [0, 1], [0, 0], [[-1.0] * 5] * 2)
    advantages = compute_targets(packed, gamma=0.5, distill_weight=0.0).advantages
    torch.testing.assert_close(advantages, torch.tensor([[0.25, 0, 0, 0.5, 0.5], [-0.25, 0, 0, -0.5, -0.5]]))


def test_critique_rows_are_credited_with_the_turn_they_led_to():
    def rows(reward):
        feedback = Feedback("", "policy", attempt=Attempt((8,), (9, 9), (-1.0, -1.0), "", True))
        turns = (
            Turn(Attempt((1,), (2,), (-1.0,), "", True), Grade(False, True), 0.0, feedback),
            Turn(Attempt((3,), (4,), (-1.0,), "", True), Grade(True, True), reward),
        )
        return episode_to_rows(Episode(Problem("x", 0, {}, ""), 0, turns, "horizon"), distill=False)

    both = [*rows(1.0), *rows(0.0)]
    packed = pack_rows(both, [0, 0, 0, 1, 1, 1], [0, 0], [r.log_probs for r in both])
    advantages = compute_targets(packed, gamma=0.1, distill_weight=0.0).advantages
    assert of_role(packed, advantages, Role.CRITIQUE) == [[0.5, 0.5], [-0.5, -0.5]]
    assert turn_table(packed).rewards.tolist() == [[0.0, 1.0], [0.0, 0.0]]  # they play no turn of their own


def test_a_batch_of_wrong_shape_names_the_field():
    good = batch()
    fields = {name: getattr(good, name) for name in RowBatch.__dataclass_fields__}
    for name in ("role", "session", "turn", "rewards", "old_log_probs", "sampler_log_probs"):
        with pytest.raises(ValueError, match=f"{name} has shape"):
            RowBatch(**{**fields, name: fields[name][:3]})
