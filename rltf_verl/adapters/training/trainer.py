"""`trainer.v1.trainer_mode: rltf_sync`: verl's synchronous trainer with our rows, advantages, loss
and metrics.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from omegaconf import DictConfig, OmegaConf, open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.experimental.agent_loop.agent_loop import AgentLoopManager
from verl.trainer.ppo.v1.trainer_base import PPOTrainer, register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.metric import reduce_metrics
from verl.utils.py_functional import rename_dict
from verl.workers.rollout.llm_server import LLMServerClient

from rltf_verl.adapters.compat import keep_earlier_metrics, required_batch_multiple
from rltf_verl.adapters.metrics.episodes import SPENT, episode_metrics, lost_share
from rltf_verl.adapters.metrics.roles import (
    role_metrics,
    sampling_metrics,
    stale_metrics,
    with_grad_shares,
)
from rltf_verl.adapters.metrics.row_log import RowLog
from rltf_verl.adapters.metrics.validation import (
    EPISODE,
    first_answers_only,
    sampled_episodes,
    validation_lost_shares,
    validation_metrics,
)
from rltf_verl.adapters.queue.columns import (
    FACTS,
    FOR_FORWARD,
    stale_turns,
)
from rltf_verl.adapters.queue.step_rows import StepRows
from rltf_verl.adapters.rollout.judge_actor import JudgeOfTheJob
from rltf_verl.adapters.rollout.llm_client import OnlyServerClient
from rltf_verl.adapters.startup.budget import check_prompt_budget
from rltf_verl.adapters.startup.checks import checked_parts
from rltf_verl.adapters.startup.stamp import check_resume, write_stamp
from rltf_verl.adapters.training.correction import rollout_correction
from rltf_verl.adapters.training.kept_weights import keep_weights
from rltf_verl.adapters.training.live_groups import Draws, LiveGroups
from rltf_verl.adapters.training.logit_loss import NUM_TOKENS, WEIGHT, loss_with_logits
from rltf_verl.adapters.training.loss import DENOMINATOR, FOR_UPDATE, rltf_loss
from rltf_verl.adapters.training.teacher import (
    TeacherOutput,
    ask_teacher,
    kept_share,
    read_teacher_inputs,
    teacher_batch,
    teacher_metrics,
    token_places,
    voices,
    write_teacher_output,
)
from rltf_verl.adapters.training.trained import (
    LIVE,
    Trained,
    rows_of_update,
    skips_idle_rows,
    target_columns,
)
from rltf_verl.adapters.training.vital import Vital, vital_actors, watched
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.objectives import (
    objective_shares,
    objective_weights,
    objectives_of,
    role_names,
    token_objectives,
)
from rltf_verl.objectives.targets import live_groups, shared_targets
from rltf_verl.objectives.teacher import uses_lora, weigh_teacher_tokens
from rltf_verl.runlog.about import SIZES, write_about
from rltf_verl.runlog.files import set_aside_after
from rltf_verl.runlog.health import Watch, log_changes
from rltf_verl.texts import counted

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    _Trainer = PPOTrainer  # what the mixin is put before
else:
    _Trainer = object

DROPPED = "training/rollout_failure/evicted_samples"
"""verl's count of groups that it drops because an episode raised, and replaces."""


