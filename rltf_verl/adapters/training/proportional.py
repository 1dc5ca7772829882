"""A worker whose optimiser steps are in proportion to their evidence (`algos.evidence`)."""

from __future__ import annotations

from math import sqrt
from typing import Any

from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.workers.engine_workers import TrainingWorker

EVIDENCE = "rltf_evidence"
"""Key of the batch's constant; see `algos.evidence`."""


class ProportionalWorker(TrainingWorker):
    """verl's training worker, which multiplies the rate of an update by √evidence where the batch
    has one.
    """

    def reset(self) -> None:
        """verl's; every engine of verl has `optimizer_step`, and an optimiser with groups."""
        super().reset()
        self._evidence = 1.0
        self._step = self.engine.optimizer_step
        self.engine.optimizer_step = self._scaled_step

    def train_batch(self, data: TensorDict) -> Any:
        """One update."""
        self._evidence = float(tu.pop(data, key=EVIDENCE, default=1.0))
        return super().train_batch(data)

    def _scaled_step(self) -> float:
        groups = self.engine.optimizer.param_groups
        rates = [group["lr"] for group in groups]
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate * sqrt(self._evidence)
        try:
            return self._step()
        finally:  # the scheduler goes on from the rate itself
            for group, rate in zip(groups, rates, strict=True):
                group["lr"] = rate
