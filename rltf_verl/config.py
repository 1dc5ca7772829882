"""The top-level `rltf:` block as frozen dataclasses. Everything is checked here, before any worker starts."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

OnError = Literal["stop_session", "correctness", "raise"]


class ConfigError(ValueError):
    """A setting that cannot work. The message names the key, the value and the fix."""


def _require(ok: bool, key: str, value: object, fix: str) -> None:
    if not ok:
        raise ConfigError(f"rltf.{key}={value}: {fix}")


def _require_choice(key: str, value: object, choices: tuple[str, ...]) -> None:
    _require(value in choices, key, value, f"must be one of {', '.join(choices)}")


@dataclass(frozen=True)
class NamedOptions:
    """A component chosen by name, with the options that its constructor takes."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EpisodeConfig:
    """How a session is played."""

    horizon: int = 2
    """Answer turns per session, at least 1; 1 is single-turn GRPO."""
    stop_when_solved_train: bool = True
    """End a training session after its first correct answer."""
    stop_when_solved_val: bool = False
    """End a validation session after its first correct answer; off: every turn's accuracy is over all problems."""
    revise: str = "guide"
    """Template `prompts/revise/<name>.j2` of the prompts of turns 2 and later."""

    def __post_init__(self) -> None:
        _require(self.horizon >= 1, "episode.horizon", self.horizon, "must be at least 1")


@dataclass(frozen=True)
class FeedbackConfig:
    """Who says what is wrong, and what happens when nobody can."""

    provider: NamedOptions = NamedOptions("verifier")
    """`rltf.feedback.provider`, and the provider's own options beside it."""
    on_error: OnError = "stop_session"
    """No feedback to be had: end the session (its turns still train), fall back to the fixed sentence, or fail it."""

    def __post_init__(self) -> None:
        _require_choice("feedback.on_error", self.on_error, get_args(OnError))


@dataclass(frozen=True)
class DistillConfig:
    """RLTF-SD: an extra row (first prompt, last answer)."""

    weight: float | tuple[float, float] = 0.0
    """Coefficient of the distillation rows, or [start, end] of a linear ramp; 0 switches the objective off."""
    start_step: int = 0
    """Training step (from 0) at which the objective starts; the ramp runs from there."""
    ramp_steps: int | None = None
    """Step at which the ramp has ended; null is the run's total number of steps."""
    baseline: Literal["first_turn", "second_turn"] = "first_turn"
    """Subtracted from the last answer's reward: the group's mean first-turn reward (paper) or that of its turn."""
    reference: Literal["current", "old", "sampler"] = "current"
    """π_ref of the ratio: `current` is the paper's AWR (ratio 1), `sampler` the policy that was given the feedback."""
    loss: Literal["importance_sampling", "ppo", "cispo"] = "importance_sampling"
    """Token loss. The clipped ones need a ratio, hence reference `old` or `sampler`."""
    clip_low: float = 0.8
    """Absolute lower bound of the ratio."""
    clip_high: float = 1.2
    """Absolute upper bound of the ratio."""
    log_prob_floor: float | None = -5.0
    """Tokens whose log π_old(y|x_0) is below it (nats) are not imitated; null keeps every token."""

    def __post_init__(self) -> None:
        for name in ("baseline", "reference", "loss"):
            _require_choice(f"distill.{name}", getattr(self, name), get_args(_literal_of(DistillConfig, name)))
        _require(
            0 < self.clip_low <= 1 <= self.clip_high,
            "distill.clip_low",
            self.clip_low,
            f"need 0 < clip_low <= 1 <= clip_high, clip_high is {self.clip_high}",
        )
        _require(
            self.reference != "current" or self.loss == "importance_sampling",
            "distill.loss",
            self.loss,
            "clips a ratio that is always 1 with rltf.distill.reference=current; set reference to old or sampler",
        )
        _require(self.start_step >= 0, "distill.start_step", self.start_step, "must not be negative")
        _require(
            self.ramp_steps is None or self.ramp_steps > self.start_step,
            "distill.ramp_steps",
            self.ramp_steps,
            f"the ramp ends before it starts; must be above rltf.distill.start_step={self.start_step}, or null",
        )
        ends = self.weight if isinstance(self.weight, tuple) else (self.weight,)
        _require(all(w >= 0 for w in ends), "distill.weight", self.weight, "must not be negative; 0 switches it off")
        _require(
            self.log_prob_floor is None or self.log_prob_floor <= 0,
            "distill.log_prob_floor",
            self.log_prob_floor,
            "is a log-probability, so a positive one would mask every token; use a negative number, or null",
        )

    @property
    def enabled(self) -> bool:
        """Whether distillation rows are made at all."""
        return self.weight != 0.0

    @property
    def needs_sampler_log_probs(self) -> bool:
        """Whether the ratio is taken to the sampler's own distribution."""
        return self.enabled and self.reference == "sampler"


