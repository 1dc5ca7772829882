"""Discounted returns per turn of multi-turn GRPO (paper section 2; release
`compute_advantages`).
"""

from __future__ import annotations

import torch

from rltf_verl.algos.episodes import EpisodeBatch, cohort_mean, cohorts, is_revised, next_turn


def discounted_returns(episodes: EpisodeBatch, gamma: float) -> torch.Tensor:
    """R_k = r_k + γ · R_{k+1} = Σ_{j≥k} γ^{j−k} r_j.

    A value missing for a technical reason is neutral: it takes its cohort's mean (0 if all lack
    it).

    * A turn that lacks its continuation (`EpisodeBatch.cut`, or an ungraded revision) gets, in
      place of γ · R_{k+1}, its siblings' mean gain from continuing.
    * A turn without a verdict (`EpisodeBatch.ungraded`) takes the mean return of its siblings, and
      counts for nothing in the turn that it revises.

    Args:
        episodes: S episodes of up to M turns.
        gamma: discount per turn, in [0, 1].

    Returns:
        [S, M] returns, 0 where not valid.

    Example:
        >>> from rltf_verl.algos.episodes import in_line
        >>> played = torch.tensor([[True, True]])
        >>> discounted_returns(in_line(torch.tensor([[0.0, 1.0]]), played, torch.tensor([0])), 0.1)
        tensor([[0.1000, 1.0000]])
    """
    returns = torch.where(episodes.valid, episodes.rewards, 0.0)
    gains, turn = torch.zeros_like(returns), torch.arange(returns.shape[1])
    counts = episodes.valid & ~episodes.ungraded
    continued = next_turn(counts)
    lost = episodes.valid & (episodes.cut | (is_revised(episodes) & ~continued))
    where = cohorts(episodes) if bool((lost | episodes.ungraded).any()) else None
    # From the last turns up: a turn's return needs that of its revision.
    for m in reversed(range(len(turn))):
        here = episodes.valid & (turn == m)
        if where is not None:
            # A cohort has one turn, so the siblings' gains are complete: all later ones are done.
            gains = torch.where(here & lost, cohort_mean(gains, where, here & continued), gains)
        returns = torch.where(here, returns + gains, returns)
        if where is not None:
            mean = cohort_mean(returns, where, here & ~episodes.ungraded)
            returns = torch.where(here & episodes.ungraded, mean, returns)
        # Each turn hands its return, times γ, to the turn that it revises.
        gains = gains + next_turn(torch.where(here & counts, gamma * returns, 0.0))
    return returns
