"""The actor's pass over a step's rows, by verl's own method."""

from types import SimpleNamespace

import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from rltf_verl.adapters.queue.columns import ragged
from rltf_verl.adapters.training.trainer import RLTFTrainerSync
from tests.support.configs import composed

PROMPT, RESPONSE = 3, 2
DIFFERENCE = "training/rollout_probs_diff_max"


class Trainer(RLTFTrainerSync):
    """With a worker that finds every token as likely as not."""

    def __init__(self) -> None:
        self.config = composed("rltf_sd")
        self.actor_rollout_wg = SimpleNamespace(compute_log_prob=lambda batch: batch)
        self.skips_scoring = self.may_reuse = False


def test_no_metric_compares_tokens_that_were_sampled_under_another_prompt(monkeypatch) -> None:
    """A step may have only such rows to score: a distilled answer, no group with an advantage."""
    batch = KVBatchMeta(keys=["a"], partition_id="train", tags=[{}])
    row, response = torch.full((PROMPT + RESPONSE,), 0.5), torch.ones(RESPONSE)
    columns = {
        "log_probs": row.log(),
        "entropy": row,
        "response_mask": response.long(),
        "responses": response.long(),
        "rollout_log_probs": 0 * response,
    }
    queue = TensorDict({name: ragged([value]) for name, value in columns.items()}, [1])
    monkeypatch.setattr(tq, "kv_batch_get", lambda select_fields, **_: queue.select(*select_fields))
    monkeypatch.setattr(tq, "kv_batch_put", lambda **_: batch)
    theirs, ours = dict[str, float](), dict[str, float]()
    PPOTrainer._compute_old_log_prob(Trainer(), batch, theirs)
    assert theirs[DIFFERENCE] == 0.5
    assert Trainer()._compute_old_log_prob(batch, ours) is batch
    assert ours == {}
