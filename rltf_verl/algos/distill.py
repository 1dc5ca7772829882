"""RLTF-SD: the advantage and the token mask of a distillation row (x_0, y_K) (paper section 3,
Algorithm 1, A_SD).
"""

from __future__ import annotations

import torch

from rltf_verl.algos.advantages import first_turn_mean, first_turn_sums, turn_advantages
from rltf_verl.algos.episodes import EpisodeBatch
from rltf_verl.algos.shapes import require_shape
from rltf_verl.config.objectives import Baseline


def distill_advantages(
    returns: torch.Tensor, episodes: EpisodeBatch, baseline: Baseline, norm_by_std: bool = False
) -> torch.Tensor:
    """a_m: the advantage of answer m as an answer to the *first* prompt; read at the last turn of
    an episode.

    first_turn (the paper):  a = r − b⁽⁰⁾, the group's mean first-turn reward over all episodes,
        early-stopped ones included. It is 0 where later answers earn what first ones do.
    leave_one_out:  the same without the episode's own first reward; 0 in a group of one.
    joined (Critique-GRPO):  the answer against the group's first attempts and refined answers
        together.
    second_turn (the paper's ablation):  a = A, the answer against its siblings of the same turn. It
        collapses once feedback makes every sibling right.
    second_turn_padded:  `second_turn` as the release has it: it reads A at the *group's* last turn,
        hence 0 for an episode that stopped earlier (horizon above 2). A defect, kept for comparing
        numbers.
    none:  a = r.
    rejection (the paper's ablation):  a = 1 for a correct answer, else 0: rejection sampling.

    Args:
        returns: [S, M] discounted returns (used by `joined` and the second-turn ones).
        episodes: the S episodes.
        baseline: which of them.
        norm_by_std: `joined` only: divide by the standard deviation of what is compared.

    Returns:
        [S, M] advantages; of no meaning for first turns, which are not distilled.
    """
    require_shape(returns=(returns, tuple(episodes.valid.shape)))
    rewards = episodes.rewards
    if baseline == "first_turn":
        return rewards - first_turn_mean(rewards, episodes).unsqueeze(1)
    if baseline == "leave_one_out":
        return _leave_one_out(rewards, episodes)
    if baseline == "none":
        return rewards
    if baseline == "rejection":
        return episodes.correct.to(rewards.dtype)
    if baseline == "joined":
        return turn_advantages(returns, episodes, "joined", norm_by_std)
    advantages = turn_advantages(returns, episodes)
    return advantages if baseline == "second_turn" else _zero_before_longest(advantages, episodes)


def _leave_one_out(rewards: torch.Tensor, episodes: EpisodeBatch) -> torch.Tensor:
    sums, n = first_turn_sums(rewards, episodes)
    values = rewards.double()
    # Wrong for an episode that the sum lacks: without a verdict it has no later answer, either.
    others = (sums - values[:, 0]) / (n - 1).clamp(min=1)
    advantages = torch.where((n > 1).unsqueeze(1), values - others.unsqueeze(1), 0.0)
    return advantages.to(rewards.dtype)


def _zero_before_longest(advantages: torch.Tensor, episodes: EpisodeBatch) -> torch.Tensor:
    # Turns of the group's longest episode.
    longest = torch.zeros(episodes.num_groups, dtype=torch.int64)
    longest.scatter_reduce_(0, episodes.group, episodes.valid.sum(dim=1), "amax")
    turn = torch.arange(1, advantages.shape[1] + 1)
    return torch.where(turn == longest[episodes.group].unsqueeze(1), advantages, 0.0)


def floor_mask(log_probs: torch.Tensor, floor: float | None) -> torch.Tensor:
    """m_t = 1[log π_old(y_t | x_0, y_<t) ≥ floor]: tokens the student finds too unlikely are not
    imitated.

    Args:
        log_probs: log-probs of the second answer under the *first* prompt, nats; of any shape.
        floor: the threshold (release: −5.0, kept when equal); None keeps every token.

    Returns:
        bool, of the same shape.

    Example:
        >>> floor_mask(torch.tensor([[-1.0, -5.0, -5.1]]), -5.0)
        tensor([[ True,  True, False]])
    """
    return torch.ones_like(log_probs, dtype=torch.bool) if floor is None else log_probs >= floor


def soft_floor(log_probs: torch.Tensor, floor: float) -> torch.Tensor:
    """m_t = min(1, π_old(y_t | x_0, y_<t) / exp(floor)): an unlikely token is imitated the less,
    the less likely it is.

    Instead of ℓ = log π the loss then has, below the floor, its tangent at the floor in π,

        floor − 1 + π / exp(floor),      so that ∂/∂ℓ = π / exp(floor) = m_t:

    continuous at the floor, bounded below by a · (floor − 1), and without a token that can never be
    learnt.

    Args:
        log_probs: log-probs of the second answer under the *first* prompt, nats; of any shape.
        floor: where it begins to bend.

    Returns:
        in [0, 1], of the same shape.

    Example:
        >>> soft_floor(torch.tensor([[-1.0, -5.0, -6.0]]), -5.0)
        tensor([[1.0000, 1.0000, 0.3679]])
    """
    return (log_probs - floor).clamp(max=0.0).exp()
