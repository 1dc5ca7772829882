"""The top-level `rltf:` block as frozen dataclasses. Everything is checked here, before any worker
starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any, Literal

from rltf_verl.config.feedback import FeedbackConfig, GuardConfig, feedback_config
from rltf_verl.config.objectives import (
    AttemptConfig,
    CritiqueConfig,
    DistillConfig,
    FeedbackModelingConfig,
    ImitateConfig,
    MentionsConfig,
    ScheduleConfig,
    TokenClass,
    own_objectives,
)
from rltf_verl.config.reading import (
    ConfigError,
    NamedOptions,
    block,
    build,
    named_options,
)
from rltf_verl.config.rules import refused
from rltf_verl.config.teacher import (
    SCALING_GATES,
    SOURCES,
    LogitDistillConfig,
    TeacherConfig,
)
from rltf_verl.kinds import Within, type_hints
from rltf_verl.types import EndReason

__all__ = [
    "SOURCES",
    "AttemptConfig",
    "ConfigError",
    "CritiqueConfig",
    "DistillConfig",
    "EpisodeConfig",
    "EpisodeLogConfig",
    "FeedbackConfig",
    "FeedbackModelingConfig",
    "GuardConfig",
    "ImitateConfig",
    "LogitDistillConfig",
    "MentionsConfig",
    "NamedOptions",
    "RLTFConfig",
    "RewardConfig",
    "ScheduleConfig",
    "TeacherConfig",
]


Coefficient = Annotated[float, Within(0, 1e6, note="; the formula has the sign")]


@dataclass(frozen=True)
class RewardConfig:
    """From a grade to the reward of a turn."""

    format_coef: Coefficient = 0.1
    """Reward lost when no answer could be extracted or the answer was cut off at the token
    limit.
    """
    intermediate: bool = True
    """Turns that another turn follows have a reward of their own (release `reward_y1`); off: 0."""
    turn_decay: Annotated[float, Within(above=0, most=1, note="; 1 is no decay")] = 1.0
    """d: the score of turn k counts d^(k−1) (UFO); 1 is no decay."""
    repetition_coef: Coefficient = 0.0
    """λ of the loss λ·(1 − E/T) at the end of an episode of T turns with E different answers
    (UFO).
    """


Quote = Literal["answer", "all", "none"]
Counts = Literal["grade", "zero", "leave_out"]
"""An attempt's part in the reward."""
ENDS: Mapping[EndReason, Counts] = {"environment_error": "leave_out"}


@dataclass(frozen=True)
class EpisodeConfig:
    """Rules of an episode."""

    horizon: Annotated[int, Within(1, 100)] = 2
    """Answer turns per episode, at least 1; 1 is single-turn GRPO."""
    context: Literal["fresh", "append"] | None = None
    """`fresh`: every turn is a new conversation that quotes what it needs (paper). `append`: one
    growing chat. null: `append` where the model's chat template keeps what was said, for feedback
    on answers and without `revise`; else `fresh`."""
    stop_when_solved_train: bool = True
    """End a training episode after its first correct answer."""
    stop_when_solved_val: bool = False
    """End a validation episode after its first correct answer; off: every turn's accuracy is over
    all problems.
    """
    val_feedback_every: Annotated[int, Within(1, 1000)] | None = 1
    """Give feedback in every k-th validation, and in the first and last; the others play first
    answers only and ask no judge. 1: all; null: none."""
    revise: str | None = None
    """Template of the prompts of turns 2 and later: a name of `prompts/revise`, or a file
    `./mine.j2`; null takes the one that fits provider and environment (docs/feedback.md)."""
    quote: Quote = "answer"
    """Part of an attempt in later prompts: its answer (without `<think>…</think>`), all of
    it, or none of it, as in the paper's form B. Critics read the same, but with `none` all of
    it."""
    pair_sessions: bool = False
    """Episodes 2i and 2i+1 sample the same first answer, for providers that treat the two
    differently (`paired`).
    """
    ends: Mapping[EndReason, Counts] = field(default_factory=lambda: dict(ENDS))
    """Reward of an attempt at an environment with steps, by the reason for its end
    (docs/agents.md): `grade`, `zero`, or nothing (`leave_out`: it is neither right nor wrong, and
    stays in the denominator). A reason that is not here counts its grade."""
    retry: Literal["whole", "fork"] = "whole"
    """Start of a second attempt at an environment with steps. `whole`: from the beginning. `fork`:
    from the first step that the feedback criticises, in a copy of its state; from the beginning
    where it criticises none, or the first.
    """

    def counts(self, end: EndReason) -> Counts:
        """Part in the reward of an attempt with this end."""
        return {**ENDS, **self.ends}.get(end, "grade")

    def val_horizon(self, step: int, test_freq: int, last_step: int | None) -> int:
        """Answer turns of the episodes of a validation.

        It depends on nothing but its arguments, so a resumed run validates as the first one would
        have. A validation off the rhythm (at the start of a resumed run) is one with feedback.

        Args:
            step: training steps so far.
            test_freq: `trainer.test_freq`.
            last_step: of the run, if that is known.
        """
        if self.val_feedback_every is None:
            return 1
        on_rhythm = test_freq > 0 and step % test_freq == 0 and step != last_step
        # Validations are numbered by step / test_freq: of each k in a row, the one divisible by k
        # asks.
        return 1 if on_rhythm and step // test_freq % self.val_feedback_every else self.horizon