@dataclass(frozen=True)
class RLTFConfig:
    """The whole `rltf:` block."""

    seed: int = 0
    """Base of every sampling seed; the others are the step, the problem's index, the session and the turn."""
    gamma: float = 0.1
    """Discount per turn of the attempt returns, in [0, 1]. 0.1 in every script of the release."""
    format_coef: float = 0.1
    """Reward lost when no answer could be extracted or the answer was cut off at the token limit."""
    updates_per_batch: int = 1
    """Optimiser updates per training batch, however many rows its sessions produced."""
    poll_interval_s: float = 0.05
    """Seconds between looks at the rollout's progress; verl's own constant is 2.0."""
    episode_log_dir: str | None = None
    """Folder for one JSON line per session; null writes none."""
    env: NamedOptions = NamedOptions("binary_matrix")
    """`rltf.env.name`, and the environment's own options beside it."""
    episode: EpisodeConfig = field(default_factory=EpisodeConfig)
    feedback: FeedbackConfig = field(default_factory=FeedbackConfig)
    distill: DistillConfig = field(default_factory=DistillConfig)

    def __post_init__(self) -> None:
        _require(0 <= self.gamma <= 1, "gamma", self.gamma, "must be in [0, 1]")
        _require(self.updates_per_batch >= 1, "updates_per_batch", self.updates_per_batch, "must be at least 1")
        _require(self.poll_interval_s > 0, "poll_interval_s", self.poll_interval_s, "must be positive (seconds)")
        _require(
            not self.distill.enabled or self.episode.horizon > 1,
            "episode.horizon",
            self.episode.horizon,
            "distillation needs a second turn; set it to 2 or more, or rltf.distill.weight=0",
        )

    @classmethod
    def from_mapping(cls, block: Mapping[str, Any]) -> RLTFConfig:
        """Build from the resolved `rltf:` block of a verl config.

        Raises:
            ConfigError: an unknown key, a value out of range, or a combination that cannot work.
        """
        values = dict(block)
        values["env"] = _named_options("env", _block("env", values.get("env")), "name")
        values["feedback"] = _feedback(_block("feedback", values.get("feedback")))
        values["episode"] = _build(EpisodeConfig, "episode.", _block("episode", values.get("episode")))
        distill = dict(_block("distill", values.get("distill")))
        if isinstance(distill.get("weight"), list):
            distill["weight"] = tuple(distill["weight"])
        values["distill"] = _build(DistillConfig, "distill.", distill)
        config: RLTFConfig = _build(cls, "", values)
        return config


def _literal_of(cls: type, name: str) -> Any:
    return get_type_hints(cls)[name]


def _build(cls: type, prefix: str, values: Mapping[str, Any]) -> Any:
    known = [f.name for f in dataclasses.fields(cls)]
    for key in values:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean rltf.{prefix}{close[0]}?" if close else f"known keys: {', '.join(known)}"
            raise ConfigError(f"rltf.{prefix}{key}={values[key]}: unknown key; {hint}")
    hints = get_type_hints(cls)
    for key, value in values.items():
        _check_type(prefix + key, value, hints[key])
    return cls(**values)


def _block(key: str, value: Any) -> Mapping[str, Any]:
    """A nested block; an empty one when it is null."""
    _require(value is None or isinstance(value, Mapping), key, value, "is a block of keys, not a value")
    return value or {}


def _check_type(key: str, value: object, hint: Any) -> None:
    """Hold a scalar, or a union of scalars, against its field's annotation. Other kinds are checked elsewhere."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    wanted = " or ".join(_KINDS.get(kind, "[start, end], two numbers") for kind in kinds)
    shown = repr(value) if isinstance(value, str | list) else value
    _require(any(_fits(value, kind) for kind in kinds), key, shown, f"must be {wanted}")


def _fits(value: object, kind: Any) -> bool:
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and len(value) == 2 and all(_fits(v, float) for v in value)
    if not isinstance(kind, type):
        return True
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


_KINDS: dict[Any, str] = {
    int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null",
}  # fmt: skip


def _named_options(section: str, block: Mapping[str, Any], name_key: str) -> NamedOptions:
    _require(bool(block.get(name_key)), f"{section}.{name_key}", block.get(name_key), "must name one")
    return NamedOptions(str(block[name_key]), {k: v for k, v in block.items() if k != name_key})


def _feedback(block: Mapping[str, Any]) -> FeedbackConfig:
    rest = {k: v for k, v in block.items() if k != "on_error"}
    provider = _named_options("feedback", rest, "provider")
    return FeedbackConfig(provider, block.get("on_error", "stop_session"))
