"""Episode facts -> flat `rltf/...` floats, in training and in validation.

verl reduces metrics by *substring* of their name (max, min, sum, total), so none of ours may contain one, but for a
last component that means it; a test keeps it so. All values are means or shares, because verl weighs several updates
of a step by their sample count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from verl.protocol import DataProto
from verl.utils.debug.metrics import calculate_debug_metrics

from rltf_verl.adapters.columns import SESSION_FACTS
from rltf_verl.algos.sessions import Sessions, depth
from rltf_verl.algos.targets import RowBatch, RowTargets
from rltf_verl.feedback import provider_names
from rltf_verl.types import Episode, Role

FORBIDDEN_SUBSTRINGS = ("max", "min", "sum", "total")


def validation_info(episode: Episode, horizon: int) -> dict[str, float]:
    """`reward_extra_info` of a session: what verl's validation averages.

    `acc` is the **first** turn's, so `val-core/<source>/acc/mean@n` is what the policy can do without feedback.
    `acc_turn_k` (k ≥ 2) is whether the answer that stands after k turns is right: a session that ended earlier keeps
    its last answer.
    """
    correct = [float(turn.grade.correct) for turn in episode.turns]
    first = episode.turns[0]
    info = {"acc": correct[0], "format_ok": float(first.grade.format_ok and first.attempt.ended)}
    for k in range(1, horizon):
        info[f"acc_turn_{k + 1}"] = correct[min(k, len(correct) - 1)]
    return info


def session_metrics(sessions: Sessions, facts: torch.Tensor, horizon: int) -> dict[str, float]:
    """Per-turn metrics of a training batch.

    Args:
        sessions: the S sessions.
        facts: [S, M, F] of `SESSION_FACTS`, NaN where a turn was not played.
        horizon: most turns of a line.

    Returns:
        `rltf/turn_k/{acc,format,reward,tokens,truncated,share}`; `rltf/turn_k/{fixed,broken,gain}` for k ≥ 2, over the
        turns that were played; `rltf/feedback/…`; `rltf/session/turns`.
    """
    column = {name: facts[..., i] for i, name in enumerate(SESSION_FACTS)}
    depths, num_sessions = depth(sessions), facts.shape[0]
    before = column["correct"].gather(1, sessions.parent.clamp(min=0))
    metrics = {
        "rltf/session/turns": float(sessions.valid.sum()) / num_sessions,
        "rltf/session/prompt_too_long_share": _mean(column["prompt_too_long"].nan_to_num().amax(dim=1)),
    }
    for k in range(horizon):
        here = sessions.valid & (depths == k)
        metrics[f"rltf/turn_{k + 1}/share"] = _mean(here.any(dim=1).float())
        if not here.any():
            continue
        metrics |= _turn_metrics(k, {name: values[here] for name, values in column.items()}, before[here])
    return metrics | _feedback_metrics({name: values[sessions.valid] for name, values in column.items()})


def _turn_metrics(k: int, column: dict[str, torch.Tensor], before: torch.Tensor) -> dict[str, float]:
    """Metrics of 0-based turn k over the n attempts at it ([n] columns); `before`: was the attempt before right?"""
    correct, name = column["correct"], f"rltf/turn_{k + 1}"
    metrics = {
        f"{name}/acc": _mean(correct),
        f"{name}/format": _mean(column["format_ok"]),
        f"{name}/reward": _mean(column["reward"]),
        f"{name}/tokens": _mean(column["response_tokens"]),
        f"{name}/truncated": _mean(1 - column["ended"]),
    }
    if k > 0:
        metrics[f"{name}/gain"] = _mean(correct - before)
        metrics[f"{name}/fixed"] = _mean(correct * (1 - before))
        metrics[f"{name}/broken"] = _mean(before * (1 - correct))
    return metrics


def _feedback_metrics(column: dict[str, torch.Tensor]) -> dict[str, float]:
    """Metrics over all turns that were played ([n] columns)."""
    given = column["feedback"] > 0
    asked = given.float() + column["feedback_failed"]
    num_asked = float(asked.sum())
    metrics = {
        "rltf/grader/error_share": _mean(column["grader_error"]),
        "rltf/grader/ungraded_share": _mean(column["ungraded"]),
    }
    if num_asked > 0:
        metrics["rltf/feedback/failed_share"] = float(column["feedback_failed"].sum()) / num_asked
        metrics["rltf/feedback/fallback_share"] = float(column["feedback_fallback"].sum()) / num_asked
    if given.any():
        metrics["rltf/feedback/latency_s"] = _mean(column["feedback_latency_s"][given])
        metrics["rltf/feedback/words"] = _mean(column["feedback_words"][given])
    return metrics | _leak_metrics(column["feedback_leak"], column["feedback_provider"])


def _leak_metrics(leak: torch.Tensor, provider: torch.Tensor) -> dict[str, float]:
    """Of the feedback that the leak guard looked at: the share that gave the answer away, also per provider."""
    looked = leak >= 0
    if not looked.any():
        return {}
    metrics = {"rltf/feedback/leak_share": _mean(leak[looked])}
    for i in provider[looked].unique().int().tolist():
        name = provider_names()[i] if i >= 0 else "other"
        metrics[f"rltf/feedback/leak_share/{name}"] = _mean(leak[looked & (provider == i)])
    return metrics


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
        if role is Role.FEEDBACK:
            metrics[f"{name}/perplexity"] = math.exp(-metrics[f"{name}/log_prob_mean"])
    return metrics | _dead_groups(batch.sessions)


def _dead_groups(sessions: Sessions) -> dict[str, float]:
    """Share of groups whose first-turn rewards are all equal: no first-turn learning signal."""
    reward = sessions.rewards[:, 0]
    best = torch.full((sessions.num_groups,), -torch.inf).scatter_reduce(0, sessions.group, reward, "amax")
    worst = torch.full((sessions.num_groups,), torch.inf).scatter_reduce(0, sessions.group, reward, "amin")
    return {"rltf/group/dead_share": _mean((best - worst < 1e-6).float())}


def _mean(values: torch.Tensor) -> float:
    return float(values.float().mean())