@dataclass(frozen=True)
class EpisodeLogConfig:
    """Contents of a run's episode log (`runlog.episodes`)."""

    dir: str | None = None
    """Folder of the log, up to 50 GB; null writes none."""
    ids: bool = False
    """Write each attempt's tokens too: prompt ids, response ids, the sampler's log-probs."""


@dataclass(frozen=True)
class RLTFConfig:
    """The whole `rltf:` block."""

    seed: int | None = 0
    """Base of every sampling seed; the others are the step, the problem's source and index, the
    episode and the turn. null sends the rollout engine no seeds, so that it may draw for many
    requests at once; no answer can be sampled again then."""
    gamma: Annotated[float, Within(0, 1)] = 0.1
    """Discount per turn of the attempt returns, in [0, 1]. 0.1 in every script of the release."""
    updates_per_batch: Annotated[int, Within(1, 1000)] = 1
    """Optimiser updates per training batch, however many rows its episodes produced."""
    refill_rounds: Annotated[int, Within(0, 1000, note="; 0 is off")] = 0
    """Dynamic sampling: most rounds in which further problems take the place of groups that no
    objective gets anything from; 0 trains on the batch as it comes."""
    keep_best: str | None = None
    """Metric of a validation, such as `val-core/<source>/acc/mean@1`: the checkpoint with its
    largest value so far stays as `best_global_step_N`, whatever `trainer.max_actor_ckpt_to_keep`
    is. null keeps none."""
    token_classes: TokenClass | tuple[TokenClass, ...] | None = None
    """Tokens of an answer that train, one or a list: `think` (up to `</think>`), `action` (the
    tool calls, or an answer without thoughts where there are no tools), `format` (the rest); null:
    all that was sampled. Concerns attempts and their teachers, `distill` and `imitate`."""
    env: NamedOptions = field(default_factory=lambda: NamedOptions("binary_matrix"))
    """`rltf.env.name`, and the environment's own options beside it."""
    episode: EpisodeConfig = field(default_factory=EpisodeConfig)
    episode_log: EpisodeLogConfig = field(default_factory=EpisodeLogConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    feedback: FeedbackConfig = field(default_factory=FeedbackConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    attempt: AttemptConfig = field(default_factory=AttemptConfig)
    distill: DistillConfig = field(default_factory=DistillConfig)
    feedback_modeling: FeedbackModelingConfig = field(default_factory=FeedbackModelingConfig)
    imitate: ImitateConfig = field(default_factory=ImitateConfig)
    critique: CritiqueConfig = field(default_factory=CritiqueConfig)
    logit_distill: LogitDistillConfig = field(default_factory=LogitDistillConfig)
    teacher: TeacherConfig = field(default_factory=TeacherConfig)
    mentions: MentionsConfig = field(default_factory=MentionsConfig)
    objectives: Mapping[str, NamedOptions] = field(default_factory=dict)
    """Your own objectives, each `name: ./mine.py:Class`, with its settings in the block
    `rltf.<name>` (docs/methods.md)."""

    def __post_init__(self) -> None:
        for finding in refused(self):
            raise ConfigError(finding)

    @property
    def chosen_classes(self) -> tuple[TokenClass, ...] | None:
        """`token_classes` as a tuple."""
        chosen = self.token_classes
        return (chosen,) if isinstance(chosen, str) else chosen

    @property
    def teaches(self) -> bool:
        """True if attempts have teachers."""
        return self.logit_distill.enabled

    @property
    def scales_advantages(self) -> bool:
        """True if the teacher's gate changes advantages, and the teacher trains nothing itself."""
        return self.teaches and self.teacher.gate.name in SCALING_GATES

    @property
    def asks_at_end(self) -> bool:
        """True if a last turn gets feedback: the teacher reads it, or the turn is the
        only one and its feedback is predicted.
        """
        alone = self.episode.horizon == 1
        taught = self.teaches and "feedback" in self.teacher.sources
        at_end = alone or self.teacher.turns != "first"
        return (taught and at_end) or (alone and self.feedback_modeling.makes_rows)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> RLTFConfig:
        """Build from the resolved `rltf:` block of a verl config.

        Raises:
            ConfigError: an unknown key, a value out of range, or a combination that cannot work.
        """
        values, hints = dict(mapping), type_hints(cls)
        # Apart from the other blocks: these hold a component's own options, whose names are not
        # known here.
        values["env"] = named_options("env", block("env", values.get("env")), "name")
        values["objectives"] = own_objectives(values, [f.name for f in fields(cls)])
        values["feedback"] = feedback_config(block("feedback", values.get("feedback")))
        for f in fields(cls):
            kind = hints[f.name]
            if is_dataclass(kind) and f.name not in ("env", "feedback"):
                values[f.name] = build(kind, f"{f.name}.", block(f.name, values.get(f.name)))  # type: ignore[arg-type]
        config: RLTFConfig = build(cls, "", values)
        return config
