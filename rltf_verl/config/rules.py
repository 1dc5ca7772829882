"""Settings of `rltf:` that do not go together, or that nothing reads: one row each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from rltf_verl.config.objectives import Scheduled
from rltf_verl.config.teacher import LogitDistillConfig, TeacherConfig
from rltf_verl.findings import Finding, Rule, findings
from rltf_verl.texts import counted

if TYPE_CHECKING:
    from rltf_verl.config import RLTFConfig

When = Callable[["RLTFConfig"], bool]
CLIPPED = ("ppo", "cispo")


def _inline(c: RLTFConfig) -> bool:
    return c.feedback_modeling.predicts_feedback and c.feedback_modeling.form == "inline"


REFUSED: tuple[Rule[RLTFConfig], ...] = (
    Rule(
        "rltf.schedule.ramp_steps",
        lambda c: (
            c.schedule.ramp_steps is not None and c.schedule.ramp_steps <= c.schedule.start_step
        ),
        "ramps end before they start",
        "set it above rltf.schedule.start_step={rltf.schedule.start_step}, or to null",
    ),
    Rule(
        "rltf.episode.retry",
        lambda c: c.episode.retry == "fork" and c.episode.context == "append",
        "a retry from a step continues the steps before it, not the whole conversation",
        "set it to whole, or rltf.episode.context to fresh",
    ),
    Rule(
        "rltf.seed",
        lambda c: c.seed is None and c.episode.pair_sessions,
        "rltf.episode.pair_sessions=true makes two episodes share a first answer by its seed",
        "set it to a number, or pair_sessions to false",
    ),
    Rule(
        "rltf.feedback.guard.judge",
        lambda c: c.feedback.guard.action == "none" and c.feedback.guard.judge is not None,
        "nothing is looked at with rltf.feedback.guard.action=none",
        "choose drop, redact, regenerate or warn",
    ),
    Rule(
        "rltf.distill.loss",
        lambda c: c.distill.reference == "current" and c.distill.loss.name in CLIPPED,
        "it clips a ratio that is always 1 with rltf.distill.reference=current",
        "set reference to old or sampler",
    ),
    Rule(
        "rltf.distill.reference",
        lambda c: c.distill.reference != "current" and c.distill.loss.name == "shaped",
        "rltf.distill.loss=shaped reads the policy's own probability only",
        "set it to current",
    ),
    Rule(
        "rltf.episode.horizon",
        lambda c: c.distill.enabled and c.episode.horizon == 1,
        "distill needs a second turn",
        "set it to 2 or more, or rltf.distill.weight=0",
    ),
    Rule(
        "rltf.episode.horizon",
        lambda c: _inline(c) and c.episode.horizon == 1,
        "rltf.feedback_modeling.form=inline needs a second turn",
        "set it to 2 or more, or form to rows",
    ),
    Rule(
        "rltf.imitate.source",
        lambda c: c.imitate.enabled and c.imitate.source == "revised" and c.episode.horizon == 1,
        "rltf.imitate.weight={rltf.imitate.weight} needs a second turn, rltf.episode.horizon=1",
        "set it to all, or the horizon to 2 or more",
    ),
    Rule(
        "rltf.feedback_modeling.form",
        lambda c: _inline(c) and c.episode.context != "append",
        "only with rltf.episode.context=append is the feedback between two attempts of a row",
        "set context to append, or form to rows",
    ),
    Rule(
        "rltf.attempt.turns",
        lambda c: _inline(c) and c.attempt.turns == "first",
        "it ends every row before the feedback that rltf.feedback_modeling.form=inline predicts",
        "set it to all, or form to rows",
    ),
    Rule(
        "rltf.mentions.phrases",
        lambda c: not (c.mentions.phrases and all(c.mentions.phrases)),
        "a phrase is missing",
        "name one or more, or set rltf.mentions.action=keep",
    ),
    Rule(
        "rltf.token_classes",
        lambda c: c.chosen_classes == (),
        "no token of an answer would train",
        "name one class or more, or set it to null",
    ),
    Rule(
        "rltf.feedback_modeling.classes",
        lambda c: c.feedback_modeling.enabled and not c.feedback_modeling.classes,
        "nothing is predicted",
        "name feedback or observation, or set rltf.feedback_modeling.weight=0",
    ),
    Rule(
        "rltf.teacher.reads",
        lambda c: not 0 < len(c.teacher.sources) == len(set(c.teacher.sources)),
        "a source is missing or repeated",
        "name one source or more, each once",
    ),
    *(
        Rule[Any](
            f"rltf.teacher.{key}",
            lambda c, get=attrgetter(f"teacher.{key}.name"), default=default: (  # type: ignore[misc]
                not c.teaches and get(c) != default
            ),
            "the teacher is unused",
            f"set rltf.logit_distill.weight above 0, or set it to {default}",
        )
        for key, default in (("kind", "policy"), ("gate", "none"))
    ),
    Rule(
        "rltf.teacher.against",
        lambda c: (
            c.teaches
            and c.teacher.against.name is not None
            and c.logit_distill.divergence.name != "sampled_token"
        ),
        "a contrast is one of log-probs of the sampled tokens",
        "set rltf.logit_distill.divergence=sampled_token, or against to null",
    ),
    Rule(
        "rltf.teacher.against",
        lambda c: c.teacher.against.name == "wrong_sibling" and "sibling" not in c.teacher.sources,
        "a wrong sibling stands in place of a right one, which this teacher does not read",
        "set rltf.teacher.reads=sibling, or against to other_problem",
    ),
    Rule(
        "rltf.teacher.against",
        lambda c: (
            c.teacher.against.name == "reference_only"
            and c.teacher.turns != "first"
            and c.episode.horizon > 1
        ),
        "later prompts quote the question, so they cannot do without it",
        "set rltf.teacher.turns=first, or against to other_problem",
    ),
    Rule(
        "rltf.teacher.notes",
        lambda c: c.teacher.notes == "by_step" and c.teacher.against.name is not None,
        "only one of the two prompts would have a step's own notes, and their lengths would differ",
        "set it to joined, or rltf.teacher.against to null",
    ),
    Rule(
        "rltf.teacher.notes",
        lambda c: (
            c.teacher.notes == "by_step"
            and ("feedback" not in c.teacher.sources or c.teacher.shuffled)
        ),
        "the notes are the feedback's, which this teacher does not read",
        "set it to joined, or rltf.teacher.reads to feedback and rltf.teacher.shuffled to false",
    ),
    Rule(
        "rltf.teacher.shuffled",
        lambda c: c.teacher.shuffled and c.teacher.against.name is not None,
        "the control of a contrast is rltf.teacher.against=other_problem",
        "set one of the two",
    ),
    Rule(
        "rltf.logit_distill.weight",
        lambda c: c.scales_advantages and max(c.logit_distill.ramp) > 1,
        "with rltf.teacher.gate={rltf.teacher.gate} it is how far advantages are scaled",
        "set it to at most 1",
    ),
    Rule(
        "rltf.attempt.turns",
        lambda c: (
            c.teaches
            and c.attempt.turns == "first"
            and c.teacher.turns != "first"
            and c.episode.horizon > 1
        ),
        "later attempts have no row, and rltf.teacher.turns={rltf.teacher.turns} teaches them",
        "set it to all, or teacher.turns to first",
    ),
    Rule(
        "rltf.teacher.right",
        lambda c: (
            c.teaches
            and c.teacher.right
            and c.teacher.sources == ("feedback",)
            and (c.episode.stop_when_solved_train or c.feedback.ask != "always")
        ),
        "right attempts have no feedback that a teacher could read",
        "set it to false, rltf.teacher.reads to reference, sibling or demonstration beside"
        " feedback, or rltf.episode.stop_when_solved_train to false",
    ),
)
"""Settings that cannot work; read with the config."""


def _unread(key: str, ignored: When, fix: str) -> Rule[RLTFConfig]:
    """A row for a setting that differs from its default and that nothing reads."""
    return Rule(
        f"rltf.{key}",
        lambda c: _is_changed(c, key) and ignored(c),
        "it has no effect",
        fix,
        "warning",
    )


def _is_changed(config: RLTFConfig, key: str) -> bool:
    """True if the setting differs from its default."""
    value = attrgetter(key)
    return bool(value(config) != value(type(config)()))


UNREAD: tuple[Rule[RLTFConfig], ...] = (
    *(
        _unread(
            f"{block}.{f.name}",
            lambda c: not c.teaches,
            "give rltf.logit_distill a weight, or leave it out: no attempt has a teacher",
        )
        for block, kind, refused_alone in (
            ("teacher", TeacherConfig, ("kind", "gate")),
            ("logit_distill", LogitDistillConfig, ("weight",)),
        )
        for f in fields(kind)
        if f.name not in refused_alone
    ),
    *(
        _unread(
            f"logit_distill.{key}",
            lambda c: c.scales_advantages,
            "choose another rltf.teacher.gate, or leave it out: the teacher's own loss is 0",
        )
        for key in ("entropy_decay", "ratio_clip")
    ),
    _unread(
        "logit_distill.top_k",
        lambda c: c.teaches and c.logit_distill.divergence.name == "sampled_token",
        "set rltf.logit_distill.divergence to jsd, or leave it out",
    ),
)
"""Settings without effect; logged when a run starts."""


EXPERIMENTAL: Mapping[str, tuple[str, ...]] = {
    "refill_rounds": (),
    "token_classes": (),
    "env": ("textarena",),
    "episode.revise": ("insight",),
    "episode.ends": (),
    "feedback.provider": ("siblings",),
    "feedback_modeling.form": ("inline",),
    "teacher.kind": ("trust_region",),
    "teacher.against": ("reference_only",),
    "teacher.turns": (),
    "teacher.gate": ("variance", "sigmoid"),
}
"""Settings without study, recipe or reader, and which of their choices; none: all but the default.
docs/architecture.md says what we promise of them.
"""


def experimental(config: RLTFConfig) -> list[str]:
    """Keys of the experimental settings that differ from their defaults."""
    return [
        f"rltf.{key}"
        for key, choices in EXPERIMENTAL.items()
        for value in [attrgetter(key)(config)]
        if _is_changed(config, key) and (not choices or getattr(value, "name", value) in choices)
    ]


def late_findings(start_step: int, num_steps: int) -> Iterator[Finding]:
    """Objectives that start after the run has ended."""
    if start_step >= num_steps:
        why = f"the run ends at trainer.total_training_steps={num_steps}, so nothing starts"
        fix = "lower it, or raise the number of steps"
        yield Finding("rltf.schedule.start_step", start_step, why, fix, "warning")


def refused(config: RLTFConfig) -> Iterator[Finding]:
    """Settings that cannot work, in the order in which to change them."""
    blocks = {f.name: getattr(config, f.name) for f in fields(config)}
    alone = {name: own for name, own in blocks.items() if isinstance(own, Scheduled) and own.alone}
    if config.scales_advantages:
        del alone["logit_distill"]
    if not (
        config.attempt.weight > 0
        or any(own.enabled for own in alone.values())
        or bool(config.objectives)
    ):
        keys = ", ".join(f"rltf.{name}.weight" for name in alone)
        fix = f"set it or one of {keys} above 0"
        weight = config.attempt.weight
        yield Finding("rltf.attempt.weight", weight, "no objective is left", fix)
    yield from findings(REFUSED, config, {"rltf": config})
    yield from _unused_levels(config)


def unread(config: RLTFConfig) -> Iterator[Finding]:
    """Settings without effect."""
    yield from findings(UNREAD, config, {"rltf": config})


def _unused_levels(config: RLTFConfig) -> Iterator[Finding]:
    horizon = config.episode.horizon
    # Attempts that get feedback: each that another follows, and the last one for a teacher.
    num = horizon - 1 + config.asks_at_end
    for key, levels in config.feedback.level_lists():
        if 0 < num < len(levels):
            why = (
                f"rltf.episode.horizon={horizon} gives feedback on {counted(num, 'attempt')}, so"
                f" only the first {num} would be used"
            )
            fix = f"shorten it, or raise the horizon to {horizon + len(levels) - num}"
            yield Finding(f"rltf.{key}", list(levels), why, fix)
