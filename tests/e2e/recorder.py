"""Loaded into every process of a test run through VERL_USE_EXTERNAL_MODULES, as a user's own
extension would be.

Adds a trainer that saves each batch, with a teacher's columns, as the loss will see it, and a
feedback provider that often has none, so that episodes are ragged.
"""

import os
from pathlib import Path

import wrapt

from rltf_verl import feedback
from rltf_verl.feedback.base import FeedbackRequest, FeedbackUnavailable
from rltf_verl.feedback.verifier import VerifierProvider
from rltf_verl.types import Feedback

COLUMNS = (
    "prompts",
    "responses",
    "response_mask",
    "rltf_role",
    "rltf_turn",
    "rm_scores",
    "advantages",
    "old_log_probs",
)
SAMPLER = "rltf_sampler_log_probs"
SPANS = "rltf_teachers"
TEACHER = tuple(f"rltf_teacher_{n}" for n in ("ids", "log_probs", "places", "said", "weights"))


class FlakyVerifier(VerifierProvider):
    """The verifier, but unavailable for every third problem, and on the second turn for another
    third.
    """

    def __init__(self) -> None:
        super().__init__(level="full")

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        index = request.problem.index
        if index % 3 == 0 or (index % 3 == 1 and len(request.turns) == 2):
            raise FeedbackUnavailable("flaky", f"not for problem {index}")
        return await super().feedback(request)


feedback._PROVIDERS["flaky"] = f"{__name__}:FlakyVerifier"


@wrapt.when_imported("verl.trainer.ppo.v1")
def _register(v1) -> None:
    import torch
    import transfer_queue as tq

    from rltf_verl.adapters.training.trainer import RLTFTrainerSync

    @v1.register_trainer("rltf_recorded")
    class RecordedTrainer(RLTFTrainerSync):
        def _compute_advantage(self, batch, metrics):
            batch = super()._compute_advantage(batch, metrics)
            names = [*COLUMNS, SAMPLER]
            names += [SPANS] * self.rltf.teaches
            if "rltf_logit_weight" in batch.extra_info:
                names += TEACHER
            data = tq.kv_batch_get(
                keys=batch.keys, partition_id=batch.partition_id, select_fields=names
            )
            names = [name for name in names if name in data]
            record = {
                "keys": list(batch.keys),
                "padding": [bool(t.get("is_padding")) for t in batch.tags],
                "rows": [
                    {name: data[name][i].clone() for name in names} for i in range(len(batch))
                ],
                "settings": {k: v for k, v in batch.extra_info.items() if k.startswith("rltf_")},
            }
            folder = Path(os.environ["RLTF_RECORD_DIR"])
            folder.mkdir(parents=True, exist_ok=True)
            torch.save(record, folder / f"{self.global_steps}.pt")
            return batch
