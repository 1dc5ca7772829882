"""What each role brings into an update, as flat `rltf/…` floats.

verl reduces metrics by *substring* of their name (max, min, sum, total), so none of ours may contain one, but for a
last component that means it; a test keeps it so. All values are means or shares, because verl weighs several updates
of a step by their sample count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from verl.protocol import DataProto
from verl.utils.debug.metrics import calculate_debug_metrics

from rltf_verl.algos.sessions import Sessions
from rltf_verl.algos.targets import RowBatch, RowTargets
from rltf_verl.types import Role

FORBIDDEN_SUBSTRINGS = ("max", "min", "sum", "total")


def sampling_metrics(batch: RowBatch, entropy: torch.Tensor, sampled: torch.Tensor) -> dict[str, float]:
    """verl's comparison of sampler and actor, and the mean entropy, over the tokens that the policy sampled.

    verl's own take in every token of the response mask, so also what nobody sampled under that prompt; and its entropy
    is a sum where the loss is one.
    """
    columns = {"rollout_log_probs": batch.sampler_log_probs, "old_log_probs": batch.old_log_probs}
    # Of the responses verl reads only the shape.
    columns |= {"responses": batch.old_log_probs, "response_mask": sampled.long()}
    compared: dict[str, float] = calculate_debug_metrics(DataProto.from_single_dict(columns))
    return compared | {"actor/entropy": _mean(entropy[sampled])}


def role_name(role: Role) -> str:
    """Where a role's metrics stand; `rltf/feedback/` belongs to the provider."""
    return "rltf/feedback_modeling" if role is Role.FEEDBACK else f"rltf/{role.name.lower()}"


def role_metrics(
    batch: RowBatch, targets: RowTargets, weights: Mapping[Role, float], lengths: torch.Tensor | None = None
) -> dict[str, float]:
    """What each role brings into the update: tokens, advantages; and the off-policy gauges of distillation.

    Args:
        batch: the rows.
        targets: what `compute_targets` made of them.
        weights: coefficient of each role.
        lengths: [N] tokens of each row, when the batch is one of single tokens (`step_rows.StepRows`).
    """
    lengths = torch.full(batch.role.shape[:1], batch.role.shape[1]) if lengths is None else lengths
    first_tokens = (lengths.cumsum(0) - lengths).numpy()
    num_trained = int((batch.role >= 0).sum())
    metrics = {"rltf/rows/per_session": lengths.shape[0] / batch.sessions.group.shape[0]}
    for role in Role:
        mask = batch.tokens(role).flatten()
        place = mask.nonzero().squeeze(1)
        if not place.numel():
            continue
        advantages, old = targets.advantages.take(place), batch.old_log_probs.take(place)
        name = role_name(role)
        metrics[f"{name}/weight"] = weights[role]
        metrics[f"{name}/row_share"] = float(np.logical_or.reduceat(mask.numpy(), first_tokens).mean())
        metrics[f"{name}/token_share"] = place.numel() / num_trained
        metrics[f"{name}/adv_abs"] = _mean(advantages.abs())
        metrics[f"{name}/adv_mean"] = _mean(advantages)
        metrics[f"{name}/log_prob_mean"] = _mean(old)
        gap = batch.sampler_log_probs.take(place) - old
        if role is Role.ATTEMPT:
            metrics[f"{name}/sampler_log_prob_diff/max"] = float(gap.abs().max())
        if role is Role.DISTILL:
            metrics[f"{name}/floor_masked"] = _mean(targets.floor_masked.take(place))
            metrics[f"{name}/log_prob_gap"] = _mean(gap)
            metrics[f"{name}/ess"] = _effective_share(-gap)
        if role is Role.FEEDBACK:
            metrics[f"{name}/perplexity"] = math.exp(-metrics[f"{name}/log_prob_mean"])
    return metrics | _dead_groups(batch.sessions)


def _dead_groups(sessions: Sessions) -> dict[str, float]:
    """Share of groups whose first-turn rewards are all equal: no first-turn learning signal."""
    reward = sessions.rewards[:, 0]
    best = torch.full((sessions.num_groups,), -torch.inf).scatter_reduce(0, sessions.group, reward, "amax")
    worst = torch.full((sessions.num_groups,), torch.inf).scatter_reduce(0, sessions.group, reward, "amin")
    return {"rltf/group/dead_share": _mean((best - worst < 1e-6).float())}


def _effective_share(log_ratios: torch.Tensor) -> float:
    """Kish's effective sample size over the sample size, (Σ w)² / (n Σ w²) with w = exp(log ratio), in (0, 1]."""
    weights = torch.exp((log_ratios - log_ratios.max()).double())
    return float(weights.sum() ** 2 / (weights.numel() * (weights**2).sum()))


def with_grad_shares(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics, each role's gradient (`loss.role_gradients`) replaced by its share of that of all roles."""
    norms = {name: float(value) for name, value in metrics.items() if name.endswith("/grad")}
    whole = sum(norms.values())
    shares = {f"{name}_share": norm / whole for name, norm in norms.items()} if whole > 0 else {}
    return {name: value for name, value in metrics.items() if name not in norms} | shares


def _mean(values: torch.Tensor) -> float:
    return float(values.float().mean())