class RLTFTrainerMixin(_Trainer):
    """Overrides of verl's V1 trainer; put before one of its modes in the bases.

    Keeps no state of its own between steps: weights, seeds and schedules follow from
    `global_steps`, so a run can be resumed from verl's own checkpoint.
    """

    resumed_at = 0
    """Steps that an earlier process has trained."""
    verl_mode: str
    """verl's own mode that this trainer extends; verl looks its settings up by that name."""

    def __init__(self, config: DictConfig, *args: Any, **kwargs: Any) -> None:
        self.parts = checked_parts(config)
        self.rltf = self.parts.config
        self.judge = JudgeOfTheJob(self.parts.judges)
        with open_dict(config):
            config.trainer.v1.trainer_mode = self.verl_mode
        self._draws = Draws()
        super().__init__(config, *args, **kwargs)
        self.replay_buffer.poll_interval = self.rltf.poll_interval_s
        if self.rltf.refill_rounds:
            self.replay_buffer.sample = LiveGroups(
                self.replay_buffer.sample,
                self._add_prompts_to_generate,
                self._live_groups,
                self.rltf.refill_rounds,
            )

    def _init_dataloader(self) -> None:
        if self.rltf.refill_rounds:
            with open_dict(self.config):  # verl hands out whole fetches of its loader
                self.config.data.gen_batch_size = 1
        super()._init_dataloader()
        with open_dict(
            self.config
        ):  # the agent loops want to know which validation is the last one
            self.config.trainer.total_training_steps = self.total_training_steps
        dry_run = DryRun()
        check_prompt_budget(
            self.config, self.parts, self.train_dataset, self.tokenizer, dry_run=dry_run
        )
        for finding in dry_run.findings():
            logger.warning("%s", finding)

    def _next_train_batch(self, num_prompts: int | None = None) -> TensorDict:
        """verl's, with the draw's number."""
        return self._draws.number(super()._next_train_batch(num_prompts), self.global_steps)

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        own = self.rltf
        self._lora = uses_lora(partial(OmegaConf.select, self.config))
        share = kept_share(own.teacher, self._lora) if own.teaches else None
        if share is not None:
            keep_weights(self.role_worker_mapping, share)

    def _setup(self) -> None:
        super()._setup()
        self.row_log = RowLog(self.rltf.episode_log, self.tokenizer, role_names(self.rltf))
        if self.rltf.episode_log.dir is not None:
            sizes = {key: OmegaConf.select(self.config, key) for key in SIZES}
            phrases = list(self.rltf.mentions.phrases)
            write_about(Path(self.rltf.episode_log.dir), asdict(self.rltf), sizes, phrases)
        self.objectives = objectives_of(self.rltf)
        self.watch = Watch()
        actor = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
        loss: Any = partial(rltf_loss, actor, self.rltf)
        if self.rltf.logit_distill.reads_logits:
            loss = partial(loss_with_logits, loss, self.rltf.logit_distill)
        self.actor_rollout_wg.set_loss_fn(loss)

    def fit(self, agent_loop_manager: AgentLoopManager) -> None:
        """verl's training, which ends when a process dies without which it would hang."""
        buffer: Any = self.replay_buffer
        vital = Vital(vital_actors(agent_loop_manager))
        buffer._wait_for_next_poll = watched(buffer._wait_for_next_poll, vital)
        super().fit(agent_loop_manager)

    def _save_checkpoint(self) -> None:
        write_stamp(self.config, self.rltf, self.global_steps)
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        check_resume(self.config, self.rltf)
        super()._load_checkpoint()
        self.resumed_at = int(self.global_steps)
        folder = self.rltf.episode_log.dir
        if folder and Path(folder).is_dir():
            validates = bool(self.config.trainer.get("val_before_train", True))
            moved = set_aside_after(Path(folder), self.global_steps, validates=validates)
            if moved:
                logger.info(
                    "episode log: moved %s of steps after %d to superseded/",
                    counted(moved, "file"),
                    self.global_steps,
                )
        if self.resumed_at > 0:
            keep_earlier_metrics(self.config)

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        """Rows are padded to what the workers' split needs, not to
        `ppo_mini_batch_size × rollout.n` of them.
        """
        return required_batch_multiple(self.config, dp_size * self.rltf.updates_per_batch)

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """verl's pass, of the columns that it reads: without a choice its workers fetch all, and
        copy each row's objects (texts, messages, tasks) between tensordicts, in half of their time.
        """
        batch.fields = list(FOR_FORWARD)
        return super()._compute_old_log_prob(batch, metrics)

    def _compute_ref_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """As above."""
        batch.fields = list(FOR_FORWARD)
        return super()._compute_ref_log_prob(batch, metrics)

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """Advantages of every token by its role (`objectives.targets`), and the teacher's columns.

        One look into the queue and one entry, as in verl: each costs more than all that is computed
        here.
        """
        step = StepRows.read(batch)
        trained = self._trained(step)
        batch = self._written(step, trained)
        metrics.update(self._step_metrics(step, trained, metrics))
        self.row_log.write(step, trained.targets, self.global_steps)
        return batch

    def _trained(self, step: StepRows) -> Trained:
        """What the rows are trained on."""
        stale = stale_turns(step.facts, self.global_steps, self.rltf.max_staleness)
        trust, corrected = self._rollout_correction(step)
        shares = objective_shares(self.rltf, *self._now())
        targets, weights = shared_targets(
            step.batch, self.rltf, self._weights(), shares, stale, trust
        )
        teacher, teacher_weights = self._ask_teacher(step), torch.zeros(0)
        if teacher is not None:
            place = token_places(teacher.inputs, step.batch)
            targets, teacher_weights = weigh_teacher_tokens(
                self.rltf, step.batch, targets, place, teacher.gap, teacher.entropy, weights
            )
        return Trained(targets, weights, stale, trust, corrected, teacher, teacher_weights)

    def _written(self, step: StepRows, trained: Trained) -> KVBatchMeta:
        """All rows, with the columns and constants that the update reads."""
        batch = step.write(target_columns(step.batch, trained.targets, trained.trust))
        live = trained.live_rows(step.batch).tolist()
        if trained.teacher is not None and bool(trained.teacher_weights.any()):
            own = self.rltf.logit_distill
            batch = write_teacher_output(step, trained.teacher, trained.teacher_weights, own)
            # Only rows of the update add to the sum that this divides.
            skips = skips_idle_rows(self.config.actor_rollout_ref.actor)
            inputs = (o for o in trained.teacher.inputs if live[o.row] or not skips)
            num_tokens = sum(len(o.response) for o in inputs) / self.rltf.updates_per_batch
            weight = trained.weights["logit_distill"]
            batch.extra_info.update({WEIGHT: weight, NUM_TOKENS: num_tokens})
        batch.extra_info[DENOMINATOR] = self._denominator(len(step.facts))
        for i, is_live in zip(step.at, live, strict=True):
            batch.tags[i][LIVE] = is_live
        return batch

    def _step_metrics(
        self, step: StepRows, trained: Trained, before: Mapping[str, float]
    ) -> dict[str, Any]:
        """Numbers of the step; `before`: what is known of it, replaced groups' spending too."""
        owners = token_objectives(self.rltf)
        metrics: dict[str, Any] = {
            **sampling_metrics(step.batch, step.entropy),
            **trained.corrected,
            **role_metrics(owners, step.batch, trained.targets, trained.weights),
            **episode_metrics(step.facts, self.rltf.episode.horizon),
            **stale_metrics(owners, step.batch, trained.stale),
            "rltf/session/lost_share": self._lost_share(len(step.facts), before),
            **self.judge.metrics(),
            **self._teacher_metrics(step, trained),
        }
        metrics |= {name: metrics[name] + before.get(name, 0.0) for name in SPENT}
        for objective in self.objectives:
            objective.look({**before, **metrics})
        return metrics

    def _lost_share(self, num_episodes: int, before: Mapping[str, float]) -> float:
        """Of the episodes that were played; all of a group that verl drops and plays again."""
        dropped = before.get(DROPPED, 0) * self.config.actor_rollout_ref.rollout.n
        return lost_share(num_episodes, int(self._num_episodes() + dropped))

    def _rollout_correction(self, step: StepRows) -> tuple[torch.Tensor | None, dict[str, float]]:
        """[L] weights of verl's rollout correction and its metrics, where it is on."""
        correction = self.config.algorithm.get("rollout_correction")
        if not correction or not (correction.get("rollout_is") or correction.get("rollout_rs")):
            return None, {}
        return rollout_correction(step.batch, correction)

    def _ask_teacher(self, step: StepRows) -> TeacherOutput | None:
        """What the teacher says at its prompts (`rltf.logit_distill`); None where it has none."""
        if self._weights()["logit_distill"] == 0 or not (inputs := read_teacher_inputs(step)):
            return None
        asked = partial(
            teacher_batch,
            inputs,
            multiple=required_batch_multiple(self.config, self.actor_rollout_wg.world_size),
            temperature=self.config.actor_rollout_ref.rollout.temperature,
            asked=self.rltf.logit_distill,
        )

        def call(ids: Sequence[torch.Tensor] | None, settings: Mapping[str, Any]) -> TensorDict:
            data = asked(ids=ids)
            tu.assign_non_tensor(data, **settings)
            answer: TensorDict = self.actor_rollout_wg.compute_log_prob(data)
            return answer

        return ask_teacher(inputs, voices(self.rltf.teacher, self._lora), call)

    def _teacher_metrics(self, step: StepRows, trained: Trained) -> dict[str, float]:
        weight, own = trained.weights["logit_distill"], self.rltf.logit_distill
        if weight == 0:
            return {}
        means = {"weight": weight}
        if trained.teacher is not None and (self.rltf.teacher.gate != "none" or own.entropy_decay):
            means["token_weight"] = float(trained.teacher_weights.mean())
        return teacher_metrics(trained.teacher, step, means)

    def _now(self) -> tuple[int, int, int]:
        """What schedules are functions of."""
        return self.global_steps - 1, self.total_training_steps, self.resumed_at

    def _weights(self) -> dict[str, float]:
        return objective_weights(self.rltf, *self._now())

    def _live_groups(self, step: StepRows) -> torch.Tensor:
        return live_groups(step.batch, self.rltf, self._weights())

    def _num_episodes(self) -> int:
        """Episodes that a batch has if none is lost."""
        return (
            self.config.data.train_batch_size
            // self.parameter_sync_step
            * self.config.actor_rollout_ref.rollout.n
        )

    def _denominator(self, num_episodes: int) -> float:
        """The constant under every role's token sum: episodes per update × response budget."""
        return (
            num_episodes * float(self.config.data.max_response_length) / self.rltf.updates_per_batch
        )

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """`rltf.updates_per_batch` optimiser updates over all rows that have a gradient, however
        many there are.
        """
        actor, rollout = self.config.actor_rollout_ref.actor, self.config.actor_rollout_ref.rollout
        rows = self._rows_of_update(batch) if skips_idle_rows(actor) else batch
        metrics["rltf/rows/updated_share"] = len(rows) / len(batch)
        size = len(rows) // self.rltf.updates_per_batch
        rows.fields = list(FOR_UPDATE)
        rows.extra_info.update(
            {
                "calculate_entropy": actor.calculate_entropy or actor.entropy_coeff != 0.0,
                "distillation_use_topk": (
                    WEIGHT in batch.extra_info and self.rltf.logit_distill.reads_logits
                ),
                "distillation_only": False,
                "global_batch_size": size,
                "mini_batch_size": size,
                "epochs": actor.ppo_epochs,
                "seed": actor.data_loader_seed,
                "dataloader_kwargs": {"shuffle": actor.shuffle},
                "temperature": rollout.temperature,
            }
        )
        output = rename_dict(self.actor_rollout_wg.update_actor(rows)["metrics"], "actor/")
        output["perf/mfu/actor"] = output.pop("actor/mfu")
        metrics.update(with_grad_shares(_own_names(reduce_metrics(output))))
        metrics.update(
            log_changes(self.watch, self.global_steps, metrics, self.judge.last_failures)
        )
        return batch

    def _rows_of_update(self, batch: KVBatchMeta) -> KVBatchMeta:
        """Those without a gradient left out, the others spread over the ranks anew."""
        dp_size = max(self.actor_rollout_wg._dispatch_info["actor"]) + 1
        multiple = self._get_required_batch_multiple(dp_size)
        return self._balance_batch(rows_of_update(batch, multiple), {})

    def _maybe_log_val_generations(self, **_: Any) -> None:  # type: ignore[override]  # by name
        """Nothing here: verl would show an episode's last row only. See `_val_metrics_update`."""

    def _shutdown_dump_executor(self) -> None:
        """verl's last act of a run, however it ends: the rows of the last step are written before
        the process goes.
        """
        self.row_log.close()
        super()._shutdown_dump_executor()

    def _val_metrics_update(
        self,
        data_sources: list[str],
        sample_uids: list[str],
        infos: dict[str, list[Any]],
        sample_turns: list[int],
        expected_acc_counts: dict[tuple[str, str], int] | None = None,
    ) -> dict[str, float]:
        """verl's numbers and ours; and the table of sampled episodes
        (`trainer.log_val_generations`).
        """
        facts, horizon = infos.pop(FACTS, [None] * len(data_sources)), self.rltf.episode.horizon
        ours = validation_metrics(data_sources, facts, horizon)
        ours |= validation_lost_shares(data_sources, expected_acc_counts or {})
        if first_answers_only(facts, horizon):
            # verl's are of an episode's last answer, so they would mix two kinds of validation in
            # one curve.
            infos.pop("reward", None)
            sample_turns = []
        num = self.config.trainer.log_val_generations
        if num:
            rows = sampled_episodes(infos, num)
            self.validation_generations_logger.log(
                self.config.trainer.logger, rows, self.global_steps
            )
        infos.pop(EPISODE, None)
        theirs: dict[str, float] = super()._val_metrics_update(
            data_sources, sample_uids, infos, sample_turns, expected_acc_counts=expected_acc_counts
        )
        return theirs | ours


def _own_names(metrics: dict[str, Any]) -> dict[str, Any]:
    """verl puts `actor/` before what a loss reports; ours keep the names they have everywhere
    else.
    """
    return {
        k.removeprefix("actor/") if k.startswith("actor/rltf/") else k: v
        for k, v in metrics.items()
    }


@register_trainer("rltf_sync")
class RLTFTrainerSync(RLTFTrainerMixin, PPOTrainerSync):
    """Trainer and rollout take turns on the same devices."""

    verl_mode = "sync"

    def get_llm_client(self) -> LLMServerClient:
        """The client of the agent loops."""
        alone = len(self.llm_server_manager.get_replicas()) == 1
        kind = OnlyServerClient if alone else None
        return self.llm_server_manager.get_client(client_cls=kind)
