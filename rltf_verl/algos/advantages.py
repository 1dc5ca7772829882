"""From returns to advantages: what the return of a turn is compared with (paper Algorithm 1, A_RL,
and others).

All of them say which gradient they estimate; `tests/algos/test_enumeration_on_cpu.py` holds them to
it.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from rltf_verl.algos.episodes import EpisodeBatch, cohort_mean, cohort_sums, cohorts, joined_cohort
from rltf_verl.algos.shapes import require_shape
from rltf_verl.config.objectives import Estimator


def first_turn_mean(values: torch.Tensor, episodes: EpisodeBatch) -> torch.Tensor:
    """[S] mean of the group's first-turn values, early-stopped episodes included (paper: b⁽⁰⁾),
    those without a verdict excluded; 0 if all lack one.
    """
    sums, counts = first_turn_sums(values, episodes)
    return (sums / counts.clamp(min=1)).to(values.dtype)


def first_turn_sums(
    values: torch.Tensor, episodes: EpisodeBatch
) -> tuple[torch.Tensor, torch.Tensor]:
    """[S] float64 each: sum and number of the group's first-turn values that have a verdict."""
    sums, counts = cohort_sums(values, cohorts(episodes), episodes.valid & ~episodes.ungraded)
    return sums[:, 0], counts[:, 0]


def with_neutral_rewards(episodes: EpisodeBatch, ungraded: torch.Tensor) -> EpisodeBatch:
    """The same episodes, a turn without a verdict with the mean reward of its cohort's other turns
    (0 if it has none).

    It then moves no mean of the cohort and earns no advantage by itself. Its
    return: `returns`.

    Args:
        episodes: the S episodes.
        ungraded: [S, M] bool.
    """
    require_shape(ungraded=(ungraded, tuple(episodes.valid.shape)))
    where, has_verdict = cohorts(episodes), episodes.valid & ~ungraded
    rewards, graded = (
        torch.where(ungraded, cohort_mean(values, where, has_verdict), values)
        for values in (episodes.rewards, episodes.graded)
    )
    return replace(episodes, rewards=rewards, graded=graded, ungraded=ungraded)


def turn_advantages(
    returns: torch.Tensor,
    episodes: EpisodeBatch,
    estimator: Estimator = "group_mean",
    norm_by_std: bool = False,
) -> torch.Tensor:
    """A_m = R_m − b_m for every turn m, 0 for one without a verdict; n is the size of its cohort
    (`episodes.cohorts`), those without a verdict left out.

    group_mean (the paper):  b = mean of the cohort, itself included. Estimates (1 − 1/n) times the
        gradient; alone in its cohort a turn gets 0 (verl's own GRPO gives it its raw return).
    leave_one_out:  b = mean of the others of the cohort. Unbiased, but a lone turn gets 0.
    ragged:  b = Σ over the others / (number of episodes − 1), 0 for a single episode. One that
        ended earlier counts as 0, one without a verdict as its stand-in: the number of terms is the
        same whenever an episode stops, so b is unbiased under ragged turn counts (verl RFC #7244).
    joined:  b = mean over the group's first attempts and refined answers, of all turns together
        (`episodes.joined_cohort`; Critique-GRPO): a right refinement devalues its first attempt.
    first_turn:  b = mean first-turn return of the group. Asks later turns to beat the first.
    none:  b = 0. Unbiased, largest variance.

    Args:
        returns: [S, M] from `discounted_returns`.
        episodes: the S episodes.
        estimator: which baseline.
        norm_by_std: divide by the unbiased standard deviation of the cohort (`joined`: of the same
            answers as b) + 1e-8; 0 for a lone turn, and where all returns of the cohort are equal.

    Returns:
        [S, M] advantages, 0 where not valid.
    """
    require_shape(returns=(returns, tuple(episodes.valid.shape)))
    joins = estimator == "joined"
    where, members = joined_cohort(episodes) if joins else (cohorts(episodes), episodes.valid)
    graded = members & ~episodes.ungraded
    sums, counts = cohort_sums(returns, where, graded)
    values, mean = returns.double(), sums / counts.clamp(min=1)
    if estimator in ("group_mean", "joined"):
        baseline = mean
    elif estimator == "leave_one_out":
        # Alone in its cohort, a turn is its own baseline.
        baseline = torch.where(counts > 1, (sums - values) / (counts - 1).clamp(min=1), values)
    elif estimator == "ragged":
        # `members`, not `graded`: turns without a verdict count with their cohort's mean return.
        others = cohort_sums(returns, where, members)[0] - values
        sizes = torch.bincount(episodes.group)[episodes.group].unsqueeze(1)
        baseline = others / (sizes - 1).clamp(min=1)
    elif estimator == "first_turn":
        baseline = first_turn_mean(values, episodes).unsqueeze(1)
    else:
        baseline = torch.zeros_like(values)
    advantages = torch.where(episodes.valid & ~episodes.ungraded, values - baseline, 0.0)
    if norm_by_std:
        deviation = torch.where(graded, values - mean, 0.0)
        # Turns without a verdict deviate by 0, so all members may be summed; `counts` lacks them.
        squares, _ = cohort_sums(deviation**2, where, members)
        std = (squares / (counts - 1).clamp(min=1)).sqrt()
        # Equal returns differ by their rounding, which must not be divided by itself.
        differ = (counts > 1) & (std > 1e-8 + 1e-6 * mean.abs())
        advantages = torch.where(differ, advantages / (std + 1e-8), 0.0)
    return advantages.to(returns.dtype)
