"""Loaded into every process of a test run through VERL_USE_EXTERNAL_MODULES, as a user's own
extension would be.

Adds each trainer once more, saving batches as the loss will see them; a feedback provider that
often has none, so that episodes are ragged; and a rollout as slow as it must be.

`trainer.v1.trainer_mode=rltf_recorded_<mode of verl>` writes all rows of a step to
RLTF_RECORD_DIR/<step>.pt, and those of each update to <step>.<update>.pt.
"""

import os
import time
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
    "rltf_sampler_log_probs",
)
SPANS = "rltf_teachers"
TEACHER = tuple(f"rltf_teacher_{n}" for n in ("spans", "places", "log_prob", "weights"))
OUTCOMES = ("rltf_teacher_ids", "rltf_teacher_log_probs")


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


def save(batch, name: object) -> None:
    import torch
    import transfer_queue as tq

    from rltf_verl.adapters.training.outcomes import fetch_outcomes

    teaches = "rltf_logit_weight" in batch.extra_info
    names = [*COLUMNS, SPANS, *(TEACHER if teaches else ())]
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=names)
    fetch_outcomes(data)  # as a worker does
    names += OUTCOMES
    record = {
        "keys": list(batch.keys),
        "tags": list(batch.tags),
        "rows": [{c: data[c][i].clone() for c in names if c in data} for i in range(len(batch))],
        "settings": {k: v for k, v in batch.extra_info.items() if k.startswith("rltf_")},
    }
    folder = Path(os.environ["RLTF_RECORD_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(record, folder / f"{name}.pt")


class Recorded:
    """Mixin of a trainer."""

    def _compute_advantage(self, batch, metrics):
        batch = super()._compute_advantage(batch, metrics)
        save(batch, self.global_steps)
        return batch

    def _update_actor(self, batch, metrics):
        import transfer_queue as tq

        save(batch, f"{self.global_steps}.{self.local_trigger_step}")
        batch = super()._update_actor(batch, metrics)
        assert not any(rows for name, rows in tq.kv_list().items() if name not in ("train", "val"))
        return batch


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


@wrapt.when_imported("rltf_verl.sampler.generation")
def _slow(generation) -> None:
    """RLTF_SECONDS_PER_TOKEN: the tiny policy answers faster than a trainer can interrupt it."""
    seconds = float(os.environ.get("RLTF_SECONDS_PER_TOKEN", 0))
    decode = generation.BatchGenerator._decode

    def slowly(self) -> None:
        time.sleep(seconds)
        decode(self)

    if seconds:
        generation.BatchGenerator._decode = slowly
