"""A second set of weights in the workers, for a teacher that is not the current policy: the first
weights, or their moving average (`rltf.teacher.kind`).

The teacher's call swaps them in and out of the actor's own engine. So it is the same call as for a
live teacher, split and packed in the same way; with LoRA it is the adapter that is averaged; and
verl's reference worker stays free for a KL loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import ray
import torch
from tensordict import TensorDict
from torch.distributed.tensor import DTensor
from verl.trainer.ppo.utils import Role
from verl.utils import tensordict_utils as tu
from verl.workers.engine.fsdp.transformer_impl import FSDPEngine
from verl.workers.engine_workers import ActorRolloutRefWorker

from rltf_verl.adapters.compat import reshard
from rltf_verl.adapters.training.measured import MeasuringWorker

KEPT_WEIGHTS = "rltf_kept_weights"
"""Key of a batch that is to be computed with the kept weights."""


class KeptWeights:
    """This rank's shards of all weights that are trained, as they are when it is made.

    Args:
        module: the policy, in FSDP of either version or in none.
        share: of the policy, in each step of the average; 0: nothing moves, nothing is saved.
    """

    def __init__(self, module: torch.nn.Module, share: float) -> None:
        self.share = share
        # An average in bfloat16 would lose steps below 1/256 of a weight.
        kind = torch.float32 if share else None
        # `copy`: `to` hands back the weight itself where nothing is to be converted.
        self.values = {
            name: shard.to(kind or shard.dtype, copy=True) for name, shard in _shards(module)
        }

    def follow(self, module: torch.nn.Module) -> None:
        """θ̄ ← (1 − share) θ̄ + share θ."""
        for name, shard in _shards(module):
            kept = self.values[name]
            kept.lerp_(shard.to(kept.device, kept.dtype), self.share)

    @contextmanager
    def in_place(self, module: torch.nn.Module) -> Iterator[None]:
        """The policy has the kept weights within, and its own again afterwards, bit by bit."""
        own = {name: shard.clone() for name, shard in _shards(module)}
        try:
            _write(module, self.values)
            yield
        finally:
            _write(module, own)

    def save(self, path: Path) -> None:
        """Write an average; weights that never move are those of the model's own files."""
        if self.share:
            torch.save(self.values, path)

    def load(self, path: Path) -> None:
        """Read an average back.

        Raises:
            FileNotFoundError: the checkpoint has none.
        """
        if not self.share:
            return
        if not path.exists():
            raise FileNotFoundError(
                f"{path}: the checkpoint holds no average of the weights. rltf.teacher.kind=ema"
                " resumes a checkpoint of the same kind, on as many ranks"
            )
        saved = torch.load(path, map_location="cpu", weights_only=True)
        for name, kept in self.values.items():
            kept.copy_(saved[name])


def _shards(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, this rank's part) of each weight that is trained; what is written there stays."""
    reshard(module)
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            data = parameter.detach()
            yield name, data.to_local() if isinstance(data, DTensor) else data


def _write(module: torch.nn.Module, values: dict[str, torch.Tensor]) -> None:
    for name, shard in _shards(module):
        shard.copy_(values[name])


class KeepingWorker(MeasuringWorker):
    """A training worker with a second set of weights."""

    engine: FSDPEngine

    def __init__(self, *args: Any, share: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._share = share

    def reset(self) -> None:
        """The model as its files have it: what the teacher starts from."""
        super().reset()
        # verl's context brings offloaded weights to the device.
        with self.engine.eval_mode():
            self.kept = KeptWeights(self.engine.module, self._share)

    def train_mini_batch(self, data: TensorDict) -> TensorDict:
        """All updates of a batch, then one step of the average, as in SDPO."""
        output = super().train_mini_batch(data)
        if self._share:
            with self.engine.eval_mode():
                self.kept.follow(self.engine.module)
        return output

    def infer_batch(self, data: TensorDict) -> TensorDict:
        """With the kept weights, where the batch asks for them."""
        if not tu.pop(data, key=KEPT_WEIGHTS, default=False):
            return super().infer_batch(data)
        with self.engine.eval_mode(), self.kept.in_place(self.engine.module):
            # The same context is entered again inside; there it would offload the weights before
            # `in_place` writes them back.
            tu.assign_non_tensor(data, disable_auto_offload=True)
            return super().infer_batch(data)

    def save_checkpoint(self, local_path: str, *args: Any, **kwargs: Any) -> Any:
        """verl's files, and the average."""
        saved = super().save_checkpoint(local_path, *args, **kwargs)
        self.kept.save(self._file(local_path))
        return saved

    def load_checkpoint(self, local_path: str, *args: Any, **kwargs: Any) -> Any:
        """verl's files, and the average."""
        loaded = super().load_checkpoint(local_path, *args, **kwargs)
        self.kept.load(self._file(local_path))
        return loaded

    def _file(self, folder: str) -> Path:
        return Path(folder) / f"teacher_world_size_{self.world_size}_rank_{self.rank}.pt"


def use_our_workers(classes: dict[Role, Any], share: float | None) -> None:
    """Give the actor our training worker; in place.

    Args:
        classes: verl's role -> Ray class, before the workers start.
        share: see `KeptWeights`; None keeps no weights.
    """
    make = MeasuringWorker if share is None else partial(KeepingWorker, share=share)
    for role in (Role.Actor, Role.ActorRollout, Role.ActorRolloutRef):
        if role in classes:
            # verl builds its actor by the class attribute `actor_worker_cls`.
            worker: type[ActorRolloutRefWorker] = classes[role].__ray_actor_class__
            ours = {"actor_worker_cls": staticmethod(make)}
            classes[role] = ray.remote(type(worker.__name__, (worker,), ours))
