"""What holds for the advantages of any batch of episodes."""

from dataclasses import fields, replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.algos.advantages import turn_advantages
from rltf_verl.algos.distill import distill_advantages
from rltf_verl.algos.episodes import EpisodeBatch, cohorts, in_line
from rltf_verl.algos.returns import discounted_returns
from tests.support.effort import examples

GAMMA = 0.3
ESTIMATORS = ["group_mean", "leave_one_out", "ragged", "first_turn", "joined", "none"]
BASELINES = [
    "first_turn",
    "leave_one_out",
    "joined",
    "second_turn",
    "second_turn_padded",
    "none",
    "rejection",
]
WIDTH = 7
"""Turns that a batch has room for."""


@st.composite
def batches(draw):
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=7))
    reward = st.floats(-1, 1, width=16)
    rewards = [draw(st.lists(reward, min_size=WIDTH, max_size=WIDTH)) for _ in lengths]
    group = draw(st.lists(st.integers(0, 2), min_size=len(lengths), max_size=len(lengths)))
    valid = torch.tensor([[m < length for m in range(WIDTH)] for length in lengths])
    return in_line(torch.tensor(rewards), valid, torch.tensor(group))


def select(episodes, index):
    return EpisodeBatch(**{f.name: getattr(episodes, f.name)[index] for f in fields(EpisodeBatch)})


def everything(episodes):
    """Every estimator and every distillation baseline, [S, M] each; 0 where nobody played."""
    returns = discounted_returns(episodes, GAMMA)
    tables = [
        turn_advantages(returns, episodes, e, norm) for e in ESTIMATORS for norm in (False, True)
    ]
    tables += [distill_advantages(returns, episodes, baseline) for baseline in BASELINES]
    return torch.stack([torch.where(episodes.valid, table, 0.0) for table in tables])


def same(actual, expected):
    torch.testing.assert_close(actual, expected, atol=2e-5, rtol=1e-5)


@examples(30, quick=8)
@given(batches(), st.randoms(use_true_random=False))
def test_the_order_of_episodes_does_not_matter(episodes, random):
    order = list(range(len(episodes.group)))
    random.shuffle(order)
    same(everything(select(episodes, order)), everything(episodes)[:, order])


@examples(30, quick=8)
@given(batches(), batches())
def test_episodes_of_another_group_change_nothing(episodes, others):
    others = replace(others, group=others.group + 3)
    both = EpisodeBatch(
        **{
            f.name: torch.cat([getattr(s, f.name) for s in (episodes, others)])
            for f in fields(EpisodeBatch)
        }
    )
    assert torch.equal(everything(both)[:, : len(episodes.group)], everything(episodes))


@examples(30, quick=8)
@given(batches())
def test_the_advantages_of_a_cohort_add_up_to_nothing(episodes):
    returns = discounted_returns(episodes, GAMMA)
    where = cohorts(episodes)
    for estimator in ("group_mean", "leave_one_out"):
        advantages = turn_advantages(returns, episodes, estimator)
        for label in where[episodes.valid].unique():
            members = (where == label) & episodes.valid
            assert abs(advantages[members].sum().item()) < 1e-5


@examples(30, quick=8)
@given(batches())
def test_leave_one_out_is_the_groups_mean_stretched(episodes):
    """R − mean of the others = n/(n−1) · (R − mean of all)."""
    returns, where = discounted_returns(episodes, GAMMA), cohorts(episodes)
    n = torch.stack([((where == label) & episodes.valid).sum() for label in where.flatten()])
    n = n.view_as(where).float()
    stretch = torch.where(n > 1, n / (n - 1).clamp(min=1), 0.0)
    same(
        turn_advantages(returns, episodes, "leave_one_out"),
        stretch * turn_advantages(returns, episodes, "group_mean"),
    )


@examples(30, quick=8)
@given(batches())
def test_room_for_more_turns_changes_nothing_nor_does_what_stands_there(episodes):
    wide = EpisodeBatch(
        rewards=torch.nn.functional.pad(
            torch.where(episodes.valid, episodes.rewards, 9e9), (0, 2), value=float("nan")
        ),
        correct=torch.nn.functional.pad(episodes.correct, (0, 2), value=True),
        valid=torch.nn.functional.pad(episodes.valid, (0, 2)),
        group=episodes.group,
    )
    assert torch.equal(everything(wide)[..., :WIDTH], everything(episodes))


@examples(30, quick=8)
@given(batches(), st.floats(-2, 2, width=16))
def test_a_constant_added_to_all_rewards_moves_no_centred_advantage_when_all_play_alike(
    episodes, shift
):
    """A baseline is there to take it out. Episodes of one turn each, where there is nothing
    ragged.
    """
    rewards = episodes.rewards[:, :1]
    first = in_line(rewards, torch.ones_like(rewards, dtype=torch.bool), episodes.group)
    moved = in_line(rewards + shift, first.valid, episodes.group)
    for estimator in ("group_mean", "leave_one_out"):
        same(
            turn_advantages(rewards + shift, moved, estimator),
            turn_advantages(rewards, first, estimator),
        )
