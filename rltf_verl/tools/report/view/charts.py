"""The charts of the viewer: numbers of the episode log and of verl's file logger by step."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltf_verl.runlog.health import Watch
from rltf_verl.tools.report.stats import Stats

SPLITS = ("train", "val")
SAME = 1e-4
"""Two values that differ by less are the same number, logged twice."""
History = Mapping[int, Mapping[str, float]]
Number = tuple[float | None, int | None]
"""A value, and how many answers, revisions or texts it is the mean of."""
Points = list[tuple[int | None, float | None, int | None]]
"""(step, value, number behind it)."""


@dataclass(frozen=True)
class Curve:
    """A number by step: `of` the episode log, or the first of `metrics` that the run has."""

    group: str
    label: str
    help: str
    is_share: bool = False
    metrics: tuple[str, ...] = ()
    of: Callable[[Stats], Number] | None = None
    repeats: str = ""
    """Label of an earlier chart: a line that is the same there is drawn once."""


def answers_curves(num_turns: int, cut: Container[int | None]) -> Iterator[Curve]:
    """First answers, and what stands after each later turn.

    Args:
        num_turns: of the longest episode.
        cut: steps whose validation was of first answers only.
    """
    yield Curve(
        "Answers",
        "First answer right",
        "Attempts at turn 1.",
        True,
        of=lambda s: (s.turns[0].acc, s.turns[0].num) if s.turns else (None, None),
    )
    for k in range(1, num_turns):
        label, of = f"Right after turn {k + 1}", _standing(k, cut)
        yield Curve("Answers", label, "The last answer by this turn.", True, of=of)


def _revisions(name: str, num: str = "num") -> Callable[[Stats], Number]:
    return lambda s: (getattr(s.revisions, name), getattr(s.revisions, num))


def _feedback(name: str, num: str = "num") -> Callable[[Stats], Number]:
    return lambda s: (getattr(s.feedback, name), getattr(s.feedback, num))


CURVES = (
    Curve(
        "Answers",
        "Friction",
        "Of the episodes that began wrong and have a revision: wrong at the end.",
        True,
        (),
        # with two turns it is the complement of Corrected
        lambda s: (s.friction if len(s.turns) > 2 else None, s.num_began_wrong),
    ),
    Curve(
        "Answers",
        "Corrected",
        "Revisions of a wrong attempt: right.",
        True,
        (),
        _revisions("corrected", "num_wrong"),
    ),
    Curve(
        "Answers",
        "Fixed",
        "Of all revisions: wrong before, right now. Left out where it is the same as Corrected.",
        True,
        (),
        _revisions("fixed"),
        "Corrected",
    ),
    Curve(
        "Answers",
        "Broken",
        "Of all revisions: right before, wrong now.",
        True,
        (),
        _revisions("broken"),
    ),
    Curve(
        "Answers",
        "Plasticity",
        "Revisions with another answer than before.",
        True,
        (),
        _revisions("plasticity"),
    ),
    Curve(
        "Answers",
        "Format",
        "First answers that have an answer and end by themselves.",
        True,
        ("rltf/turn_1/format",),
    ),
    Curve(
        "Answers", "Cut off", "First answers at the token limit.", True, ("rltf/turn_1/truncated",)
    ),
    Curve("Answers", "Tokens of first answers", "Mean.", False, ("rltf/turn_1/tokens",)),
    Curve(
        "Answers",
        "Steps of an attempt",
        "Mean.",
        False,
        (),
        lambda s: (s.trajectories.get("mean"), sum(turn.num for turn in s.turns)),
    ),
    Curve(
        "Feedback", "Words of feedback", "Mean of the given texts.", False, (), _feedback("words")
    ),
    Curve(
        "Feedback",
        "Verdict only",
        "Texts that contain no more than right or wrong.",
        True,
        (),
        _feedback("no_op"),
    ),
    Curve(
        "Feedback",
        "Leaks",
        "Of the texts that the leak guard checked: give the answer away.",
        True,
        (),
        _feedback("leak_share", "num_checked"),
    ),
    Curve(
        "Feedback",
        "Aim",
        "Words that a text shares with its wrong first answer, less those it shares with another.",
        True,
        (),
        _feedback("aim"),
    ),
    Curve("Feedback", "Feedback failed", "Of the requests.", True, ("rltf/feedback/failed_share",)),
    Curve(
        "Feedback",
        "Judge: calls without a reply",
        "Of the calls.",
        True,
        ("rltf/feedback/judge/failed_share",),
    ),
    Curve(
        "Feedback",
        "Judge: seconds of a call",
        "The slowest tenth take longer.",
        False,
        ("rltf/feedback/judge/latency_p90_s",),
    ),
    Curve("Feedback", "Judge: cost", "Since the start.", False, ("rltf/feedback/judge/cost_run",)),
    Curve(
        "Reward",
        "Reward of first answers",
        "Mean.",
        False,
        ("rltf/turn_1/reward", "critic/score/mean"),
        None,
        "First answer right",
    ),
    Curve(
        "Reward",
        "Reward of second answers",
        "Mean.",
        False,
        ("rltf/turn_2/reward",),
        None,
        "Corrected",
    ),
    Curve(
        "Reward",
        "Dead groups",
        "Groups whose first answers have equal rewards.",
        True,
        ("rltf/group/dead_share",),
    ),
    Curve(
        "Optimisation",
        "Loss",
        "All objectives, weights included.",
        False,
        ("actor/loss", "actor/pg_loss"),
    ),
    Curve(
        "Optimisation",
        "KL of the update",
        "From the sampling policy to the trained one, nats per token.",
        False,
        ("actor/ppo_kl",),
    ),
    Curve(
        "Optimisation",
        "KL to the reference",
        "Nats per token.",
        False,
        ("actor/kl_loss", "critic/kl"),
    ),
    Curve("Optimisation", "Entropy", "Of the policy's tokens, nats.", False, ("actor/entropy",)),
    Curve("Optimisation", "Gradient norm", "Before clipping.", False, ("actor/grad_norm",)),
    Curve(
        "Optimisation",
        "Distillation: gap",
        "Log-prob with feedback minus that under the first prompt, nats per token.",
        False,
        ("rltf/distill/log_prob_gap",),
    ),
    Curve(
        "Optimisation",
        "Distillation: divergence",
        "From the teacher, nats per token.",
        False,
        ("rltf/logit_distill/divergence",),
    ),
    Curve("Speed", "Throughput", "Tokens per second and device.", False, ("perf/throughput",)),
    Curve("Speed", "Seconds of a step", "Wall clock.", False, ("timing_s/step",)),
)
"""Charts after those of the answers, in the page's order."""


