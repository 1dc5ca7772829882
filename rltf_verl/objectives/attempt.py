"""Reinforcement on the turns as they were played: `rltf.attempt`."""

from __future__ import annotations

from typing import Any

import torch

from rltf_verl.algos.advantages import turn_advantages
from rltf_verl.algos.returns import discounted_returns
from rltf_verl.algos.sessions import Sessions
from rltf_verl.algos.targets import RowBatch, RowTargets
from rltf_verl.config import AttemptConfig
from rltf_verl.objectives.base import Now, Objective


class Played(Objective[Any]):
    """What has the advantage of a turn as it was played."""

    sampled = True

    @property
    def compares_siblings(self) -> bool:
        """The baseline is the group's mean at the same turn."""
        compared = self.config.attempt.estimator in ("group_mean", "leave_one_out", "ragged")
        return compared and self.config.episode.branch_turn is None

    def turn_weights(self, sessions: Sessions) -> torch.Tensor:
        """[S, M] advantage of each turn, by `rltf.gamma` and the estimator of `rltf.attempt`."""
        returns = discounted_returns(sessions, self.config.gamma)
        own = self.config.attempt
        return turn_advantages(returns, sessions, own.estimator, own.norm_by_std)


class Attempt(Played):
    """The turns' own tokens. Their rows are there anyway (`episode.rows.attempt_rows`)."""

    Settings, enabled = AttemptConfig, True

    def weight(self, now: Now) -> float:
        """It has no schedule."""
        return self.config.attempt.weight

    def metrics(
        self, batch: RowBatch, targets: RowTargets, place: torch.Tensor
    ) -> dict[str, float]:
        """How far sampler and actor differ at most."""
        gap = batch.sampler_log_probs[place] - batch.old_log_probs[place]
        return {"sampler_log_prob_diff/max": float(gap.abs().max())}
