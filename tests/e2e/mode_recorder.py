"""Loaded into every process of a test run: each trainer mode once more, saving every batch that
makes an update, and a rollout as slow as it must be.

`trainer.v1.trainer_mode=rltf_recorded_<mode of verl>` writes what the loss will see to
RLTF_RECORD_DIR/<step>.<update>.pt.
"""

import os
import time
from pathlib import Path

import wrapt

COLUMNS = (
    "prompts",
    "responses",
    "advantages",
    "old_log_probs",
    "rltf_role",
    "rltf_sampler_log_probs",
)


class Recorded:
    """Mixin of a trainer."""

    def _update_actor(self, batch, metrics):
        import torch
        import transfer_queue as tq

        from rltf_verl.adapters.training.loss import DENOMINATOR

        data = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=list(COLUMNS)
        )
        rows = [{c: data[c][i].clone() for c in COLUMNS} for i in range(len(batch))]
        record = {"keys": list(batch.keys), "tags": list(batch.tags), "rows": rows}
        record["denominator"] = batch.extra_info[DENOMINATOR]
        folder = Path(os.environ["RLTF_RECORD_DIR"])
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(record, folder / f"{self.global_steps}.{self.local_trigger_step}.pt")
        return super()._update_actor(batch, metrics)


@wrapt.when_imported("verl.trainer.ppo.v1")
def _register(v1) -> None:
    from rltf_verl.adapters.training import trainer

    for base in (
        trainer.RLTFTrainerSync,
        trainer.RLTFTrainerColocateAsync,
        trainer.RLTFTrainerSeparateAsync,
    ):
        v1.register_trainer(f"rltf_recorded_{base.verl_mode}")(
            type(f"Recorded{base.__name__}", (Recorded, base), {})
        )


@wrapt.when_imported("rltf_verl.adapters.cpu.rollout.generation")
def _slow(generation) -> None:
    """RLTF_SECONDS_PER_TOKEN: the tiny policy answers faster than a trainer can interrupt it."""
    seconds = float(os.environ.get("RLTF_SECONDS_PER_TOKEN", 0))
    decode = generation.BatchGenerator._decode

    def slowly(self) -> None:
        time.sleep(seconds)
        decode(self)

    if seconds:
        generation.BatchGenerator._decode = slowly
