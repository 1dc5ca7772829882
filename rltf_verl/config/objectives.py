"""Each role's part in the loss: the blocks
`rltf.{attempt,distill,feedback_modeling,imitate,critique}`, `rltf.schedule` and
`rltf.mentions`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args

from rltf_verl.config.reading import NamedOptions, block, require
from rltf_verl.kinds import Choice, Form, Within, shown

Weight = Annotated[float, Within(0, 1e6, note="; 0 switches it off")]

Estimator = Literal["group_mean", "leave_one_out", "ragged", "first_turn", "joined", "none"]
"""Subtracted from the return of a turn; see `algos.advantages`."""

Baseline = Literal[
    "first_turn",
    "leave_one_out",
    "joined",
    "second_turn",
    "second_turn_padded",
    "none",
    "rejection",
]
"""Subtracted from the reward of a distilled answer; see `algos.distill`."""


def is_own(where: str) -> bool:
    """True if a name is a place in user code: `./mine.py:name` or `module:name`."""
    source, _, name = where.rpartition(":")
    return bool(source) and name.isidentifier()


OWN_FUNCTION = Form(is_own, "a function, ./mine.py:function")


def or_own(choices: Any) -> Form:
    """One of the choices of a Literal, or a function in user code."""
    return Form(
        lambda where: where in get_args(choices) or is_own(where),
        f"one of {', '.join(get_args(choices))}, or your own ./mine.py:function",
    )


OwnBaseline = Annotated[str, or_own(Baseline)]

Reference = Literal["current", "old", "sampler"]
"""π_ref of a distillation row: the policy as it is being trained (ratio 1, AWR) or as it was before
the update, both given the first prompt, or the sampler given the prompt with the feedback."""


TokenClass = Literal["think", "action", "format"]
ReadClass = Literal["feedback", "observation"]
"""Classes of tokens that the policy did not sample."""


@dataclass(frozen=True)
class AttemptConfig:
    """Reinforcement on the turns as they were played: multi-turn GRPO."""

    weight: Weight = 1.0
    """Coefficient of the attempt rows; 0 leaves the other objectives alone (RAFT)."""
    estimator: Estimator = "group_mean"
    """Baseline of a turn's return: the mean of its group and turn (paper), or another."""
    norm_by_std: bool = False
    """Divide by the standard deviation of the group and turn (never in the paper). In distillation
    rows only the baseline `joined` is divided too."""
    turns: Literal["all", "first"] = "all"
    """Turns that have attempt rows; `first`: later answers are trained by the other objectives
    only.
    """


@dataclass(frozen=True)
class ScheduleConfig:
    """Start of all objectives but `attempt`, and ramps of every weight that is [start, end]."""

    start_step: Annotated[int, Within(0)] = 0
    """Training step (from 0) at which objectives start; ramps run from there."""
    ramp_steps: int | None = None
    """Step at which ramps have ended; null is the run's total number of steps."""
    restart_on_resume: bool = False
    """A resumed run starts ramps again, as the released code does; off: a ramp depends on the step
    alone.
    """


@dataclass(frozen=True)
class Scheduled:
    """A coefficient that follows `rltf.schedule`."""

    weight: Weight | tuple[Weight, Weight] = 0.0
    """Coefficient of the objective, or [start, end] of a linear ramp; 0 switches it off."""

    @property
    def alone(self) -> bool:
        """True if a run can have no other objective."""
        return True

    @property
    def enabled(self) -> bool:
        """True if the objective's rows are made."""
        return max(self.ramp) > 0

    @property
    def ramp(self) -> tuple[float, ...]:
        """The coefficient, or its start and end."""
        return self.weight if isinstance(self.weight, tuple) else (self.weight,)


@dataclass(frozen=True)
class Loss(Choice):
    """The token loss of distillation rows."""

    READS: ClassVar = {
        "ppo": ("clip_low", "clip_high"),
        "cispo": ("clip_low", "clip_high"),
        "shaped": ("gamma",),
    }
    name: Literal["importance_sampling", "ppo", "cispo", "shaped"] = "importance_sampling"
    """The clipped ones, ppo and cispo, need a ratio, hence reference `old` or `sampler`; `shaped`
    has none: π/(π + γ)."""
    gamma: Annotated[float, Within(above=0, most=1e6, note="; the papers have 0.1")] = 0.1
    """γ of shaped."""
    clip_low: Annotated[float, Within(above=0, most=1)] = 0.8
    """Absolute lower bound of the ratio, of ppo and cispo."""
    clip_high: Annotated[float, Within(1)] = 1.2
    """Absolute upper bound of the ratio, of ppo and cispo."""


