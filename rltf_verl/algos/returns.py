"""Per-turn returns and advantages of multi-turn GRPO (paper section 2, Algorithm 1; release `compute_advantages`).

Sessions are ragged: `valid[s, k]` says that session s played turn k. Group g holds the sessions of one problem.
"""

from __future__ import annotations

import torch

from rltf_verl.algos.shapes import require_shape


def discounted_returns(rewards: torch.Tensor, valid: torch.Tensor, gamma: float) -> torch.Tensor:
    """R_{s,k} = Σ_{j≥k} γ^{j−k} r_{s,j} over the turns that session s played.

    Args:
        rewards: [S, K] reward of each turn; ignored where not valid.
        valid: [S, K] bool, True where the turn was played.
        gamma: discount per turn, in [0, 1].

    Returns:
        [S, K] returns, 0 where not valid.

    Example:
        >>> discounted_returns(torch.tensor([[0.0, 1.0]]), torch.tensor([[True, True]]), 0.1)
        tensor([[0.1000, 1.0000]])
    """
    require_shape(valid=(valid, tuple(rewards.shape)))
    played = torch.where(valid, rewards, torch.zeros_like(rewards))
    returns = torch.zeros_like(played)
    running = torch.zeros_like(played[:, 0])
    for k in reversed(range(played.shape[1])):
        running = played[:, k] + gamma * running
        returns[:, k] = running
    return torch.where(valid, returns, torch.zeros_like(returns))


def group_turn_mean(values: torch.Tensor, valid: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    """Mean over the sessions of a group that played the turn: m_{s,k} = mean_{j ∈ group(s), valid[j,k]} v_{j,k}.

    Args:
        values: [S, K].
        valid: [S, K] bool.
        group: [S] int64 group of each session, 0..G−1.

    Returns:
        [S, K], the group's mean repeated for each of its sessions; 0 where nobody played the turn. Summed in
        double precision, so that the order of sessions does not matter.
    """
    require_shape(valid=(valid, tuple(values.shape)), group=(group, (values.shape[0],)))
    num_groups = int(group.max()) + 1 if group.numel() else 0
    weight = valid.double()
    sums = torch.zeros(num_groups, values.shape[1], dtype=torch.float64).index_add_(0, group, values.double() * weight)
    counts = torch.zeros_like(sums).index_add_(0, group, weight)
    return (sums / counts.clamp(min=1.0))[group].to(values.dtype)


def center_by_group_and_turn(returns: torch.Tensor, valid: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    """A_{s,k} = R_{s,k} − mean_{j: T_j > k} R_{j,k} within the group (paper Algorithm 1, A_RL).

    A session that is alone at its turn gets 0: there is nothing to compare it with. (verl's own GRPO gives such a
    row its raw reward.) No division by the standard deviation.

    Args:
        returns: [S, K] from `discounted_returns`.
        valid: [S, K] bool.
        group: [S] int64.

    Returns:
        [S, K] advantages, 0 where not valid.
    """
    centred = returns - group_turn_mean(returns, valid, group)
    return torch.where(valid, centred, torch.zeros_like(centred))