def charts(
    steps: Sequence[Stats], cut: Container[int | None], history: History
) -> list[dict[str, Any]]:
    """The charts that have points.

    Args:
        steps: numbers of one step and split each.
        cut: steps whose validation was of first answers only.
        history: metrics of verl's file logger by step.

    Returns:
        `{"group", "label", "help", "share", "train": Points, "val": Points}` each.
    """
    num_turns = max((len(s.turns) for s in steps), default=0)
    drawn: dict[str, dict[str, Any]] = {}
    for curve in (*answers_curves(num_turns, cut), *CURVES):
        lines = {split: _points(curve, split, steps, history) for split in SPLITS}
        if earlier := drawn.get(curve.repeats):
            lines = {s: [] if _same(lines[s], earlier[s]) else lines[s] for s in SPLITS}
        if any(lines.values()):
            names = {"group": curve.group, "label": curve.label, "help": curve.help}
            drawn[curve.label] = names | {"share": curve.is_share} | lines
    return list(drawn.values())


def warnings(history: History) -> list[dict[str, Any]]:
    """Each time that a rule of `runlog.health` fires, in order.

    Returns:
        `{"name", "advice", "from": step, "to": step or None}` each; None: it still fires.
    """
    watch, fired = Watch(), list[dict[str, Any]]()
    for step, metrics in history.items():
        for rule, at, fires in watch.look(step, metrics):
            if fires:
                fired.append({"name": rule.key, "advice": rule.fix, "from": at, "to": None})
            else:
                next(w for w in fired if w["name"] == rule.key and w["to"] is None)["to"] = at
    return fired


def _points(curve: Curve, split: str, steps: Sequence[Stats], history: History) -> Points:
    if curve.of is not None:
        points: Points = [(s.first_step, *curve.of(s)) for s in steps if s.split == split]
        return points if any(value is not None for _, value, _ in points) else []
    name = next((n for n in curve.metrics if any(n in now for now in history.values())), None)
    if name is None or split == "val":
        return []
    return [(step, now[name], None) for step, now in history.items() if name in now]


def _same(points: Points, earlier: Points) -> bool:
    """Whether the earlier line has the same values at the steps of both."""
    values = {step: value for step, value, _ in earlier if value is not None}
    pairs = [(v, values[step]) for step, v, _ in points if v is not None and step in values]
    return bool(pairs) and all(abs(a - b) < SAME for a, b in pairs)


def _standing(k: int, cut: Container[int | None]) -> Callable[[Stats], Number]:
    """The last answer by turn k is right; by the last turn where all episodes of a step end
    earlier.
    """

    def value(s: Stats) -> Number:
        if not s.turns or (s.split == "val" and s.first_step in cut):
            return None, None
        return s.turns[min(k, len(s.turns) - 1)].standing, s.sessions

    return value