@dataclass(frozen=True)
class DistillConfig(Scheduled):
    """RLTF-SD: an extra row (first prompt, later answer)."""

    baseline: Baseline | OwnBaseline = "first_turn"
    """Subtracted from the last answer's reward: first_turn (paper: the group's mean first-turn
    reward), leave_one_out, joined, second_turn, second_turn_padded, none, rejection, or what your
    own `./mine.py:function` makes of the episodes."""
    reference: Reference = "current"
    """π_ref of the ratio: `current` is the paper's AWR (ratio 1), `sampler` the policy that was
    given the feedback.
    """
    loss: Loss = Loss()
    log_prob_floor: Annotated[float, Within(most=0, note=" (a log-probability)")] | None = -5.0
    """Tokens whose log π_old(y|x_0) is below it (nats) are not imitated; null keeps every token."""
    floor: Literal["hard", "soft"] = "hard"
    """Weight of a token below the floor: 0 (release), or π_old(y|x_0) / exp(log_prob_floor)."""


@dataclass(frozen=True)
class FeedbackModelingConfig(Scheduled):
    """RLTF-FM: the policy learns to predict the feedback."""

    classes: ReadClass | tuple[ReadClass, ...] = "feedback"
    """Predicted texts, one or a list: `feedback`, `observation` (ECHO: an environment's answers to
    steps, at their place in the attempt)."""
    form: Literal["rows", "inline"] = "rows"
    """`rows`: one more row (critic prompt, feedback) per feedback (paper). `inline`: cross-entropy
    on the feedback's tokens at their place in an appended conversation, without another forward
    pass."""
    critic: str = "critique"
    """Template `prompts/critic/<name>.j2` of the prompt that the feedback answers, in the form
    `rows`.
    """
    filter: Annotated[str, OWN_FUNCTION] | None = None
    """Parts of a feedback or observation to predict: your own `./mine.py:function`, which takes its
    text and returns the (start, end) of each part; null: all of it."""

    @property
    def predicts_feedback(self) -> bool:
        """True if feedback is predicted, in either form."""
        return self.enabled and "feedback" in self.classes

    @property
    def makes_rows(self) -> bool:
        """True if each feedback is a separate row, after the critic prompt."""
        return self.predicts_feedback and self.form == "rows"


@dataclass(frozen=True)
class ImitateConfig(Scheduled):
    """Supervised fine-tuning of the first prompt on correct answers."""

    source: Literal["revised", "all"] = "revised"
    """`revised`: correct last answers of episodes that needed feedback (release, mode sft). `all`:
    also first answers that were right at once (RAFT)."""


@dataclass(frozen=True)
class CritiqueConfig(Scheduled):
    """Self-critique RL: a critique that the policy wrote is credited with the turn that it led
    to.
    """

    weight: Weight | tuple[Weight, Weight] = 1.0

    @property
    def alone(self) -> bool:
        """Only some providers bring it rows."""
        return False


@dataclass(frozen=True)
class MentionsConfig:
    """Treatment of second answers that mention the feedback, which a first answer cannot have
    seen.

    Concerns the rows that put a later answer after the first prompt: `distill` and `imitate`.
    """

    action: Literal["keep", "mask", "drop"] = "keep"
    """`keep`, `mask` the tokens of the phrase, or `drop` the row."""
    phrases: tuple[str, ...] = (
        "critique",
        "feedback",
        "expert guide",
        "previous attempt",
        "previous solution",
        "earlier attempt",
        "as pointed out",
        "revised solution",
        "corrected solution",
    )
    """Phrases that count as a mention, in any letter case."""


def own_objectives(values: dict[str, Any], taken: Collection[str]) -> dict[str, NamedOptions]:
    """A user's objectives: the place of each, and its block.

    Args:
        values: the `rltf:` block; the blocks of own objectives are taken out of it.
        taken: names that a block cannot have.
    """
    objectives = {}
    for name, where in block("objectives", values.get("objectives")).items():
        key = f"objectives.{name}"
        free = str(name).isidentifier() and name not in taken
        require(free, key, shown(where), "an own objective needs a name that no other block has")
        is_path = isinstance(where, str) and is_own(where)
        require(is_path, key, shown(where), "must name a class, ./mine.py:Class")
        objectives[str(name)] = NamedOptions(where, block(name, values.pop(name, None)))
    return objectives
