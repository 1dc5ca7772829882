"""Reinforcement on the turns as they were played: `rltf.attempt`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from rltf_verl.algos.advantages import turn_advantages
from rltf_verl.algos.episodes import EpisodeBatch
from rltf_verl.algos.returns import discounted_returns
from rltf_verl.algos.targets import RowBatch, RowTargets
from rltf_verl.config import AttemptConfig
from rltf_verl.findings import Finding
from rltf_verl.objectives.base import Now, Objective


class TurnObjective(Objective[Any]):
    """Objective with the advantage of a turn as it was played."""

    sampled = True

    @property
    def compares_siblings(self) -> bool:
        """The baseline is the group's mean at the same turn."""
        return self.config.attempt.estimator in ("group_mean", "leave_one_out", "ragged")

    def turn_weights(self, episodes: EpisodeBatch) -> torch.Tensor:
        """[S, M] advantage of each turn, by `rltf.gamma` and the estimator of `rltf.attempt`."""
        returns = discounted_returns(episodes, self.config.gamma)
        settings = self.config.attempt
        return turn_advantages(returns, episodes, settings.estimator, settings.norm_by_std)


class AttemptObjective(TurnObjective):
    """The turns' own tokens. Their rows are there anyway (`episode.rows.attempt_rows`)."""

    Settings, enabled = AttemptConfig, True

    def weight(self, now: Now) -> float:
        """It has no schedule."""
        return self.config.attempt.weight

    def warnings(self, setting: Callable[[str], Any]) -> Iterator[Finding]:
        """With one update per π_old there is nothing that a loss would have to hold near it."""
        epochs = "actor_rollout_ref.actor.ppo_epochs"
        sync = "trainer.v1.separate_async.parameter_sync_step"
        separate = str(setting("trainer.v1.trainer_mode")).endswith("separate_async")
        counts = {
            "rltf.updates_per_batch": self.config.updates_per_batch,
            epochs: setting(epochs),
            # verl's other trainers do not read it.
            sync: setting(sync) if separate else 1,
        }
        several = ", ".join(f"{key}={count}" for key, count in counts.items() if count > 1)
        mode = "actor_rollout_ref.actor.policy_loss.loss_mode"
        loss = setting(mode)
        if several and self.config.attempt.weight > 0 and loss == "importance_sampling":
            yield Finding(
                mode,
                loss,
                "nothing clips the ratio, which moves away from 1 when several updates share old"
                f" log-probs ({several})",
                "choose rltf_ppo, which has the same gradient while the ratio stays within its"
                " bounds",
                "warning",
            )

    def metrics(
        self, batch: RowBatch, targets: RowTargets, place: torch.Tensor
    ) -> dict[str, float]:
        """Largest difference of sampler and actor."""
        gap = batch.sampler_log_probs[place] - batch.old_log_probs[place]
        return {"sampler_log_prob_diff/max": float(gap.abs().max())}
