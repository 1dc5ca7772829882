"""Facts of the sessions -> flat `rltf/…` floats, in training and in validation.

The definitions are those of `report.stats`, which reads them from an episode log; a test holds the
two together. Names and denominators: docs/metrics.md. An attempt that nobody could grade is neither
right nor wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from rltf_verl.adapters.queue.columns import SESSION_FACTS
from rltf_verl.algos.sessions import Sessions, depth, num_revisions, on_line
from rltf_verl.feedback import provider_names

SPENT = ("rltf/session/total", "rltf/session/tokens/total")
"""Those of a step that also count what was played and not trained on (`live_groups`)."""


def session_metrics(sessions: Sessions, facts: torch.Tensor, horizon: int) -> dict[str, float]:
    """Metrics of a batch of sessions.

    Args:
        sessions: the S sessions.
        facts: [S, M, F] of `SESSION_FACTS`, NaN where a turn was not played.
        horizon: most turns of a line.

    Returns:
        `rltf/turn_k/…`, `rltf/session/…`, `rltf/feedback/…`, `rltf/grader/…`; what has no
        denominator is left out.
    """
    table = _Table.of(sessions, facts)
    generated = table.column["response_tokens"] + table.column["own_feedback_tokens"]
    metrics = {
        "rltf/session/total": float(facts.shape[0]),
        "rltf/session/tokens/total": float(generated.nansum()),
        "rltf/session/turns": float(table.valid.sum()) / facts.shape[0],
    }
    for end in ("prompt_too_long", "not_asked"):
        metrics[f"rltf/session/{end}_share"] = _mean(table.column[end].nan_to_num().amax(dim=1))
    for k in range(horizon):
        metrics[f"rltf/turn_{k + 1}/share"] = _mean(
            (table.valid & (table.depth == k)).any(dim=1).float()
        )
        metrics |= _turn_metrics(table, k)
    metrics |= _named("rltf/session", {"friction": _of_sessions(*table.friction())})
    return metrics | _feedback_metrics(
        {name: values[table.valid] for name, values in table.column.items()}
    )


def lost_share(num: int, expected: int) -> float:
    """Of the sessions that were to be played: those that no row came of, whatever raised.

    verl trains on what is left of their groups in the synchronous mode, and drops the groups in the
    others.

    Example:
        >>> lost_share(num=18, expected=24)
        0.25
    """
    return max(0.0, 1 - num / expected)


@dataclass(frozen=True)
class _Table:
    """S sessions of up to M turns."""

    column: dict[str, torch.Tensor]
    """[S, M] each fact."""
    valid: torch.Tensor
    graded: torch.Tensor
    right: torch.Tensor
    depth: torch.Tensor
    before: torch.Tensor
    """[S, M] position of the turn that is revised; 0 for first turns."""
    pair: torch.Tensor
    """[S, M] bool: revisions of a graded attempt that are graded."""
    line: torch.Tensor
    """[S, M, M] bool: line to turn n (middle) -> its turns (last)."""
    ends: torch.Tensor
    """[S, M] bool: turns that nothing follows."""

    @classmethod
    def of(cls, sessions: Sessions, facts: torch.Tensor) -> _Table:
        column = {name: facts[..., i] for i, name in enumerate(SESSION_FACTS)}
        before = sessions.parent.clamp(min=0)
        graded = sessions.valid & ~(column["ungraded"].nan_to_num() > 0)
        return cls(
            column=column,
            valid=sessions.valid,
            graded=graded,
            right=graded & (column["correct"].nan_to_num() > 0),
            depth=depth(sessions),
            before=before,
            pair=graded & graded.gather(1, before) & (sessions.parent >= 0),
            line=on_line(sessions),
            ends=sessions.valid & (num_revisions(sessions) == 0),
        )

    def stands(self, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """[S, M] per line: the last answer by 0-based turn k is right; and whether anybody
        knows.
        """
        end_depth = self.depth.clamp(max=k).unsqueeze(2)
        last = self.line & (self.depth.unsqueeze(1) == end_depth)
        return self._any(last, self.right), self.ends & self._any(last, self.graded)

    def solved(self, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """[S, M] per line: some answer by turn k is right; and whether anybody knows."""
        so_far = self.line & (self.depth.unsqueeze(1) <= k)
        found = self._any(so_far, self.right)
        return found, self.ends & (found | ~self._any(so_far, self.valid & ~self.graded))

    def friction(self) -> tuple[torch.Tensor, torch.Tensor]:
        """[S, M] per line that began wrong and went on: it ended wrong; and whether anybody
        knows.
        """
        began_wrong = (self.graded[:, :1] & ~self.right[:, :1]).expand(self.valid.shape)
        return ~self.right, self.ends & self.graded & began_wrong & (self.depth > 0)

    @staticmethod
    def _any(turns: torch.Tensor, are: torch.Tensor) -> torch.Tensor:
        return (turns & are.unsqueeze(1)).any(dim=2)


def _turn_metrics(table: _Table, k: int) -> dict[str, float]:
    """Metrics of 0-based turn k over the attempts at it."""
    here = table.valid & (table.depth == k)
    graded, column = here & table.graded, table.column
    values = {
        "acc": _of(table.right, graded),
        "format": _of(column["format_ok"], graded),
        "reward": _of(column["reward"], here),
        "tokens": _of(column["response_tokens"], here),
        "truncated": _of(1 - column["ended"], here),
    }
    if k > 0 and here.any():
        values |= _revision_metrics(table, table.pair & here)
        values |= {
            "solved": _of_sessions(*table.solved(k)),
            "standing": _of_sessions(*table.stands(k)),
        }
    return _named(f"rltf/turn_{k + 1}", values)


def _revision_metrics(table: _Table, pair: torch.Tensor) -> dict[str, float | None]:
    """What became of answers that were revised; `pair`: [S, M] bool, the revisions."""
    before, after = table.right.gather(1, table.before), table.right
    return {
        "gain": _of(after.float() - before.float(), pair),
        "fixed": _of(after & ~before, pair),
        "broken": _of(before & ~after, pair),
        "corrected": _of(after, pair & ~before),
        "plasticity": _of(table.column["changed"], pair),
        "repeated": _of(table.column["repeated"], pair),
    }


def _feedback_metrics(column: dict[str, torch.Tensor]) -> dict[str, float]:
    """Metrics over all turns that were played ([n] columns)."""
    given = column["feedback"] > 0
    num_asked = float((given.float() + column["feedback_failed"]).sum())
    metrics = {
        "rltf/grader/error_share": _mean(column["grader_error"]),
        "rltf/grader/ungraded_share": _mean(column["ungraded"]),
    }
    if num_asked > 0:
        metrics["rltf/feedback/failed_share"] = float(column["feedback_failed"].sum()) / num_asked
        metrics["rltf/feedback/fallback_share"] = (
            float(column["feedback_fallback"].sum()) / num_asked
        )
    if given.any():
        metrics["rltf/feedback/latency_s"] = _mean(column["feedback_latency_s"][given])
        metrics["rltf/feedback/words"] = _mean(column["feedback_words"][given])
        metrics["rltf/feedback/no_op"] = _mean(column["no_op"][given])
    return metrics | _leak_metrics(column["feedback_leak"], column["feedback_provider"])


def _leak_metrics(leak: torch.Tensor, provider: torch.Tensor) -> dict[str, float]:
    """Of the feedback that the leak guard looked at: the share that gave the answer away, also per
    provider.
    """
    looked = leak >= 0
    if not looked.any():
        return {}
    metrics = {"rltf/feedback/leak_share": _mean(leak[looked])}
    for i in provider[looked].unique().int().tolist():
        name = provider_names()[i] if i >= 0 else "other"
        metrics[f"rltf/feedback/leak_share/{name}"] = _mean(leak[looked & (provider == i)])
    return metrics


def _of_sessions(of_lines: torch.Tensor, known: torch.Tensor) -> float | None:
    """Mean over the sessions of the mean over their lines, [S, M]; a session of which nobody knows
    counts not.
    """
    lines = known.sum(dim=1)
    means = (of_lines & known).sum(dim=1) / lines.clamp(min=1)
    return _of(means, lines > 0)


def _of(values: torch.Tensor, where: torch.Tensor) -> float | None:
    """Mean of the values at these places; None if there are none."""
    return _mean(values[where]) if bool(where.any()) else None


def _named(prefix: str, values: dict[str, float | None]) -> dict[str, float]:
    return {f"{prefix}/{name}": value for name, value in values.items() if value is not None}


def _mean(values: torch.Tensor) -> float:
    return float(values.float().mean())
