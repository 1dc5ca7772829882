"""Discounted returns per turn of multi-turn GRPO (paper section 2; release `compute_advantages`)."""

from __future__ import annotations

import torch

from rltf_verl.algos.sessions import Sessions, num_revisions


def discounted_returns(sessions: Sessions, gamma: float) -> torch.Tensor:
    """R_m = r_m + γ · mean of R over the turns that revise m; in a line R_k = Σ_{j≥k} γ^{j−k} r_j.

    Args:
        sessions: S sessions of up to M turns.
        gamma: discount per turn, in [0, 1].

    Returns:
        [S, M] returns, 0 where not valid.

    Example:
        >>> from rltf_verl.algos.sessions import in_line
        >>> played = torch.tensor([[True, True]])
        >>> discounted_returns(in_line(torch.tensor([[0.0, 1.0]]), played, torch.tensor([0])), 0.1)
        tensor([[0.1000, 1.0000]])
    """
    returns = torch.where(sessions.valid, sessions.rewards, 0.0)
    has_parent = sessions.valid & (sessions.parent >= 0)
    up = sessions.parent.clamp(min=0)
    share = gamma / num_revisions(sessions).clamp(min=1).to(returns.dtype)
    for m in reversed(range(1, returns.shape[1])):  # parents stand before their children
        above = up[:, m : m + 1]
        gained = torch.where(has_parent[:, m : m + 1], share.gather(1, above) * returns[:, m : m + 1], 0.0)
        returns.scatter_add_(1, above, gained)
    return returns
