"""The charts of the viewer: numbers of the episode log and of verl's file logger by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltf_verl.runlog.health import Watch
from rltf_verl.tools.report.stats import EpisodeStats

SPLITS = ("train", "val")
History = Mapping[int, Mapping[str, float]]
Points = list[tuple[int | None, float | None, int | None]]
"""(step, value, number behind it)."""


@dataclass(frozen=True)
class Curve:
    """A number by step, of the episode log or of verl's file logger."""

    group: str
    label: str
    help: str
    share: bool = False
    log: str = ""
    """A name of `stats.cases_by_name`."""
    metric: str = ""
    """A name of the file logger."""
    instead: str = ""
    """The number to take where a step of the log, or the whole run, lacks that one."""


FIRST = Curve(
    "Answers",
    "First answer right",
    "Attempts at turn 1.",
    share=True,
    log="turn_1/acc",
)
FRICTION = Curve(
    "Answers",
    "Friction",
    "Of the episodes that began wrong and have a revision: wrong at the end.",
    share=True,
    log="friction",
)
CURVES = (
    Curve(
        "Answers",
        "Corrected",
        "Revisions of a wrong attempt: right.",
        share=True,
        log="revisions/corrected",
    ),
    Curve(
        "Answers",
        "Broken",
        "Of all revisions: right before, wrong now.",
        share=True,
        log="revisions/broken",
    ),
    Curve(
        "Answers",
        "Plasticity",
        "Revisions with another answer than before.",
        share=True,
        log="revisions/plasticity",
    ),
    Curve(
        "Answers",
        "Format",
        "First answers that have an answer and end by themselves.",
        share=True,
        metric="rltf/turn_1/format",
    ),
    Curve(
        "Answers",
        "Cut off",
        "First answers at the token limit.",
        share=True,
        metric="rltf/turn_1/truncated",
    ),
    Curve(
        "Answers",
        "Tokens of first answers",
        "Mean.",
        metric="rltf/turn_1/tokens",
    ),
    Curve(
        "Answers",
        "Steps of an attempt",
        "Mean.",
        log="steps/mean",
    ),
    Curve(
        "Feedback",
        "Words of feedback",
        "Mean of the given texts.",
        log="feedback/words",
    ),
    Curve(
        "Feedback",
        "Verdict only",
        "Texts that contain no more than right or wrong.",
        share=True,
        log="feedback/no_op",
    ),
    Curve(
        "Feedback",
        "Leaks",
        "Of the texts that the leak guard checked: give the answer away.",
        share=True,
        log="feedback/leak_share",
    ),
    Curve(
        "Feedback",
        "Feedback failed",
        "Of the requests.",
        share=True,
        metric="rltf/feedback/failed_share",
    ),
    Curve(
        "Feedback",
        "Judge: calls without a reply",
        "Of the calls.",
        share=True,
        metric="rltf/feedback/judge/failed_share",
    ),
    Curve(
        "Feedback",
        "Judge: seconds of a call",
        "The slowest tenth take longer.",
        metric="rltf/feedback/judge/latency_p90_s",
    ),
    Curve(
        "Feedback",
        "Judge: cost",
        "Since the start.",
        metric="rltf/feedback/judge/cost_run",
    ),
    Curve(
        "Reward",
        "Reward of first answers",
        "Mean.",
        metric="rltf/turn_1/reward",
        instead="critic/score/mean",
    ),
    Curve(
        "Reward",
        "Reward of second answers",
        "Mean.",
        metric="rltf/turn_2/reward",
    ),
    Curve(
        "Reward",
        "Dead groups",
        "Groups whose first answers have equal rewards.",
        share=True,
        metric="rltf/group/dead_share",
    ),
    Curve(
        "Optimisation",
        "Loss",
        "All objectives, weights included.",
        metric="actor/loss",
        instead="actor/pg_loss",
    ),
    Curve(
        "Optimisation",
        "KL of the update",
        "From the sampling policy to the trained one, nats per token.",
        metric="actor/ppo_kl",
    ),
    Curve(
        "Optimisation",
        "KL to the reference",
        "Nats per token.",
        metric="actor/kl_loss",
        instead="critic/kl",
    ),
    Curve(
        "Optimisation",
        "Entropy",
        "Of the policy's tokens, nats.",
        metric="actor/entropy",
    ),
    Curve(
        "Optimisation",
        "Gradient norm",
        "Before clipping.",
        metric="actor/grad_norm",
    ),
    Curve(
        "Optimisation",
        "Distillation: gap",
        "Log-prob with feedback minus that under the first prompt, nats per token.",
        metric="rltf/distill/log_prob_gap",
    ),
    Curve(
        "Optimisation",
        "Distillation: divergence",
        "From the teacher, nats per token.",
        metric="rltf/logit_distill/divergence",
    ),
    Curve(
        "Speed",
        "Throughput",
        "Tokens per second and device.",
        metric="perf/throughput",
    ),
    Curve(
        "Speed",
        "Seconds of a step",
        "Wall clock.",
        metric="timing_s/step",
    ),
)


