"""Our trainers: verl's three V1 modes with our rows, advantages, loss and metrics.

`trainer.v1.trainer_mode` is `rltf_sync`, `rltf_colocate_async` or `rltf_separate_async`. The mixin
overrides methods of verl (`adapters.seams`); what a step computes is in `training.step`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from omegaconf import DictConfig, OmegaConf, open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.experimental.agent_loop.agent_loop import AgentLoopManager
from verl.trainer.ppo.v1 import trainer_base
from verl.trainer.ppo.v1.trainer_base import PPOTrainer, register_trainer
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.metric import reduce_metrics
from verl.utils.py_functional import rename_dict
from verl.workers.rollout.llm_server import LLMServerClient

from rltf_verl.adapters.compat import meet_at_free_ports, required_batch_multiple
from rltf_verl.adapters.console import MARK, quiet_verl, show_steps
from rltf_verl.adapters.metrics.roles import with_grad_shares
from rltf_verl.adapters.metrics.validation import (
    EPISODE,
    first_answers_only,
    sampled_episodes,
    validation_lost_shares,
    validation_metrics,
)
from rltf_verl.adapters.queue.columns import FACTS, FOR_FORWARD, SCORED
from rltf_verl.adapters.queue.step_rows import StepRows
from rltf_verl.adapters.rollout.judge_actor import JudgeOfTheJob
from rltf_verl.adapters.rollout.llm_client import OnlyServerClient, ResumingClient
from rltf_verl.adapters.rollout.loop_lag import lag_metrics
from rltf_verl.adapters.startup.budget import NUM_BUDGET_PROBES, check_prompt_budget
from rltf_verl.adapters.startup.checks import checked_parts, require
from rltf_verl.adapters.startup.stamp import (
    check_resume,
    how_to_go_back,
    resumed_folder,
    whole_checkpoint,
    write_stamp,
)
from rltf_verl.adapters.training.best import BestCheckpoint
from rltf_verl.adapters.training.kept_weights import use_our_workers
from rltf_verl.adapters.training.live_groups import Draws, LiveGroups
from rltf_verl.adapters.training.logit_loss import WEIGHT, loss_with_logits
from rltf_verl.adapters.training.loss import FOR_UPDATE, rltf_loss
from rltf_verl.adapters.training.outcomes import clear_outcomes
from rltf_verl.adapters.training.run_files import (
    METRICS,
    continue_metrics,
    open_row_log,
    set_aside_later,
    warn_of_missing_episodes,
)
from rltf_verl.adapters.training.step import (
    EXACT,
    LIVE,
    StepSettings,
    compute_step,
    is_exact,
    may_leave_unscored,
    may_reuse_log_probs,
    needs_scoring,
    poll_interval,
    rows_with_tag,
    skips_idle_rows,
    update_settings,
)
from rltf_verl.adapters.training.teacher import Teacher, kept_share
from rltf_verl.adapters.training.watchdog import ActorWatchdog, actors_of_episodes
from rltf_verl.data.questions import question_of
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.feedback.base import FeedbackUnavailable
from rltf_verl.jsonl import write_whole
from rltf_verl.objectives import Method
from rltf_verl.objectives.base import Now
from rltf_verl.objectives.targets import live_groups
from rltf_verl.objectives.teacher import uses_lora
from rltf_verl.runlog.health import Watch, end_rules, log_changes

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    _Trainer = PPOTrainer  # the mixin precedes it in the bases
else:
    _Trainer = object


class RLTFTrainerMixin(_Trainer):
    """Overrides of verl's V1 trainer, in the order in which a run calls them.

    Keeps no state between steps: weights, seeds and schedules follow from `global_steps`, so a run
    can be resumed from verl's own checkpoint.
    """

    resumed_at = 0
    """Steps that an earlier process has trained."""
    agent_workers: Sequence[Any] = ()
    reuses_log_probs = False
    """The sampler's log-probs are the old ones (`may_reuse_log_probs`)."""
    _metrics: Mapping[str, float] = {}
    """Metrics of the last step that was trained."""
    verl_mode: str
    """verl's own mode that this trainer extends; verl looks its settings up by that name."""

    def __init__(self, config: DictConfig, *args: Any, **kwargs: Any) -> None:
        self.parts = checked_parts(config)
        self.rltf = self.parts.config
        self.method = Method(self.rltf)
        self.judge = JudgeOfTheJob(self.parts.judges)
        self._draws = Draws()
        with open_dict(config):
            # verl's constructor looks settings up, and chooses the replay buffer, by this name.
            config.trainer.v1.trainer_mode = self.verl_mode
        super().__init__(config, *args, **kwargs)
        most = self.replay_buffer.poll_interval
        self.replay_buffer.poll_interval = poll_interval(config, self.rltf, most)
        if self.rltf.refill_rounds:
            self.replay_buffer.sample = LiveGroups(
                self.replay_buffer.sample,
                self._add_prompts_to_generate,
                lambda rows: live_groups(rows.batch, self.method, self._settings().weights),
                self.rltf.refill_rounds,
            )

    def _init_dataloader(self) -> None:
        with open_dict(self.config):
            if self.rltf.refill_rounds:
                self.config.data.gen_batch_size = 1  # verl hands out whole fetches of its loader
        super()._init_dataloader()
        with open_dict(self.config):  # tells the agent loops which validation is the last
            self.config.trainer.total_training_steps = self.total_training_steps
        self._check_prompts()

    def _check_prompts(self) -> None:
        dry_run = DryRun()
        # By index: a dataset of verl has no slices, and an iterator of one need not end.
        data, num = self.train_dataset, min(len(self.train_dataset), NUM_BUDGET_PROBES)
        questions = [question_of(self.parts.env, data[i]) for i in range(num)]
        require(check_prompt_budget(self.config, self.parts, questions, self.tokenizer, dry_run))
        require(dry_run.findings())

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        lora = uses_lora(partial(OmegaConf.select, self.config))
        share = kept_share(self.rltf.teacher, lora) if self.rltf.teaches else None
        use_our_workers(self.role_worker_mapping, share)

    def _setup(self) -> None:
        meet_at_free_ports(trainer_base)
        super()._setup()
        self.row_log = open_row_log(self.config, self.method, self.tokenizer)
        self.watch = Watch()
        feedback = self.rltf.feedback
        ends = end_rules(feedback.stop_after, waits=feedback.on_error == "wait")
        self.without_feedback = Watch(ends)
        in_turns = self.verl_mode == "sync"  # else some rows have other weights' log-probs
        self.may_reuse = in_turns and may_reuse_log_probs(self.config, self.method)
        self.skips_scoring = in_turns and may_leave_unscored(self.config, self.rltf)
        self.teacher = Teacher(self.config, self.rltf, self.actor_rollout_wg)
        actor = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
        loss: Any = partial(rltf_loss, actor, self.method)
        if self.rltf.logit_distill.reads_logits:
            loss = partial(loss_with_logits, loss, self.rltf.logit_distill)
        self.actor_rollout_wg.set_loss_fn(loss)

    def _load_checkpoint(self) -> None:
        require(check_resume(self.config, self.rltf))
        if (folder := resumed_folder(self.config)) is not None:
            with open_dict(self.config):  # verl's own search takes one that is not whole
                self.config.trainer.update(resume_mode="resume_path", resume_from_path=str(folder))
        super()._load_checkpoint()
        # verl has set it to the step of the checkpoint, 0 without one.
        self.resumed_at = int(self.global_steps)
        set_aside_later(self.config, self.rltf.episode_log.dir, self.resumed_at)
        folder = Path(self.config.trainer.default_local_dir)
        self.best = BestCheckpoint(folder, self.rltf.keep_best)

    def _save_checkpoint(self) -> None:
        with whole_checkpoint(self.config, self.global_steps):
            folder = write_stamp(self.config, self.rltf, self.global_steps)
            write_whole(folder / METRICS, json.dumps(self._metrics).encode())
            super()._save_checkpoint()

    def fit(self, agent_loop_manager: AgentLoopManager) -> None:
        """verl's training, which ends when an actor dies without which it would hang."""
        quiet_verl(trainer_base, self.config)
        workers: list[Any] = agent_loop_manager.agent_loop_workers
        self.agent_workers = workers
        buffer: Any = self.replay_buffer
        watchdog = ActorWatchdog(actors_of_episodes(agent_loop_manager))
        buffer._wait_for_next_poll = watchdog.guard(buffer._wait_for_next_poll)
        try:
            super().fit(agent_loop_manager)
        finally:
            warn_of_missing_episodes(agent_loop_manager, self.rltf.episode_log.dir)
        # Before the rollout ends: the episodes of later steps that are under way would be lost.
        for worker in workers:
            ray.kill(worker)
        if self.without_feedback.firing:
            cause = (
                f"the run ends without it (rltf.feedback.stop_after); {self.judge.last_failures()}"
            )
            raise FeedbackUnavailable(self.parts.provider.name, cause)
        if self.rltf.episode_log.dir is not None:
            print(f"{MARK}next: rltf view {self.rltf.episode_log.dir} -o page.html", flush=True)

    def on_validate_begin(self) -> None:
        """verl's hook; the first after it has made its loggers, in most runs."""
        self._add_loggers()
        super().on_validate_begin()

    def on_train_begin(self) -> None:
        """verl's hook, the first of a run that does not begin with a validation."""
        self._add_loggers()
        super().on_train_begin()

    def _add_loggers(self) -> None:
        show_steps(self.logger, self.config, self.total_training_steps)
        continue_metrics(self.config, self.logger.logger, self.resumed_at)

    def _next_train_batch(self, num_prompts: int | None = None) -> TensorDict:
        """verl's, with each draw's number."""
        return self._draws.number(super()._next_train_batch(num_prompts), self.global_steps)

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        """Multiple for the workers' split, in place of `ppo_mini_batch_size × rollout.n`."""
        return required_batch_multiple(self.config, dp_size * self.rltf.updates_per_batch)

    # Without a choice of fields verl's workers fetch all columns of a forward pass, and spend half
    # of their time on copies of each row's objects (texts, messages, tasks).

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        if self.reuses_log_probs:
            return batch
        skips = self.skips_scoring and not self.may_reuse
        rows = self._rows_to_score(batch) if skips else batch
        rows.fields = list(FOR_FORWARD)
        # verl's metrics compare sampler and actor at every response token, also where the sampler
        # read another prompt. Ours (`sampling_metrics`) leave these out, and may then have none.
        scored = super()._compute_old_log_prob(rows, {})
        return batch if skips else scored

    def _rows_to_score(self, batch: KVBatchMeta) -> KVBatchMeta:
        """Rows that `needs_scoring` names; each row's tag `SCORED` says whether it is one."""
        rows = StepRows.read(batch, scored=False)
        needed = needs_scoring(rows.batch, self._settings())
        for i, needs in zip(rows.at, needed.tolist(), strict=True):
            batch.tags[i][SCORED] = needs
        return self._with_tag(SCORED, batch)

    def _compute_ref_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        batch.fields = list(FOR_FORWARD)
        return super()._compute_ref_log_prob(batch, metrics)

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """One read of the queue and one write, as in verl: each costs more than the computation."""
        settings = self._settings()
        rows = StepRows.read(batch, scored=not self.reuses_log_probs)
        if self.may_reuse:
            self._try_the_samplers(rows)
        teacher = self.teacher.ask(rows) if settings.weights["logit_distill"] else None
        result = compute_step(rows, settings, teacher, metrics)
        metrics.update({**result.metrics, **self.judge.metrics()})
        for objective in self.method.objectives:
            objective.on_step_end(metrics)
        self.row_log.write(rows, result.targets, self.global_steps)
        return result.write(rows)

    def _try_the_samplers(self, rows: StepRows) -> None:
        """At the first step only: whether the actor's pass over the rows repeats the sampler's."""
        self.may_reuse, self.reuses_log_probs = False, is_exact(rows.batch)
        if not self.reuses_log_probs:
            logger.warning(
                "log-probs of sampler and actor differ by more than %g: each step computes them",
                EXACT,
            )

    def _settings(self) -> StepSettings:
        now = Now(self.global_steps - 1, self.total_training_steps, self.resumed_at)
        return StepSettings(self.method, self.config, now, self.parameter_sync_step)

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """`rltf.updates_per_batch` optimiser updates over the rows that have a gradient."""
        config = self.config.actor_rollout_ref
        rows = self._with_tag(LIVE, batch) if skips_idle_rows(config.actor) else batch
        logits = WEIGHT in batch.extra_info and self.rltf.logit_distill.reads_logits
        num_rows = len(rows) // self.rltf.updates_per_batch
        rows.fields = list(FOR_UPDATE)
        rows.extra_info.update(update_settings(config, num_rows, reads_logits=logits))
        # Ask before the update and read after it, so that no time is spent on waiting.
        lags = [worker.loop_lag.remote() for worker in self.agent_workers]
        output = self.actor_rollout_wg.update_actor(rows)["metrics"]
        if self.rltf.logit_distill.reads_logits:
            clear_outcomes()
        metrics["rltf/rows/updated_share"] = len(rows) / len(batch)
        metrics.update({**_metrics_of_update(output), **lag_metrics(lags)})
        self._watch_step(metrics)
        return batch

    def _watch_step(self, metrics: dict[str, Any]) -> None:
        """Log what a run's rules say of the step; without feedback it is the last one."""
        advice = self.judge.last_failures, partial(how_to_go_back, self.config)
        metrics.update(log_changes(self.watch, self.global_steps, metrics, *advice))
        self._metrics = {k: float(v) for k, v in metrics.items() if isinstance(v, (int, float))}
        is_last = self.global_steps >= self.total_training_steps
        if not is_last and self.without_feedback.look(self.global_steps, metrics):
            # verl saves this step, then its loop ends
            self.config.trainer.save_freq, self.total_training_steps = 1, self.global_steps

    def _with_tag(self, tag: str, batch: KVBatchMeta) -> KVBatchMeta:
        """The rows with the tag, spread over the ranks again."""
        # verl's list has the data-parallel rank of each worker.
        dp_size = max(self.actor_rollout_wg._dispatch_info["actor"]) + 1
        multiple = self._get_required_batch_multiple(dp_size)
        # The empty dict takes metrics that verl has logged of the whole batch.
        return self._balance_batch(rows_with_tag(tag, batch, multiple), {})

    def _maybe_log_val_generations(self, **_: Any) -> None:  # type: ignore[override]  # by name
        """Replaced by `_log_episodes`: verl would show an episode's last row only."""

    def _val_metrics_update(
        self,
        data_sources: list[str],
        sample_uids: list[str],
        infos: dict[str, list[Any]],
        sample_turns: list[int],
        expected_acc_counts: dict[tuple[str, str], int] | None = None,
    ) -> dict[str, float]:
        """verl's metrics and ours, and the table of sampled episodes."""
        facts, horizon = infos.pop(FACTS, [None] * len(data_sources)), self.rltf.episode.horizon
        ours = validation_metrics(data_sources, facts, horizon)
        ours |= validation_lost_shares(data_sources, expected_acc_counts or {})
        first_answers = first_answers_only(facts, horizon)
        if first_answers:
            # verl's are of an episode's last answer: one curve would mix two kinds of validation.
            infos.pop("reward", None)
            sample_turns = []
        self._log_episodes(infos)
        theirs: dict[str, float] = super()._val_metrics_update(
            data_sources, sample_uids, infos, sample_turns, expected_acc_counts=expected_acc_counts
        )
        self.best.on_validation(theirs | ours, self.global_steps, first_answers=first_answers)
        self.judge.metrics()  # its requests here are not the next step's
        return theirs | ours

    def _log_episodes(self, infos: dict[str, list[Any]]) -> None:
        """The table of `trainer.log_val_generations` sampled episodes."""
        trainer = self.config.trainer
        if trainer.log_val_generations:
            rows = sampled_episodes(infos, trainer.log_val_generations)
            self.validation_generations_logger.log(trainer.logger, rows, self.global_steps)
        infos.pop(EPISODE, None)

    def _shutdown_dump_executor(self) -> None:
        """verl's last call of a run, however it ends: write the rows of the last step."""
        self.row_log.close()
        super()._shutdown_dump_executor()


