"""A worker that measures each optimiser step: the length of it, and the size of its gradient."""

from __future__ import annotations

from math import isfinite, sqrt
from typing import Any

import torch
from tensordict import TensorDict
from torch.distributed.tensor import DTensor
from verl.utils import tensordict_utils as tu
from verl.workers.engine_workers import TrainingWorker

from rltf_verl.adapters.training.outcomes import fetch_outcomes

SAMPLED_PART = 32
"""The change of a weight matrix is measured on the first 1/32 of it: a copy of all weights would
cost the memory of a second model."""

RUNNING_SHARE = 0.1
"""Weight of an update in the running mean of gradient norms."""


class MeasuringWorker(TrainingWorker):
    """verl's training worker, which reports how far the weights moved (`rltf/update/norm`), and the
    gradient's norm over its running mean (`rltf/update/grad_norm_ratio`): Adam makes the same step
    of a large gradient and of a small one.
    """

    engine: Any  # verl's base class declares no optimiser

    def reset(self) -> None:
        """verl's; each of its engines has `optimizer_step`."""
        super().reset()
        self._moved, self._mean_norm, self._norm_ratio = 0.0, 0.0, 1.0
        self._step = self.engine.optimizer_step
        self.engine.optimizer_step = self._measured_step

    def train_mini_batch(self, data: TensorDict) -> Any:
        """All updates of a batch. The outcomes are fetched once for all epochs, not by the loss."""
        fetch_outcomes(data)
        return super().train_mini_batch(data)

    def train_batch(self, data: TensorDict) -> Any:
        """One update."""
        output = super().train_batch(data)
        if output is not None:
            metrics = tu.get(output, "metrics")
            metrics["rltf/update/norm"] = self._moved
            metrics["rltf/update/grad_norm_ratio"] = self._norm_ratio
        return output

    def _measured_step(self) -> float:
        groups = self.engine.optimizer.param_groups
        weights = [weight for group in groups for weight in group["params"]]
        before = [_part(weight).clone() for weight in weights]
        norm: float = self._step()
        # Mean square of the part · size of the whole: an estimate of the weight's own sum.
        squares = (
            (_part(weight) - old).square().mean() * weight.numel()
            for weight, old in zip(weights, before, strict=True)
            if len(old)
        )
        self._moved = sqrt(float(sum(squares)))
        self._compare(float(norm))
        return norm

    def _compare(self, norm: float) -> None:
        self._norm_ratio = norm / self._mean_norm if self._mean_norm else 1.0
        if isfinite(norm):  # else verl leaves the update out
            # The first norm is the mean itself.
            share = RUNNING_SHARE if self._mean_norm else 1.0
            self._mean_norm += (norm - self._mean_norm) * share


def _part(weight: torch.Tensor) -> torch.Tensor:
    """The first 1/32 of this rank's shard, at least one value where it has any."""
    data = weight.detach()
    # A shard may be empty; −(−n // 32) rounds up, so that a small one keeps a value.
    shard = (data.to_local() if isinstance(data, DTensor) else data).flatten()
    return shard[: -(-len(shard) // SAMPLED_PART)]
