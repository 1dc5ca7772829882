"""Reinforcement on the turns as they were played: `rltf.attempt`."""

from __future__ import annotations

import torch

from rltf_verl.algos.advantages import turn_advantages
from rltf_verl.algos.returns import discounted_returns
from rltf_verl.algos.sessions import Sessions
from rltf_verl.algos.targets import RowBatch, RowTargets
from rltf_verl.config import AttemptConfig, RLTFConfig
from rltf_verl.objectives.base import Objective


class Attempt(Objective[AttemptConfig]):
    """The turns' own tokens. Their rows are there anyway (`episode.rows.attempt_rows`)."""

    Settings, sampled = AttemptConfig, True

    def turn_weights(self, sessions: Sessions) -> torch.Tensor:
        """[S, M] advantage of each turn."""
        return played_advantages(sessions, self.config)

    def metrics(
        self, batch: RowBatch, targets: RowTargets, place: torch.Tensor
    ) -> dict[str, float]:
        """How far sampler and actor differ at most."""
        gap = batch.sampler_log_probs[place] - batch.old_log_probs[place]
        return {"sampler_log_prob_diff/max": float(gap.abs().max())}


def played_advantages(sessions: Sessions, config: RLTFConfig) -> torch.Tensor:
    """[S, M] A of each turn, by `rltf.gamma` and the estimator of `rltf.attempt`."""
    returns = discounted_returns(sessions, config.gamma)
    own = config.attempt
    return turn_advantages(returns, sessions, own.estimator, own.norm_by_std)
