"""Facts of the episodes -> flat `rltf/…` floats, in training and in validation.

Definitions: docs/metrics.md and `runlog.numbers`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from rltf_verl.adapters.queue.columns import episode_table
from rltf_verl.runlog.numbers import Cases, EpisodeTable

SPENT = ("rltf/session/total", "rltf/session/tokens/total")
"""Totals of a step that also count episodes played and not trained on (`live_groups`)."""


def episode_metrics(facts: torch.Tensor, horizon: int) -> dict[str, float]:
    """Metrics of a batch of episodes.

    Args:
        facts: [S, M, F] of `EPISODE_FACTS`, NaN where a turn was not played.
        horizon: most turns of a line.

    Returns:
        `rltf/turn_k/…`, `rltf/session/…`, `rltf/feedback/…`, `rltf/grader/…`,
        `rltf/steps/…`; what has no denominator is left out.
    """
    table = episode_table(facts)
    metrics = {
        "rltf/session/total": float(len(facts)),
        "rltf/session/tokens/total": float(
            (table.fact["response_tokens"] + table.fact["own_feedback_tokens"]).sum()
        ),
        "rltf/session/turns": len(table.episode) / len(facts),
    }
    for end in ("prompt_too_long", "not_asked"):
        metrics[f"rltf/session/{end}_share"] = table.share_of_episodes(table.fact[end] > 0)
    for k in range(horizon):
        name, here = f"rltf/turn_{k + 1}", table.depth == k
        metrics[f"{name}/share"] = table.share_of_episodes(here)
        if here.any():
            metrics |= _means(name, _of_turn(table, k))
    metrics |= _means("rltf/session", {"friction": table.friction()})
    metrics |= _means("rltf/grader", table.graders())
    metrics |= _means("rltf/steps", table.steps())
    return metrics | _means("rltf/feedback", table.feedback())


def lost_share(num: int, expected: int) -> float:
    """The share of planned episodes that produced no row.

    verl trains on what is left of their groups in the synchronous mode, and drops the groups in the
    others.

    Example:
        >>> lost_share(num=18, expected=24)
        0.25
    """
    return max(0.0, 1 - num / expected)


def _of_turn(table: EpisodeTable, k: int) -> dict[str, Cases]:
    numbers = table.answers(k) | table.revisions(k)
    del numbers["improvement"]
    if k == 0:  # the same as `acc`
        del numbers["solved"], numbers["standing"]
    return numbers


def _means(prefix: str, numbers: Mapping[str, Cases]) -> dict[str, float]:
    means = {f"{prefix}/{name}": cases.mean() for name, cases in numbers.items()}
    return {name: mean for name, mean in means.items() if mean is not None}
