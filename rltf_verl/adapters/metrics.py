"""Episode facts -> flat `rltf/...` floats, in training and in validation.

verl reduces metrics by *substring* of their name (max, min, sum, total), so none of ours may contain one, but for a
last component that means it; a test keeps it so. All values are means or shares, because verl weighs several updates
of a step by their sample count.
"""

from __future__ import annotations

import torch

from rltf_verl.adapters.columns import SESSION_FACTS
from rltf_verl.algos.targets import RowBatch, RowTargets
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


def session_metrics(facts: torch.Tensor) -> dict[str, float]:
    """Per-turn metrics of a training batch.

    Args:
        facts: [S, H, F] of `SESSION_FACTS`, NaN where a turn was not played.

    Returns:
        `rltf/turn_k/{acc,format,reward,tokens,truncated,share}`; `rltf/turn_k/{fixed,broken,gain}` for k ≥ 2, over the
        sessions that played turn k; `rltf/feedback/…`; `rltf/session/turns`.
    """
    column = {name: facts[..., i] for i, name in enumerate(SESSION_FACTS)}
    played = ~torch.isnan(column["correct"])
    metrics = {
        "rltf/session/turns": _mean(played.float().sum(dim=1)),
        "rltf/session/prompt_too_long_share": _mean(column["prompt_too_long"].nan_to_num().sum(dim=1)),
    }
    for k in range(facts.shape[1]):
        here = played[:, k]
        metrics[f"rltf/turn_{k + 1}/share"] = _mean(here.float())
        if not here.any():
            continue
        metrics |= _turn_metrics(k, {name: values[here] for name, values in column.items()})
    return metrics | _feedback_metrics({name: values[played] for name, values in column.items()})


def _turn_metrics(k: int, column: dict[str, torch.Tensor]) -> dict[str, float]:
    """Metrics of 0-based turn k over the sessions that played it ([n, H] columns)."""
    correct, name = column["correct"], f"rltf/turn_{k + 1}"
    metrics = {
        f"{name}/acc": _mean(correct[:, k]),
        f"{name}/format": _mean(column["format_ok"][:, k]),
        f"{name}/reward": _mean(column["reward"][:, k]),
        f"{name}/tokens": _mean(column["response_tokens"][:, k]),
        f"{name}/truncated": _mean(1 - column["ended"][:, k]),
    }
    if k > 0:
        before, after = correct[:, k - 1], correct[:, k]
        metrics[f"{name}/gain"] = _mean(after - before)
        metrics[f"{name}/fixed"] = _mean(after * (1 - before))
        metrics[f"{name}/broken"] = _mean(before * (1 - after))
    return metrics


def _feedback_metrics(column: dict[str, torch.Tensor]) -> dict[str, float]:
    """Metrics over all turns that were played ([n] columns)."""
    given = column["feedback"] > 0
    asked = given.float() + column["feedback_failed"]
    num_asked = float(asked.sum())
    metrics = {"rltf/grader/error_share": _mean(column["grader_error"])}
    if num_asked > 0:
        metrics["rltf/feedback/failed_share"] = float(column["feedback_failed"].sum()) / num_asked
        metrics["rltf/feedback/fallback_share"] = float(column["feedback_fallback"].sum()) / num_asked
    if given.any():
        metrics["rltf/feedback/latency_s"] = _mean(column["feedback_latency_s"][given])
        metrics["rltf/feedback/words"] = _mean(column["feedback_words"][given])
    return metrics


def role_metrics(batch: RowBatch, targets: RowTargets, distill_weight: float) -> dict[str, float]:
    """What each role brings into the update: rows, tokens, advantages; and the off-policy gauges of distillation."""
    metrics = {"rltf/rows/per_session": batch.role.shape[0] / batch.group.shape[0]}
    for role in Role:
        rows = batch.has_role(role)
        mask = batch.mask & rows.unsqueeze(1)
        if not mask.any():
            continue
        name = f"rltf/{role.name.lower()}"
        metrics[f"{name}/row_share"] = _mean(rows.float())
        metrics[f"{name}/token_share"] = float(mask.float().sum() / batch.mask.float().sum())
        metrics[f"{name}/adv_abs"] = _mean(targets.advantages[mask].abs())
        metrics[f"{name}/adv_mean"] = _mean(targets.advantages[mask])
        metrics[f"{name}/log_prob_mean"] = _mean(batch.old_log_probs[mask])
        if role is Role.ATTEMPT:
            gap = (batch.sampler_log_probs - batch.old_log_probs)[mask].abs()
            metrics[f"{name}/sampler_log_prob_diff/max"] = float(gap.max())
        if role is Role.DISTILL:
            metrics[f"{name}/floor_masked"] = _mean(targets.floor_masked[mask].float())
            metrics[f"{name}/log_prob_gap"] = _mean((batch.sampler_log_probs - batch.old_log_probs)[mask])
            metrics[f"{name}/weight"] = distill_weight
    return metrics | _dead_groups(batch)


def _dead_groups(batch: RowBatch) -> dict[str, float]:
    """Share of groups whose first-turn rewards are all equal: no first-turn learning signal."""
    first = batch.mask & batch.has_role(Role.ATTEMPT).unsqueeze(1) & (batch.turn == 0)
    reward = torch.zeros(batch.group.shape[0]).index_add_(0, batch.session, (batch.rewards * first).sum(dim=1))
    num_groups = int(batch.group.max()) + 1
    best = torch.full((num_groups,), -torch.inf).scatter_reduce(0, batch.group, reward, "amax")
    worst = torch.full((num_groups,), torch.inf).scatter_reduce(0, batch.group, reward, "amin")
    return {"rltf/group/dead_share": _mean((best - worst < 1e-6).float())}


def _mean(values: torch.Tensor) -> float:
    return float(values.float().mean())
