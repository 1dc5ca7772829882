"""`trainer.v1.trainer_mode: rltf_sync`: verl's synchronous trainer with our rows, advantages, loss and metrics."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transfer_queue as tq
from omegaconf import DictConfig, open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.protocol import DataProto
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.debug.metrics import calculate_debug_metrics
from verl.utils.metric import reduce_metrics
from verl.utils.py_functional import rename_dict

from rltf_verl.adapters.checks import check_config, check_prompt_budget
from rltf_verl.adapters.columns import (
    FACTS,
    ROLE,
    SAMPLER_LOG_PROBS,
    ragged,
    read_columns,
    real_rows,
    row_batch,
    session_of,
)
from rltf_verl.adapters.compat import required_batch_multiple
from rltf_verl.adapters.loss import DENOMINATOR, rltf_loss
from rltf_verl.adapters.metrics import role_metrics, session_metrics
from rltf_verl.algos.schedule import scheduled_weight
from rltf_verl.algos.targets import compute_targets
from rltf_verl.report.episode_log import set_aside_after
from rltf_verl.types import Role

logger = logging.getLogger(__name__)


class RLTFTrainerMixin:
    """Overrides of verl's V1 trainer; put before one of its modes in the bases.

    Keeps no state of its own between steps: weights, seeds and schedules follow from `global_steps`, so a run can be
    resumed from verl's own checkpoint.
    """

    verl_mode: str
    """verl's own mode that this trainer extends; verl looks its settings up by that name."""

    def __init__(self, config: DictConfig, *args: Any, **kwargs: Any) -> None:
        self.rltf = check_config(config)
        with open_dict(config):
            config.trainer.v1.trainer_mode = self.verl_mode
        super().__init__(config, *args, **kwargs)
        self.replay_buffer.poll_interval = self.rltf.poll_interval_s

    def _init_dataloader(self) -> None:
        super()._init_dataloader()
        check_prompt_budget(self.config, self.rltf, self.train_dataset, self.tokenizer)

    def _setup(self) -> None:
        super()._setup()
        actor = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
        self.actor_rollout_wg.set_loss_fn(partial(rltf_loss, actor, self.rltf.distill))

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        folder = self.rltf.episode_log_dir
        if folder and Path(folder).is_dir():
            moved = set_aside_after(Path(folder), self.global_steps)
            if moved:
                logger.info("episode log: moved %d files of steps after %d to superseded/", moved, self.global_steps)

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        """Rows are padded to what the workers' split needs, not to `ppo_mini_batch_size × rollout.n` of them."""
        return required_batch_multiple(self.config, dp_size * self.rltf.updates_per_batch)

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """verl's, then the sampler's log-probs of distillation rows get a name of their own.

        They belong to another prompt; left under `rollout_log_probs` they would pass for this row's.
        """
        batch = super()._compute_old_log_prob(batch, metrics)
        rows = list(range(len(batch)))
        columns = read_columns(batch, rows, [ROLE, "response_mask", "responses", "old_log_probs", "rollout_log_probs"])
        sampler, old = columns["rollout_log_probs"], columns["old_log_probs"]
        is_distill = (columns[ROLE].reshape(-1) == int(Role.DISTILL)).unsqueeze(1)
        own = torch.where(is_distill, old, sampler)
        lengths = self._response_lengths(batch)
        batch = self._put(batch, {SAMPLER_LOG_PROBS: (sampler, lengths), "rollout_log_probs": (own, lengths)})
        keep = columns["response_mask"].bool() & ~is_distill
        compared = {"rollout_log_probs": own, "old_log_probs": old, "responses": columns["responses"]}
        compared["response_mask"] = keep.long()
        metrics.update(calculate_debug_metrics(DataProto.from_single_dict(compared)))
        return batch

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """Per-turn advantages of attempt rows, weighted advantages of distillation rows (`algos.targets`)."""
        rows = real_rows(batch)
        packed = row_batch(batch, rows)
        distill = self.rltf.distill
        num_steps = distill.ramp_steps or self.total_training_steps
        weight = scheduled_weight(distill.weight, self.global_steps - 1, num_steps, distill.start_step)
        targets = compute_targets(
            packed, gamma=self.rltf.gamma, distill_weight=weight, baseline=distill.baseline,
            reference=distill.reference, log_prob_floor=distill.log_prob_floor,
        )  # fmt: skip
        lengths = self._response_lengths(batch)
        advantages = torch.zeros(len(batch), targets.advantages.shape[1])
        advantages[rows] = targets.advantages
        columns = {"advantages": (advantages, lengths), "returns": (advantages, lengths)}
        if distill.reference == "sampler":
            reference = torch.zeros_like(advantages)
            reference[rows] = targets.ref_log_probs
            columns["old_log_probs"] = (reference, lengths)
        batch = self._put(batch, columns)
        metrics.update(role_metrics(packed, targets, weight))
        metrics.update(session_metrics(self._session_facts(batch, rows)))
        batch.extra_info[DENOMINATOR] = self._denominator(packed.group.shape[0])
        return batch

    def _denominator(self, num_sessions: int) -> float:
        """The constant under every role's token sum: sessions per update × response budget."""
        return num_sessions * float(self.config.data.max_response_length) / self.rltf.updates_per_batch

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """`rltf.updates_per_batch` optimiser updates over all rows, however many there are."""
        actor, rollout = self.config.actor_rollout_ref.actor, self.config.actor_rollout_ref.rollout
        size = len(batch) // self.rltf.updates_per_batch
        batch.extra_info.update({
            "calculate_entropy": actor.calculate_entropy or actor.entropy_coeff != 0.0,
            "distillation_use_topk": False,
            "distillation_only": False,
            "global_batch_size": size,
            "mini_batch_size": size,
            "epochs": actor.ppo_epochs,
            "seed": actor.data_loader_seed,
            "dataloader_kwargs": {"shuffle": actor.shuffle},
            "temperature": rollout.temperature,
        })  # fmt: skip
        output = rename_dict(self.actor_rollout_wg.update_actor(batch)["metrics"], "actor/")
        output["perf/mfu/actor"] = output.pop("actor/mfu")
        metrics.update(_own_names(reduce_metrics(output)))
        return batch

    def _response_lengths(self, batch: KVBatchMeta) -> list[int]:
        return [tag["response_len"] for tag in batch.tags]

    def _session_facts(self, batch: KVBatchMeta, rows: list[int]) -> torch.Tensor:
        """[S, H, F], from one row of each session."""
        first = {session_of(batch.keys[i])[1]: i for i in reversed(rows)}
        return read_columns(batch, sorted(first.values()), [FACTS])[FACTS]

    def _put(self, batch: KVBatchMeta, columns: dict[str, tuple[torch.Tensor, list[int]]]) -> KVBatchMeta:
        """Write [N, T] tensors back as ragged columns of every row; returns the batch that knows of them."""
        fields = {k: ragged([v[i, :n].float() for i, n in enumerate(lengths)]) for k, (v, lengths) in columns.items()}
        return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict(fields, len(batch)))


def _own_names(metrics: dict[str, Any]) -> dict[str, Any]:
    """verl puts `actor/` before what a loss reports; ours keep the names they have everywhere else."""
    return {k.removeprefix("actor/") if k.startswith("actor/rltf/") else k: v for k, v in metrics.items()}


@register_trainer("rltf_sync")
class RLTFTrainerSync(RLTFTrainerMixin, PPOTrainerSync):  # type: ignore[misc]
    """Trainer and rollout take turns on the same devices."""

    verl_mode = "sync"
