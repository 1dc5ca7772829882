"""RLTF-SD, a later answer as if it had been given to the first prompt: `rltf.distill`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import torch

from rltf_verl.algos.distill import distill_advantages, floor_mask, soft_floor
from rltf_verl.algos.episodes import EpisodeBatch
from rltf_verl.algos.returns import discounted_returns
from rltf_verl.algos.role_loss import distill_loss
from rltf_verl.algos.targets import RowBatch, RowTargets, of_turns
from rltf_verl.config import DistillConfig, RLTFConfig
from rltf_verl.config.objectives import Baseline, is_own
from rltf_verl.episode.rows import first_prompt_row
from rltf_verl.feedback.base import FeedbackProvider
from rltf_verl.findings import Finding
from rltf_verl.objectives.base import Objective
from rltf_verl.objectives.user_code import (
    dry_run,
    example_episodes,
    naming_errors,
    own_function,
    turn_numbers,
)
from rltf_verl.policy import Policy
from rltf_verl.types import Episode, Message, Role, Row

logger = logging.getLogger(__name__)


class Distill(Objective[DistillConfig]):
    """(x_0, y_K): the advantage from rewards before shaping, as a first prompt knows no turn
    before it.
    """

    Settings, has_answers = DistillConfig, True
    SHARE, STEPS, EVERY = 0.1, 5, 50
    """Conditions of the warning in `on_step_end`."""

    def __init__(self, name: str, role: int, settings: DistillConfig, config: RLTFConfig) -> None:
        super().__init__(name, role, settings, config)
        self._blocked = 0

    @property
    def compares_siblings(self) -> bool:
        """True if the baseline does."""
        return self.settings.baseline in ("second_turn", "second_turn_padded", "leave_one_out")

    async def rows(
        self, policy: Policy, messages: Sequence[Message], episode: Episode
    ) -> list[Row]:
        """See `distill_rows`."""
        return distill_rows(episode)

    def turn_weights(self, episodes: EpisodeBatch) -> torch.Tensor:
        """[S, M] a of each turn (`algos.distill.distill_advantages`)."""
        # R(x_0, y) alone: what an answer is worth to the first prompt
        unshaped = replace(episodes, rewards=episodes.graded)
        returns = discounted_returns(unshaped, self.config.gamma)
        by_std = self.config.attempt.norm_by_std
        if is_own(self.settings.baseline):
            return unshaped.rewards - self._own_baseline(unshaped)
        baseline = cast(Baseline, self.settings.baseline)
        return distill_advantages(returns, unshaped, baseline, by_std)

    def _own_baseline(self, episodes: EpisodeBatch) -> torch.Tensor:
        """[S, M], from a user's function of the episodes with rewards before shaping."""
        key, where = "rltf.distill.baseline", self.settings.baseline
        function, place = own_function(key, where), f"{key}={where}"
        with naming_errors(place, function):
            values = function(episodes)
        return turn_numbers(place, values, episodes)

    def refusals(
        self, setting: Callable[[str], Any], provider: FeedbackProvider
    ) -> Iterator[Finding]:
        """An own baseline must be a function that has a number for each turn."""
        if is_own(self.settings.baseline):
            episodes = example_episodes(
                self.config, int(setting("actor_rollout_ref.rollout.n") or 2)
            )
            yield from dry_run(lambda: self._own_baseline(episodes))

    def warnings(self, setting: Callable[[str], Any]) -> Iterator[Finding]:
        """A loss without a ratio has no trust region."""
        key = "actor_rollout_ref.actor.ppo_epochs"
        epochs, unheld = setting(key), self.enabled and self.settings.reference == "current"
        if unheld and epochs > 1:
            yield Finding(
                "rltf.distill.reference",
                "current",
                "distillation rows have no ratio, so every one of the"
                f" {key}={epochs} epochs pushes them as far again",
                "set it to old with rltf.distill.loss=ppo, or lower rltf.distill.weight",
                "warning",
            )

    def apply_floor(
        self, weights: torch.Tensor, old_log_probs: torch.Tensor, tokens: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        """By the log-prob floor, hard or soft; which tokens lie below it."""
        floor = self.settings.log_prob_floor
        if floor is None:
            return None
        below = tokens & ~floor_mask(old_log_probs, floor)
        if self.settings.floor == "hard":
            return weights.masked_fill(below, 0.0), below
        return torch.where(below, weights * soft_floor(old_log_probs, floor), weights), below

    def reference(self, batch: RowBatch, ref_log_probs: torch.Tensor) -> torch.Tensor:
        """The sampler, which was given the feedback, if it is the reference."""
        if self.settings.reference != "sampler":
            return ref_log_probs
        return torch.where(batch.tokens(self.role), batch.sampler_log_probs, ref_log_probs)

    def loss(
        self,
        log_prob: torch.Tensor,
        ref_log_probs: torch.Tensor,
        weights: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """See `algos.role_loss.distill_loss`."""
        return distill_loss(log_prob, ref_log_probs, weights, mask, self.settings)

    def metrics(
        self, batch: RowBatch, targets: RowTargets, place: torch.Tensor
    ) -> dict[str, float]:
        """Share below the floor, distance of the answers from the first prompt's policy, and shares
        of the pulls to answers that are wrong or graded between 0 and 1.
        """
        gap = batch.sampler_log_probs[place] - batch.old_log_probs[place]
        below = targets.floor_masked[place].float()
        right = of_turns(batch, batch.episodes.correct)[place]
        kept_out = {"floor_masked_right": float(below[right].mean())} if bool(right.any()) else {}
        pulls = targets.advantages[place].clamp(min=0).double()
        whole = float(pulls.sum())
        graded = of_turns(batch, batch.episodes.graded)[place]
        # A right answer that was cut off, or lacks its format, is graded 1 − f (`episode.reward`):
        # no partial answer.
        cut_off = right & torch.isclose(graded, torch.tensor(1.0 - self.config.reward.format_coef))
        partly = (graded > 0) & (graded < 1) & ~cut_off
        shares = {"wrong_share": ~right} | ({"partial_share": partly} if bool(partly.any()) else {})
        return {
            "floor_masked": float(below.mean()),
            **kept_out,
            **{name: float(pulls[at].sum()) / whole for name, at in shares.items() if whole > 0},
            "log_prob_gap": float(gap.float().mean()),
            # −gap is the log ratio of the first prompt's policy to the sampler, which read the
            # feedback.
            "ess": _effective_share(-gap),
        }

    def on_step_end(self, metrics: Mapping[str, float]) -> None:
        """Warn when the log-prob floor keeps out what is to be learnt: `floor_masked_right` above
        `SHARE` and no first answer right, for `STEPS` steps; again after `EVERY`.

        Distillation then continues silently while nothing comes of it: the tokens that make a
        second answer right are those that the first prompt makes unlikely.
        """
        share = metrics.get("rltf/distill/floor_masked_right", 0.0)
        blocked = (
            self.settings.floor == "hard"
            and share > self.SHARE
            and metrics.get("rltf/turn_1/acc") == 0.0
        )
        self._blocked = self._blocked + 1 if blocked else 0
        # Steps 5, 55, 105, … in a row.
        if self._blocked % self.EVERY == self.STEPS:
            logger.warning(
                "rltf.distill.log_prob_floor=%s keeps out %.0f %% of the tokens of right second"
                " answers, and no first answer has been right for %d steps: what is to be learnt"
                " may lie below it. Set rltf.distill.floor=soft, or the floor lower or to null",
                self.settings.log_prob_floor,
                100 * share,
                self._blocked,
            )


def distill_rows(episode: Episode) -> list[Row]:
    """(x_0, y_K) of an episode with two or more turns; an ungraded answer is left out, and so is a
    first attempt, which follows the first prompt already.
    """
    last = len(episode.turns) - 1
    if last == 0 or episode.turns[last].stop == "ungraded":
        return []
    return [first_prompt_row(episode, last, Role.DISTILL)]


def _effective_share(log_ratios: torch.Tensor) -> float:
    """Kish's effective sample size over the sample size, (Σ w)² / (n Σ w²) with w = exp(log ratio),
    in (0, 1].
    """
    weights = torch.exp((log_ratios - log_ratios.max()).double())
    return float(weights.sum() ** 2 / (weights.numel() * (weights**2).sum()))
