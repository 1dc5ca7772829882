"""RLTF-SD: the advantage and the token mask of a distillation row (x_0, y_K) (paper section 3, Algorithm 1, A_SD)."""

from __future__ import annotations

from typing import Literal

import torch

from rltf_verl.algos.returns import center_by_group_and_turn, group_turn_mean
from rltf_verl.algos.shapes import require_shape

Baseline = Literal["first_turn", "second_turn"]


def last_turn(valid: torch.Tensor) -> torch.Tensor:
    """Index of each session's last played turn. Args: valid [S, K] bool. Returns: [S] int64."""
    return valid.long().sum(dim=1) - 1


def distill_advantages(
    rewards: torch.Tensor, returns: torch.Tensor, valid: torch.Tensor, group: torch.Tensor, baseline: Baseline
) -> torch.Tensor:
    """Advantage of each session's last answer as an answer to the *first* prompt.

    first_turn (the paper):  a_s = r_{s,K} − mean_{j ∈ group} r_{j,1}, over all sessions, early-stopped ones included.
        It vanishes only when the student is right without feedback.
    second_turn (the paper's ablation): a_s = A_{s,K}, the last answer against its siblings of the same turn.
        It collapses once feedback makes every sibling right.

    The release reads A at the *group's* last turn instead of the session's own (0 for a session that stopped
    earlier, when horizon > 2); that is a defect and not reproduced here.

    Args:
        rewards: [S, K] reward per turn.
        returns: [S, K] discounted returns (used by second_turn).
        valid: [S, K] bool.
        group: [S] int64.
        baseline: which of the two.

    Returns:
        [S] advantages; of no meaning for sessions with one turn, which have no distillation row.
    """
    require_shape(returns=(returns, tuple(rewards.shape)), valid=(valid, tuple(rewards.shape)))
    last = last_turn(valid).unsqueeze(1)
    if baseline == "first_turn":
        last_reward = rewards.gather(1, last).squeeze(1)
        return last_reward - group_turn_mean(rewards[:, :1], valid[:, :1], group).squeeze(1)
    return center_by_group_and_turn(returns, valid, group).gather(1, last).squeeze(1)


def floor_mask(log_probs: torch.Tensor, floor: float | None) -> torch.Tensor:
    """m_t = 1[log π_old(y_t | x_0, y_<t) ≥ floor]: tokens the student finds too unlikely are not imitated.

    Args:
        log_probs: [N, T] log-probs of the second answer under the *first* prompt, nats.
        floor: the threshold (release: −5.0, kept when equal); None keeps every token.

    Returns:
        [N, T] bool.

    Example:
        >>> floor_mask(torch.tensor([[-1.0, -5.0, -5.1]]), -5.0)
        tensor([[ True,  True, False]])
    """
    return torch.ones_like(log_probs, dtype=torch.bool) if floor is None else log_probs >= floor
