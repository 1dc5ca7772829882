"""The block `rltf.feedback`: who says what is wrong, and what is held back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from rltf_verl.config.reading import (
    NamedOptions,
    block,
    build,
    keys_in,
    named_options,
)
from rltf_verl.kinds import Within

OnError = Literal["stop_session", "correctness", "raise", "wait"]

Ask = Literal["always", "group_failed"]
"""Attempts that get feedback: all that another turn may follow, or those of groups without a right
one yet.
"""


@dataclass(frozen=True)
class GuardConfig:
    """Treatment of feedback that gives the answer away."""

    action: Literal["drop", "redact", "regenerate", "warn", "none"] = "drop"
    """`drop`: no feedback, so `on_error` decides. `redact`: cut out, or drop what still leaks.
    `regenerate`: ask again, up to twice, or drop. `warn`: pass and count. `none`: do not look."""
    judge: Mapping[str, Any] | None = None
    """A language model that reads what the rules let pass (`endpoint`, `limits`, `price`,
    `cache_dir`, as of the provider `judge`); null: rules only."""


@dataclass(frozen=True)
class FeedbackConfig:
    """The feedback provider, and what happens when it fails."""

    provider: NamedOptions = field(default_factory=lambda: NamedOptions("verifier"))
    """`rltf.feedback.provider`, and the provider's own options beside it."""
    on_error: OnError = "stop_session"
    """No feedback to be had: end the episode (its turns still train), fall back to the fixed
    sentence, or fail it. `wait`: first wait for a judge that does not answer, for
    `limits.outage_s`, then end the episode.
    """
    stop_after: Annotated[int, Within(1)] | None = None
    """End the run, with a checkpoint, after so many steps in a row in which most feedback failed;
    null: never; with `on_error=wait` after 3, or after one that the judge was away for."""
    ask: Ask = "always"
    """`group_failed`: in training a turn k is followed by feedback only if no episode of the group
    has solved the problem by turn k; the others end there. Validation always asks."""
    guard: GuardConfig = field(default_factory=GuardConfig)
    acknowledge_leaks: bool = False
    """With `guard.action=none`: the provider may tell the answer, and that is meant."""

    @property
    def block(self) -> dict[str, Any]:
        """The provider and its options, as a block that holds another provider has them."""
        return {"provider": self.provider.name, **self.provider.options}

    def level_lists(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Every list of levels by turn, of the provider or of one inside it, with its key below
        `rltf.`.
        """
        for key, _, inner in keys_in("", {"feedback": self.block}):
            is_verifier = isinstance(inner, Mapping) and inner.get("provider") == "verifier"
            if is_verifier and isinstance(inner.get("level"), (list, tuple)):
                # Without the point that follows the empty block.
                yield f"{key[1:]}.level", inner["level"]


def feedback_config(values: Mapping[str, Any]) -> FeedbackConfig:
    """Read the block; what is no key of ours is an option of the provider.

    Raises:
        ConfigError: no provider, an unknown key of `guard`, a value out of range.
    """
    own = {f.name for f in fields(FeedbackConfig)} - {"provider"}
    provider = named_options(
        "feedback", {k: v for k, v in values.items() if k not in own}, "provider"
    )
    ours = {k: v for k, v in values.items() if k in own}
    guard = build(GuardConfig, "feedback.guard.", block("feedback.guard", ours.get("guard")))
    config: FeedbackConfig = build(
        FeedbackConfig, "feedback.", {**ours, "provider": provider, "guard": guard}
    )
    return config