def _metrics_of_update(output: Mapping[str, Any]) -> dict[str, Any]:
    """By the names that they have everywhere else: `actor/` before verl's, nothing before ours."""
    metrics = reduce_metrics(rename_dict(dict(output), "actor/"))
    # verl's `_update_actor`, which ours replaces, does the same.
    metrics["perf/mfu/actor"] = metrics.pop("actor/mfu")
    renamed = {
        k.removeprefix("actor/") if k.startswith("actor/rltf/") else k: v
        for k, v in metrics.items()
    }
    return with_grad_shares(renamed)


@register_trainer("rltf_sync")
class RLTFTrainerSync(RLTFTrainerMixin, PPOTrainerSync):
    """Trainer and rollout take turns on the same devices."""

    verl_mode = "sync"

    def get_llm_client(self) -> LLMServerClient:
        """The client of the agent loops."""
        alone = len(self.llm_server_manager.get_replicas()) == 1
        kind = OnlyServerClient if alone else None
        return self.llm_server_manager.get_client(client_cls=kind)


@register_trainer("rltf_colocate_async")
class RLTFTrainerColocateAsync(RLTFTrainerMixin, PPOTrainerColocateAsync):
    """Trainer and rollout share devices; episodes that are unfinished when a batch is full continue
    with new weights.
    """

    verl_mode = "colocate_async"

    def get_llm_client(self) -> LLMServerClient:
        """The client of the agent loops."""
        return self.llm_server_manager.get_client(client_cls=ResumingClient)


@register_trainer("rltf_separate_async")
class RLTFTrainerSeparateAsync(RLTFTrainerMixin, PPOTrainerSeparateAsync):
    """Rollout replicas have their own devices and play on while the trainer trains."""

    verl_mode = "separate_async"

    def get_llm_client(self) -> LLMServerClient:
        """The client of the agent loops, of the standalone replicas."""
        return self.standalone_server_manager.get_client(client_cls=ResumingClient)
