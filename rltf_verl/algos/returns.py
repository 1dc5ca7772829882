"""Discounted returns per turn of multi-turn GRPO (paper section 2; release
`compute_advantages`).
"""

from __future__ import annotations

import torch

from rltf_verl.algos.episodes import EpisodeBatch, cohort_mean, cohorts, depth, num_revisions


def discounted_returns(episodes: EpisodeBatch, gamma: float) -> torch.Tensor:
    """R_m = r_m + γ · mean of R over the turns that revise m; in a branch R_k =
    Σ_{j≥k} γ^{j−k} r_j.

    What is missing for a technical reason is neutral: it takes its cohort's mean (0 if all
    lack it).

    * A turn that lacks its continuation (`EpisodeBatch.cut`, or every revision ungraded) gets, in
      place of γ · mean R, its siblings' mean gain from continuing.
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
    gains, depths, up = torch.zeros_like(returns), depth(episodes), episodes.parent.clamp(min=0)
    counts = episodes.valid & (episodes.parent >= 0) & ~episodes.ungraded
    num_counted = torch.zeros_like(up).scatter_add_(1, up, counts.long())
    share = gamma / num_counted.clamp(min=1).to(returns.dtype)
    lost = episodes.valid & (episodes.cut | ((num_revisions(episodes) > 0) & (num_counted == 0)))
    where = cohorts(episodes) if bool((lost | episodes.ungraded).any()) else None
    # From the deepest turns up: a turn's return needs those of its revisions.
    for d in reversed(range(int(depths.max()) + 1 if depths.numel() else 0)):
        here = episodes.valid & (depths == d)
        if where is not None:
            # A cohort has one depth, so the siblings' gains are complete: all deeper turns are
            # done.
            gains = torch.where(
                here & lost, cohort_mean(gains, where, here & (num_counted > 0)), gains
            )
        returns = torch.where(here, returns + gains, returns)
        if where is not None:
            mean = cohort_mean(returns, where, here & ~episodes.ungraded)
            returns = torch.where(here & episodes.ungraded, mean, returns)
        # Each turn hands its return, times γ over the number of siblings, to the turn it revises.
        gained = torch.where(here & counts, share.gather(1, up) * returns, 0.0)
        gains = gains.scatter_add(1, up, gained)
    return returns
