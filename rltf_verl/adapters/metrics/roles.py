"""Each role's part in an update, as flat `rltf/…` floats.

verl reduces metrics by *substring* of their name (max, min, sum, total), so none of ours may
contain one, but for a last component that means it; a test keeps it so. All values are means or
shares, because verl weighs several updates of a step by their sample count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from verl.protocol import DataProto
from verl.utils.debug.metrics import calculate_debug_metrics

from rltf_verl.algos.episodes import EpisodeBatch
from rltf_verl.algos.targets import RowBatch, RowTargets, sampled_tokens
from rltf_verl.objectives import Objective

TRL_DEAD_SHARE = "frac_reward_zero_std"
"""TRL's name of `rltf/group/dead_share`, by which tools that read verl's logs find it."""

MOST_COMPARED = 2**20
"""Tokens of a step that sampler and actor are compared at: verl's comparison makes a dozen copies
of them.
"""


def sampling_metrics(batch: RowBatch, entropy: torch.Tensor) -> dict[str, float]:
    """verl's comparison of sampler and actor, and the mean entropy, over the tokens that the policy
    sampled.

    verl's own take in every token of the response mask, so also those that were not sampled under
    that prompt; and its entropy is a sum where the loss is one. The comparison takes each second,
    third, … of many tokens: `MOST_COMPARED` at most.
    """
    sampled = sampled_tokens(batch.role)
    if not sampled.any():
        return {}
    mean_entropy = {"actor/entropy": _mean(entropy[sampled])}
    if batch.scored is not None:
        sampled &= batch.scored
    compared_at = sampled.nonzero()[:, 0]
    if not len(compared_at):
        return mean_entropy
    # Each k-th token, k rounded up.
    compared_at = compared_at[:: -(-len(compared_at) // MOST_COMPARED)]
    columns: dict[str, Any] = {
        "rollout_log_probs": batch.sampler_log_probs,
        "old_log_probs": batch.old_log_probs,
        "responses": batch.old_log_probs,  # verl reads only the shape
        "response_mask": sampled.long(),
    }
    # To verl, every token is a row.
    columns = {name: values[compared_at].unsqueeze(1) for name, values in columns.items()}
    compared: dict[str, float] = calculate_debug_metrics(DataProto.from_single_dict(columns))
    return compared | mean_entropy


def role_metrics(
    objectives: Sequence[Objective[Any]],
    batch: RowBatch,
    targets: RowTargets,
    weights: Mapping[str, float],
) -> dict[str, float]:
    """Tokens, advantages and extra metrics of each objective.

    Args:
        objectives: those that own tokens.
        batch: the rows.
        targets: what `compute_targets` made of them.
        weights: coefficient of each objective.
    """
    lengths = batch.lengths
    first_tokens = (lengths.cumsum(0) - lengths).numpy()
    num_trained = int((batch.role >= 0).sum())
    metrics = {"rltf/rows/per_session": lengths.shape[0] / batch.episodes.group.shape[0]}
    for objective in objectives:
        absent = objective.batch_metrics(batch)
        metrics |= {f"rltf/{objective.name}/{name}": value for name, value in absent.items()}
        mask = batch.tokens(objective.role)
        place = mask.nonzero().squeeze(1)
        if not place.numel():
            continue
        advantages, old = targets.advantages[place], batch.old_log_probs[place]
        # [N]: whether any token of a row is its own. No row is empty, as `reduceat` needs.
        in_row = np.logical_or.reduceat(mask.numpy(), first_tokens)
        numbers = {
            "weight": weights[objective.name],
            "row_share": float(in_row.mean()),
            "token_share": place.numel() / num_trained,
            "adv_abs": _mean(advantages.abs()),
            "adv_mean": _mean(advantages),
            "log_prob_mean": _mean(old),
        } | objective.metrics(batch, targets, place)
        metrics |= {f"rltf/{objective.name}/{name}": value for name, value in numbers.items()}
    return metrics | _dead_groups(batch.episodes)


def _dead_groups(episodes: EpisodeBatch) -> dict[str, float]:
    """Share of groups whose first-turn rewards are all equal: no first-turn learning signal."""
    reward = episodes.rewards[:, 0]
    best = torch.full((episodes.num_groups,), -torch.inf).scatter_reduce(
        0, episodes.group, reward, "amax"
    )
    worst = torch.full((episodes.num_groups,), torch.inf).scatter_reduce(
        0, episodes.group, reward, "amin"
    )
    dead = _mean((best - worst < 1e-6).float())
    return {"rltf/group/dead_share": dead, TRL_DEAD_SHARE: dead}


def with_grad_shares(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics, each role's gradient (`loss.gradients`) replaced by its share of that of
    all roles.
    """
    norms = {name: float(value) for name, value in metrics.items() if name.endswith("/grad")}
    whole = sum(norms.values())
    shares = {f"{name}_share": norm / whole for name, norm in norms.items()} if whole > 0 else {}
    return {name: value for name, value in metrics.items() if name not in norms} | shares


def _mean(values: torch.Tensor) -> float:
    return float(values.float().mean())
