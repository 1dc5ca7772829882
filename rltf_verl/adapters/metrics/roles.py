"""What each role brings into an update, as flat `rltf/…` floats.

verl reduces metrics by *substring* of their name (max, min, sum, total), so none of ours may
contain one, but for a last component that means it; a test keeps it so. All values are means or
shares, because verl weighs several updates of a step by their sample count.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from verl.protocol import DataProto
from verl.utils.debug.metrics import calculate_debug_metrics

from rltf_verl.algos.sessions import Sessions
from rltf_verl.algos.targets import STALE_ROLES, RowBatch, RowTargets
from rltf_verl.config import DistillConfig
from rltf_verl.types import Role

logger = logging.getLogger(__name__)

FORBIDDEN_SUBSTRINGS = ("max", "min", "sum", "total")


def sampling_metrics(
    batch: RowBatch, entropy: torch.Tensor, sampled: torch.Tensor
) -> dict[str, float]:
    """verl's comparison of sampler and actor, and the mean entropy, over the tokens that the policy
    sampled.

    verl's own take in every token of the response mask, so also what nobody sampled under that
    prompt; and its entropy is a sum where the loss is one.
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
    batch: RowBatch,
    targets: RowTargets,
    weights: Mapping[Role, float],
    lengths: torch.Tensor | None = None,
) -> dict[str, float]:
    """What each role brings into the update: tokens, advantages; and the off-policy gauges of
    distillation.

    Args:
        batch: the rows.
        targets: what `compute_targets` made of them.
        weights: coefficient of each role.
        lengths: [N] tokens of each row, when the batch is one of single tokens
            (`step_rows.StepRows`).
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
        metrics[f"{name}/row_share"] = float(
            np.logical_or.reduceat(mask.numpy(), first_tokens).mean()
        )
        metrics[f"{name}/token_share"] = place.numel() / num_trained
        metrics[f"{name}/adv_abs"] = _mean(advantages.abs())
        metrics[f"{name}/adv_mean"] = _mean(advantages)
        metrics[f"{name}/log_prob_mean"] = _mean(old)
        gap = batch.sampler_log_probs.take(place) - old
        if role is Role.ATTEMPT:
            metrics[f"{name}/sampler_log_prob_diff/max"] = float(gap.abs().max())
        if role is Role.DISTILL:
            below = targets.floor_masked.take(place)
            metrics[f"{name}/floor_masked"] = _mean(below)
            right = of_turns(batch, batch.sessions.correct).take(place)
            if bool(right.any()):
                metrics[f"{name}/floor_masked_right"] = _mean(below[right])
            metrics[f"{name}/log_prob_gap"] = _mean(gap)
            metrics[f"{name}/ess"] = _effective_share(-gap)
        if role is Role.FEEDBACK:
            metrics[f"{name}/perplexity"] = math.exp(-metrics[f"{name}/log_prob_mean"])
    return metrics | _dead_groups(batch.sessions)


def of_turns(batch: RowBatch, turns: torch.Tensor) -> torch.Tensor:
    """[S, M] values of turns -> [N, T], that of the turn which each token is credited with."""
    return turns[batch.session.unsqueeze(1).long(), batch.turn.long()]


def stale_metrics(batch: RowBatch, stale: torch.Tensor | None) -> dict[str, float]:
    """`rltf/<role>/stale_share`: of the role's tokens, those that are too old to count
    (`rltf.max_staleness`).
    """
    if stale is None:
        return {}
    old = of_turns(batch, stale)
    tokens = {role_name(role): batch.tokens(role) for role in STALE_ROLES}
    return {
        f"{name}/stale_share": _mean(old[mask]) for name, mask in tokens.items() if bool(mask.any())
    }


class FloorWatch:
    """Warns when the log-prob floor keeps out what is to be learnt, every `EVERY` steps while it
    lasts.

    Distillation then goes on without a word while nothing comes of it: the tokens that make a
    second answer right are those that the first prompt makes unlikely.
    """

    SHARE, STEPS, EVERY = 0.1, 5, 50

    def __init__(self, config: DistillConfig) -> None:
        self._config, self._blocked = config, 0

    def look(self, metrics: Mapping[str, float]) -> None:
        """At a step's metrics: is `floor_masked_right` above `SHARE` and no first answer right, for
        `STEPS` on end?
        """
        share = metrics.get("rltf/distill/floor_masked_right", 0.0)
        blocked = (
            self._config.floor == "hard"
            and share > self.SHARE
            and metrics.get("rltf/turn_1/acc") == 0.0
        )
        self._blocked = self._blocked + 1 if blocked else 0
        if self._blocked % self.EVERY == self.STEPS:
            logger.warning(
                "rltf.distill.log_prob_floor=%s keeps out %.0f %% of the tokens of right second"
                " answers, and no first answer has been right for %d steps: what is to be learnt"
                " may lie below it. Set rltf.distill.floor=soft, or the floor lower or to null",
                self._config.log_prob_floor,
                100 * share,
                self._blocked,
            )


def _dead_groups(sessions: Sessions) -> dict[str, float]:
    """Share of groups whose first-turn rewards are all equal: no first-turn learning signal."""
    reward = sessions.rewards[:, 0]
    best = torch.full((sessions.num_groups,), -torch.inf).scatter_reduce(
        0, sessions.group, reward, "amax"
    )
    worst = torch.full((sessions.num_groups,), torch.inf).scatter_reduce(
        0, sessions.group, reward, "amin"
    )
    return {"rltf/group/dead_share": _mean((best - worst < 1e-6).float())}


def _effective_share(log_ratios: torch.Tensor) -> float:
    """Kish's effective sample size over the sample size, (Σ w)² / (n Σ w²) with w = exp(log ratio),
    in (0, 1].
    """
    weights = torch.exp((log_ratios - log_ratios.max()).double())
    return float(weights.sum() ** 2 / (weights.numel() * (weights**2).sum()))


def with_grad_shares(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics, each role's gradient (`loss.role_gradients`) replaced by its share of that of
    all roles.
    """
    norms = {name: float(value) for name, value in metrics.items() if name.endswith("/grad")}
    whole = sum(norms.values())
    shares = {f"{name}_share": norm / whole for name, norm in norms.items()} if whole > 0 else {}
    return {name: value for name, value in metrics.items() if name not in norms} | shares


def _mean(values: torch.Tensor) -> float:
    return float(values.float().mean())
