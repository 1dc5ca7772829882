"""Curves of a run's metrics (verl's file logger), and where the run degenerated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltf_verl.runlog.health import Watch, needed
from rltf_verl.tools.report.history import read_history
from rltf_verl.tools.report.run_files import metrics_near, run_files

History = Mapping[int, Mapping[str, float]]

CURVES: tuple[tuple[str, str, bool, tuple[str, ...]], ...] = (
    ("Reward of first answers", "Mean.", False, ("rltf/turn_1/reward", "critic/score/mean")),
    ("Reward of second answers", "Mean.", False, ("rltf/turn_2/reward",)),
    ("Loss", "All objectives, weights included.", False, ("actor/loss", "actor/pg_loss")),
    (
        "KL of the update",
        "From the policy that sampled to the one that is trained, nats per token.",
        False,
        ("actor/ppo_kl",),
    ),
    ("KL to the reference", "Nats per token.", False, ("actor/kl_loss", "critic/kl")),
    ("Entropy", "Of the policy's own tokens, nats.", False, ("actor/entropy",)),
    ("Gradient norm", "Before clipping.", False, ("actor/grad_norm",)),
    ("Dead groups", "Groups whose first answers earn the same.", True, ("rltf/group/dead_share",)),
    (
        "Distillation: gap",
        "Log-prob with feedback minus that under the first prompt, nats per token.",
        False,
        ("rltf/distill/log_prob_gap",),
    ),
    (
        "Distillation: divergence",
        "From the teacher, nats per token.",
        False,
        ("rltf/logit_distill/divergence",),
    ),
    ("Format", "First answers that were found and not cut off.", True, ("rltf/turn_1/format",)),
    ("Cut off", "First answers at the token limit.", True, ("rltf/turn_1/truncated",)),
    ("Tokens of first answers", "Mean.", False, ("rltf/turn_1/tokens",)),
    ("Throughput", "Tokens per second and device.", False, ("perf/throughput",)),
    ("Seconds of a step", "Wall clock.", False, ("timing_s/step",)),
    ("Feedback failed", "Of the requests.", True, ("rltf/feedback/failed_share",)),
    (
        "Judge: calls without a reply",
        "Of the calls.",
        True,
        ("rltf/feedback/judge/failed_share",),
    ),
    (
        "Judge: seconds of a call",
        "The slowest tenth take longer.",
        False,
        ("rltf/feedback/judge/latency_p90_s",),
    ),
    ("Judge: cost", "Since the start.", False, ("rltf/feedback/judge/cost_run",)),
)
"""Label, meaning, whether it is a share, and the metric: the first that the run has."""

_DRAWN = frozenset(name for *_, names in CURVES for name in names)


def is_used(metric: str) -> bool:
    """Whether the page has a use for it: to draw, or for a rule."""
    return metric in _DRAWN or metric == "training/global_step" or needed(metric)


def history_of(run: Path) -> History:
    """The metrics of the run whose folder or episode log this is; empty if there are none."""
    try:
        files = run_files((run,))
        paths = files.metrics or (metrics_near(files.log) if files.log else ())
        return read_history(paths)
    except (ValueError, OSError):  # the page needs none
        return {}


def training_curves(history: History) -> list[dict[str, Any]]:
    """As `curves.curves`, for those of `CURVES` that the run has."""
    found = []
    for label, told, share, names in CURVES:
        name = next((n for n in names if any(n in now for now in history.values())), None)
        if name is not None:
            points = [(step, now[name]) for step, now in history.items() if name in now]
            found.append({"label": label, "help": told, "share": share, "train": points, "val": []})
    return found


def warnings(history: History) -> list[dict[str, Any]]:
    """Each time that a rule of `runlog.health` fires, in order.

    Returns:
        `{"name", "advice", "from": step, "to": step or None}`; None: it still does.
    """
    watch, found = Watch(), list[dict[str, Any]]()
    for step, metrics in history.items():
        for rule, at, fires in watch.look(step, metrics):
            if fires:
                found.append({"name": rule.name, "advice": rule.advice, "from": at, "to": None})
            else:
                next(w for w in found if w["name"] == rule.name and w["to"] is None)["to"] = at
    return found