def curves_of(num_turns: int) -> list[Curve]:
    """In the page's order; `num_turns`: of the longest episode."""
    later = [
        Curve(
            group="Answers",
            label=f"Right after turn {turn}",
            help="The last answer by this turn.",
            share=True,
            # where all episodes of a step end earlier, their last answer counts
            log=f"turn_{turn}/standing",
            instead="standing",
        )
        for turn in range(2, num_turns + 1)
    ]
    # with two turns it is the complement of Corrected
    friction = [FRICTION] if num_turns > 2 else []
    return [FIRST, *later, *friction, *CURVES]


def charts(steps: Sequence[EpisodeStats], history: History) -> list[dict[str, Any]]:
    """The charts that have points.

    Args:
        steps: numbers of one step and split each.
        history: metrics of verl's file logger by step.

    Returns:
        `{"group", "label", "help", "share", "train": Points, "val": Points}` each.
    """
    drawn = []
    for curve in curves_of(max((s.num_turns for s in steps), default=0)):
        lines = {split: _points(curve, split, steps, history) for split in SPLITS}
        if any(lines.values()):
            names = {"group": curve.group, "label": curve.label, "help": curve.help}
            drawn.append(names | {"share": curve.share} | lines)
    return drawn


def warnings(history: History) -> list[dict[str, Any]]:
    """Each time that a rule of `runlog.health` fires, in order.

    Returns:
        `{"name", "advice", "from": step, "to": step or None}` each; None: it still fires.
    """
    watch, fired = Watch(), list[dict[str, Any]]()
    # rules look at steps in a row, so the order matters
    for step, metrics in history.items():
        for rule, at, fires in watch.look(step, metrics):
            if fires:
                fired.append({"name": rule.key, "advice": rule.fix, "from": at, "to": None})
            else:
                # one at most: a rule fires again only after it has stopped
                next(w for w in fired if w["name"] == rule.key and w["to"] is None)["to"] = at
    return fired


def _points(curve: Curve, split: str, steps: Sequence[EpisodeStats], history: History) -> Points:
    if curve.log:
        points = [_logged(curve, s) for s in steps if s.split == split]
        return points if any(value is not None for _, value, _ in points) else []
    if split == "val":
        return []
    # one name for the whole run, so that a line does not jump between two
    is_there = any(curve.metric in metrics for metrics in history.values())
    name = curve.metric if is_there else curve.instead
    return [(step, metrics[name], None) for step, metrics in history.items() if name in metrics]


def _logged(curve: Curve, s: EpisodeStats) -> tuple[int | None, float | None, int | None]:
    name = curve.log if curve.log in s.num else curve.instead
    return s.first_step, s.mean.get(name), s.num.get(name)
