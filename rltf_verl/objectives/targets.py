"""From rows to what the loss sees: advantages and reference log-probs of every token of a batch.

This is the code path of training *and* of `python -m tools.parity`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from rltf_verl.algos.targets import RowBatch, RowTargets, blocks, look_up
from rltf_verl.objectives.method import Method

ROUNDING = 1e-6
"""Advantages of equal rewards need not be exactly 0."""


def compute_targets(
    batch: RowBatch,
    method: Method,
    weights: Mapping[str, float],
    *,
    scored: bool = True,
) -> RowTargets:
    """Weights of every token (paper Algorithm 1: g_RL + g_SD, and the terms of section 4): the
    coefficient of its objective · `Objective.turn_weights` of its turn, `Objective.apply_floor`.

    Args:
        batch: the rows.
        method: the objectives.
        weights: coefficient of each objective at this step (`Method.weights`).
        scored: the actor has scored the rows; before that no floor applies.

    Returns:
        RowTargets, [L] each.
    """
    owners = method.token_owners
    # Table 0 holds zeros: CONTEXT is −1, so role + 1 is the table of every token.
    rewards = batch.episodes.rewards
    # [S, R + 1, M].
    tables = rewards.new_zeros(rewards.shape[0], len(owners) + 1, rewards.shape[1])
    present = torch.bincount(batch.role + 1, minlength=len(owners) + 1).tolist()
    for each in owners:
        if present[each.role + 1]:
            tables[:, each.role + 1] = weights[each.name] * each.turn_weights(batch.episodes)
    advantages = torch.empty(batch.role.shape)
    masked = torch.zeros(batch.role.shape, dtype=torch.bool)
    for at in blocks(len(batch.role)):
        role, old = batch.role[at], batch.old_log_probs[at]
        values = look_up(tables, batch.episode[at], role + 1, batch.turn[at])
        for each in owners if scored else ():
            if not present[each.role + 1]:
                continue
            floored = each.apply_floor(values, old, role == each.role)
            if floored is not None:
                values, below = floored
                masked[at] |= below
        advantages[at] = values
    reference = batch.old_log_probs
    for each in owners:
        reference = each.reference(batch, reference)
    return RowTargets(advantages, reference, masked)


def live_groups(batch: RowBatch, method: Method, weights: Mapping[str, float]) -> torch.Tensor:
    """Groups that an objective gets something from: some token of their rows has an advantage that
    is not 0, or `Objective.trained_episodes`.

    It works before the actor has scored the rows.

    Args:
        batch: the rows.
        method: the objectives.
        weights: as of `compute_targets`.

    Returns:
        [G] bool.
    """
    episodes = batch.episodes
    advantages = compute_targets(batch, method, weights, scored=False).advantages
    trained = batch.episode[advantages.abs() > ROUNDING].long()
    # Tokens per group; only whether there are any matters.
    num = torch.bincount(episodes.group[trained], minlength=episodes.num_groups)
    for each in method.objectives:
        alive = each.trained_episodes(episodes) if weights[each.name] > 0 else None
        if alive is not None:
            num.index_add_(0, episodes.group, alive.long())
    return num > 0
