"""Loaded into every process of a run through VERL_USE_EXTERNAL_MODULES: a trainer that saves each
batch with the teacher's columns as the loss will see them. The provider `flaky` comes with the
other recorder."""

import os
from pathlib import Path

import recorder  # noqa: F401
import wrapt

COLUMNS = ("prompts", "responses", "rltf_role", "rltf_turn", "advantages", "old_log_probs")
TEACHER = (
    "rltf_teachers",
    *(f"rltf_teacher_{name}" for name in ("ids", "log_probs", "places", "said", "weights")),
)


@wrapt.when_imported("verl.trainer.ppo.v1")
def _register(v1) -> None:
    import torch
    import transfer_queue as tq

    from rltf_verl.adapters.training.trainer import RLTFTrainerSync

    @v1.register_trainer("rltf_logit_recorded")
    class LogitRecordedTrainer(RLTFTrainerSync):
        def _compute_advantage(self, batch, metrics):
            batch = super()._compute_advantage(batch, metrics)
            names = [*COLUMNS, *(TEACHER if "rltf_logit_weight" in batch.extra_info else ())]
            data = tq.kv_batch_get(
                keys=batch.keys, partition_id=batch.partition_id, select_fields=names
            )
            names = [name for name in names if name in data]
            record = {
                "keys": list(batch.keys),
                "padding": [bool(tag.get("is_padding")) for tag in batch.tags],
                "rows": [
                    {name: data[name][i].clone() for name in names} for i in range(len(batch))
                ],
                "settings": {k: v for k, v in batch.extra_info.items() if k.startswith("rltf_")},
            }
            folder = Path(os.environ["RLTF_RECORD_DIR"])
            folder.mkdir(parents=True, exist_ok=True)
            torch.save(record, folder / f"{self.global_steps}.pt")
            return batch
