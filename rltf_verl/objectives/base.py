"""The objective interface, with the coefficient's schedule, which all objectives share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch

from rltf_verl.algos.episodes import EpisodeBatch
from rltf_verl.algos.role_loss import supervised_loss
from rltf_verl.algos.schedule import scheduled_weight
from rltf_verl.algos.targets import RowBatch, RowTargets
from rltf_verl.config import RLTFConfig
from rltf_verl.config.objectives import ScheduleConfig, Scheduled
from rltf_verl.feedback.base import FeedbackProvider
from rltf_verl.findings import Finding
from rltf_verl.policy import Policy
from rltf_verl.types import Episode, Message, Row

S = TypeVar("S", bound=Scheduled)
VERL_REDUCES = ("max", "min", "sum", "total")
"""verl takes a metric's maximum, minimum or sum where its name holds one of these, anywhere."""


class Now(NamedTuple):
    """Inputs of schedules."""

    step: int
    """0-based training step."""
    num_steps: int
    """Steps of the whole run, where ramps without an end of their own end."""
    resumed_at: int = 0
    """The step from which this process continues; read by ramps that restart on resume."""


@dataclass(frozen=True)
class Settings(Scheduled):
    """Settings of a user's objective, the block `rltf.<name>`: extend it with keys."""

    weight: float | tuple[float, float] = 1.0
    """Coefficient, or [start, end] of a linear ramp; 0 switches the objective off."""


class Objective(Generic[S]):
    """An objective: override what differs. It keeps no state that a step depends on.

    Args:
        name: its block in the config, `rltf.<name>`, and of its metrics, `rltf/<name>/…`.
        role: number of its tokens in a row's `role`; CONTEXT: it has none.
        settings: its block.
        config: the whole `rltf:` block.
    """

    Settings: ClassVar[type[Any]] = Settings
    """Frozen dataclass of the block."""
    sampled: ClassVar[bool] = False
    """The policy sampled its tokens under their row's own prompt: verl's registered policy loss
    trains them, and `loss` is not called. Attempts and critiques alone (`types.SAMPLED`)."""
    has_answers: ClassVar[bool] = False
    """Its rows hold answers, of which `rltf.token_classes` chooses the tokens that train."""

    def __init__(self, name: str, role: int, settings: S, config: RLTFConfig) -> None:
        self.name, self.role, self.settings, self.config = name, role, settings, config

    @property
    def compares_siblings(self) -> bool:
        """True if an attempt without a sibling in its group trains nothing."""
        return False

    @property
    def enabled(self) -> bool:
        """True if its rows are made."""
        return self.settings.enabled

    @property
    def has_effect(self) -> bool:
        """True if the configured episodes can have tokens for it."""
        return self.enabled

    def weight(self, now: Now) -> float:
        """The coefficient at a step."""
        return coefficient_at(self.settings.weight, self.config.schedule, now)

    async def rows(
        self, policy: Policy, messages: Sequence[Message], episode: Episode
    ) -> list[Row]:
        """The rows that it makes of a training episode.

        Args:
            policy: encodes text, and knows the text of tokens.
            messages: the first prompt.
            episode: what was played.
        """
        return []

    def with_roles(self, policy: Policy, row: Row, episode: Episode) -> Row:
        """The attempt row, with its role on context tokens that it trains."""
        return row

    def turn_weights(self, episodes: EpisodeBatch) -> torch.Tensor:
        """[S, M] weight, before the coefficient, of its tokens by the turn that they are credited
        with.
        """
        return torch.ones_like(episodes.rewards)

    def apply_floor(
        self, weights: torch.Tensor, old_log_probs: torch.Tensor, tokens: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        """The weights of a block of tokens, less where the policy finds its own too unlikely.

        Args:
            weights: of all tokens of the block.
            old_log_probs: log π_old of each.
            tokens: bool, its own.

        Returns:
            The weights, and the tokens below the floor; None without a floor.
        """
        return None

    def reference(self, batch: RowBatch, ref_log_probs: torch.Tensor) -> torch.Tensor:
        """The denominators of all ratios, log π_old so far, replaced on its own tokens."""
        return ref_log_probs

    def loss(
        self,
        log_prob: torch.Tensor,
        ref_log_probs: torch.Tensor,
        weights: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """Token sum of its loss; −w_t log π_θ by default.

        Outside the mask the log-probs belong to others and may be infinite: put
        `torch.where(mask, …)` before what you compute.

        Args:
            log_prob: log π_θ of all tokens.
            ref_log_probs: π_old, or what `reference` made of it.
            weights: coefficient times `turn_weights`, less below the floor. A token without weight
                must have no gradient: rows that have no other are not in the update.
            mask: bool, its own tokens.

        Returns:
            Scalar, 0 (with a graph) without such tokens.
        """
        return supervised_loss(log_prob, weights, mask)

    def trained_episodes(self, episodes: EpisodeBatch) -> torch.Tensor | None:
        """[S] bool: episodes that it trains, for an objective without tokens."""
        return None

    def refusals(
        self, setting: Callable[[str], Any], provider: FeedbackProvider
    ) -> Iterator[Finding]:
        """Conflicts with verl's settings or the provider; read before Ray starts, enabled
        or not.

        Args:
            setting: `a.b.c` -> value in the whole config; None where it is missing.
            provider: the feedback provider.
        """
        yield from ()

    def warnings(self, setting: Callable[[str], Any]) -> Iterator[Finding]:
        """Settings that work but may be a mistake; logged before Ray starts. `setting` as in
        `refusals`.
        """
        yield from ()

    def metrics(
        self, batch: RowBatch, targets: RowTargets, place: torch.Tensor
    ) -> dict[str, float]:
        """Extra metrics, keyed by suffix.

        Args:
            batch: the rows.
            targets: what they are trained on.
            place: [P] int64, its tokens; P > 0.
        """
        return {}

    def batch_metrics(self, batch: RowBatch) -> dict[str, float]:
        """Extra metrics of a batch, which may have none of its tokens; keyed as `metrics`."""
        return {}

    def on_step_end(self, metrics: Mapping[str, float]) -> None:
        """Called with each step's metrics, in the trainer; may log warnings."""


def coefficient_at(
    weight: float | tuple[float, float], schedule: ScheduleConfig, now: Now
) -> float:
    """A coefficient at a step."""
    start = max(schedule.start_step, now.resumed_at if schedule.restart_on_resume else 0)
    # The ramp's end counts from step 0 of the run, not from `start` (`algos.schedule`).
    end = schedule.ramp_steps or now.num_steps
    return scheduled_weight(weight, now.step, end, start)
