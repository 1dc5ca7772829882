"""One step of training as a pure computation: from the rows and the settings to targets, columns,
constants of the update and metrics. It touches neither the queue nor the workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from omegaconf import DictConfig
from torch.nn.utils.rnn import pad_sequence
from transfer_queue import KVBatchMeta
from verl.protocol import DataProto
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_add_to_batch
from verl.workers.config import ActorConfig

from rltf_verl.adapters.metrics.episodes import SPENT, episode_metrics, lost_share
from rltf_verl.adapters.metrics.roles import role_metrics, sampling_metrics
from rltf_verl.adapters.queue.columns import SAMPLER_LOG_PROBS
from rltf_verl.adapters.queue.step_rows import StepRows
from rltf_verl.adapters.startup.rules import TOKEN_SUM_LOSSES
from rltf_verl.adapters.training.logit_loss import NUM_TOKENS, WEIGHT
from rltf_verl.adapters.training.loss import DENOMINATOR
from rltf_verl.adapters.training.teacher import (
    TeacherOutput,
    teacher_columns,
    teacher_metrics,
    token_places,
)
from rltf_verl.algos.targets import RowBatch, RowTargets, sampled_tokens
from rltf_verl.config import RLTFConfig
from rltf_verl.objectives import Method
from rltf_verl.objectives.base import Now
from rltf_verl.objectives.targets import compute_targets
from rltf_verl.objectives.teacher import weigh_teacher_tokens
from rltf_verl.sampler import ROLLOUT_NAME

LIVE = "rltf_live"
"""Tag of the rows that the update needs."""

BEYOND_ADVANTAGES = {"dro", "clip_cov", "kl_cov"}
"""Policy losses of verl that pull at tokens without advantage, or choose tokens by what all others
have.
"""

EXACT = 1e-4
"""Nats by which the log-probs of sampler and actor may differ where one replaces the other."""

LEAST_POLL_S = 0.05
"""Seconds between two looks at the queue, at least."""
POLL_S_PER_ROW = 5e-5
"""Seconds between two looks at the queue, for each row of a step: about twenty times what a look
takes (`benchmarks/driver.py`), during which the queue serves no other.
"""

EVICTED_GROUPS = "training/rollout_failure/evicted_samples"
"""verl's count of groups that it drops because an episode raised, and replaces."""


@dataclass(frozen=True)
class StepSettings:
    """Inputs of a step besides its rows."""

    method: Method
    verl: DictConfig
    """The whole trainer config."""
    now: Now
    parameter_sync_step: int = 1
    """Updates between two synchronisations of the rollout; each has its part of the batch."""

    @property
    def weights(self) -> dict[str, float]:
        """Coefficient of each objective."""
        return self.method.weights(self.now)


@dataclass(frozen=True)
class StepResult:
    """Results of a step's equations: L tokens of N rows."""

    targets: RowTargets
    columns: Mapping[str, torch.Tensor]
    """[L] values of tokens."""
    teacher_columns: Mapping[str, torch.Tensor]
    """Ragged, of all rows in the queue; empty where the teacher's loss is 0."""
    constants: Mapping[str, float]
    """Numbers of the whole update for the loss."""
    live: torch.Tensor
    """[N] bool: rows that the update needs."""
    metrics: dict[str, Any]

    def write(self, rows: StepRows) -> KVBatchMeta:
        """Write all columns to the queue in one entry; constants and tags go with the batch."""
        batch = rows.write(self.columns, self.teacher_columns)
        batch.extra_info.update(self.constants)
        for i, live in zip(rows.at, self.live.tolist(), strict=True):
            batch.tags[i][LIVE] = live
        return batch


def compute_step(
    rows: StepRows,
    settings: StepSettings,
    teacher: TeacherOutput | None = None,
    before: Mapping[str, float] | None = None,
) -> StepResult:
    """Advantages of every token by its role (`objectives.targets`), and the teacher's columns.

    Args:
        rows: the rows.
        settings: the step's.
        teacher: the teacher's answer, where there is one.
        before: metrics of the step so far: replaced groups' spending is added to.
    """
    method, batch, rltf = settings.method, rows.batch, settings.method.config
    correction = settings.verl.algorithm.get("rollout_correction")
    trust, corrected = rollout_correction(batch, correction)
    weights = settings.weights
    targets = compute_targets(batch, method, weights)
    token_weights = torch.zeros(0)
    if teacher is not None:
        place = token_places(teacher.inputs, batch)
        targets, token_weights = weigh_teacher_tokens(
            rltf, batch, targets, place, teacher.gap, teacher.entropy, weights
        )
    pulls = row_pulls(batch, targets, teacher, weights["logit_distill"] * token_weights)
    live = pulls != 0  # not `> 0`: a row whose advantage is NaN must reach the update's own check
    # The constant under every role's token sum: episodes per update × response budget.
    budget = float(settings.verl.data.max_response_length)
    constants = {DENOMINATOR: len(rows.facts) * budget / rltf.updates_per_batch}
    of_teacher: dict[str, torch.Tensor] = {}
    if teacher is not None and bool(token_weights.any()):
        of_teacher = teacher_columns(rows, teacher, token_weights, rltf.logit_distill)
        constants[WEIGHT] = weights["logit_distill"]
        constants[NUM_TOKENS] = _num_teacher_tokens(settings, teacher, live)
    metrics = {
        **sampling_metrics(batch, rows.entropy),
        **corrected,
        **role_metrics(method.token_owners, batch, targets, weights),
        **_teacher_metrics(rows, rltf, weights["logit_distill"], teacher, token_weights),
        **_episode_metrics(rows, settings, before or {}),
        "rltf/update/live_tokens": float((targets.advantages != 0).float().mean()),
    }
    columns = target_columns(batch, targets, trust)
    return StepResult(targets, columns, of_teacher, constants, live, metrics)


def _num_teacher_tokens(
    settings: StepSettings, teacher: TeacherOutput, live: torch.Tensor
) -> float:
    """Tokens with a teacher per update. Rows that the update leaves out add nothing to its sum."""
    skips = skips_idle_rows(settings.verl.actor_rollout_ref.actor)
    inputs = (x for x in teacher.inputs if live[x.row] or not skips)
    return sum(len(x.response) for x in inputs) / settings.method.config.updates_per_batch


def _teacher_metrics(
    rows: StepRows,
    rltf: RLTFConfig,
    weight: float,
    teacher: TeacherOutput | None,
    token_weights: torch.Tensor,
) -> dict[str, float]:
    if weight == 0:
        return {}
    means = {"weight": weight}
    weighs = rltf.teacher.gate.name != "none" or bool(rltf.logit_distill.entropy_decay)
    if teacher is not None and weighs:
        means["token_weight"] = float(token_weights.mean())
    return teacher_metrics(teacher, rows, means)


def _episode_metrics(
    rows: StepRows, settings: StepSettings, before: Mapping[str, float]
) -> dict[str, float]:
    metrics = episode_metrics(rows.facts, settings.method.config.episode.horizon)
    # A group that verl drops is lost as a whole, and another is played in its place.
    groups = settings.verl.data.train_batch_size // settings.parameter_sync_step
    groups += before.get(EVICTED_GROUPS, 0)
    num_episodes = int(groups * settings.verl.actor_rollout_ref.rollout.n)
    share = lost_share(len(rows.facts), num_episodes)
    metrics |= {name: metrics[name] + before.get(name, 0.0) for name in SPENT}
    return metrics | {"rltf/session/lost_share": share}


def poll_interval(config: DictConfig, rltf: RLTFConfig, most: float) -> float:
    """Seconds between two looks at the queue: they grow with the rows of a step, to `most`."""
    episodes: int = config.data.train_batch_size * config.actor_rollout_ref.rollout.n
    return max(LEAST_POLL_S, min(most, POLL_S_PER_ROW * episodes * rltf.episode.horizon))


def may_reuse_log_probs(config: DictConfig, method: Method) -> bool:
    """True if the sampler's log-probs may be the old ones, so that no pass of the actor is needed.

    One update of the weights that sampled, all trained tokens sampled under their row's prompt, and
    an engine that computes as the actor does: in fp32 on the CPU. `is_exact` measures it.
    """
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    rltf = method.config
    return (
        rollout.name == ROLLOUT_NAME
        and rollout.dtype == "float32"
        and actor.fsdp_config.mixed_precision.param_dtype == "fp32"
        and rltf.updates_per_batch * actor.ppo_epochs == 1
        and all(own.sampled for own in method.token_owners if own.enabled)
        and _sampler_stands_in(config, rltf)
    )


def may_leave_unscored(config: DictConfig, rltf: RLTFConfig) -> bool:
    """True if a row that trains nothing needs no pass of the actor: the sampler, which has its
    weights, says how likely the tokens are (`needs_scoring`).
    """
    return skips_idle_rows(config.actor_rollout_ref.actor) and _sampler_stands_in(config, rltf)


def _sampler_stands_in(config: DictConfig, rltf: RLTFConfig) -> bool:
    """True if the sampler reports full-distribution log-probs and rollout correction is off."""
    rollout = config.actor_rollout_ref.rollout
    correction = config.algorithm.get("rollout_correction") or {}
    return (
        rollout.calculate_log_probs
        and (rollout.top_p, rollout.top_k) == (1.0, -1)
        and not rltf.teaches
        and not (correction.get("rollout_is") or correction.get("rollout_rs"))
    )


def needs_scoring(batch: RowBatch, settings: StepSettings) -> torch.Tensor:
    """[N] bool: rows with a token that has an advantage, or that was not sampled under the row's
    prompt, so that only the actor can say how likely it is. Call it before the actor's pass.
    """
    advantages = compute_targets(batch, settings.method, settings.weights, scored=False).advantages
    foreign = (batch.role >= 0) & ~sampled_tokens(batch.role)
    return _rows_with(batch, (advantages != 0) | foreign)


def is_exact(batch: RowBatch) -> bool:
    """True if the actor's log-probs of sampled tokens are the sampler's."""
    gap = (batch.old_log_probs - batch.sampler_log_probs)[sampled_tokens(batch.role)].abs()
    return bool((gap <= EXACT).all())


def row_pulls(
    batch: RowBatch,
    targets: RowTargets,
    teacher: TeacherOutput | None,
    token_weights: torch.Tensor,
) -> torch.Tensor:
    """[N] Σ over a row's tokens of the sizes of its advantages and its weights in the teacher's
    loss; 0 for a row that the update does not need.
    """
    pulls = torch.zeros(len(batch.lengths))
    pulls.index_add_(0, _row_of_token(batch), targets.advantages.abs())
    if teacher is not None:
        by_input = token_weights.split([len(x.response) for x in teacher.inputs])
        for x, weights in zip(teacher.inputs, by_input, strict=True):
            pulls[x.row] += weights.abs().sum()
    return pulls


def _rows_with(batch: RowBatch, tokens: torch.Tensor) -> torch.Tensor:
    """[N] bool: rows that have one of the [L] tokens."""
    found = torch.zeros(len(batch.lengths), dtype=torch.bool)
    found[_row_of_token(batch)[tokens]] = True
    return found


def _row_of_token(batch: RowBatch) -> torch.Tensor:
    """[L] int64."""
    return torch.arange(len(batch.lengths)).repeat_interleave(batch.lengths)


def skips_idle_rows(actor: ActorConfig) -> bool:
    """True if a row that is not live has no gradient: nothing pulls at its tokens but their
    advantages.
    """
    mode = actor.policy_loss.get("loss_mode", "vanilla")
    by_advantage = mode in TOKEN_SUM_LOSSES and mode not in BEYOND_ADVANTAGES
    return by_advantage and actor.entropy_coeff == 0 and not actor.use_kl_loss


def rows_with_tag(tag: str, rows: KVBatchMeta, multiple: int) -> KVBatchMeta:
    """The rows with the tag, and the shortest of the others up to a number that the workers can
    split.

    Args:
        tag: `LIVE` or `SCORED`.
        rows: all rows of the batch, a multiple of them.
        multiple: what the number must be divisible by.
    """
    live = [i for i, tags in enumerate(rows.tags) if tags.get(tag)]
    # Shortest first: a row that only fills should cost little.
    idle = sorted(set(range(len(rows))) - set(live), key=lambda i: rows.tags[i]["seq_len"])
    # −n mod m is what n lacks to the next multiple. Without a live row one multiple of idle ones
    # stays.
    num_fill = -len(live) % multiple if live else multiple
    return rows.select_keys([rows.keys[i] for i in sorted(live + idle[:num_fill])])


def update_settings(config: DictConfig, num_rows: int, *, reads_logits: bool) -> dict[str, Any]:
    """Settings of verl's `update_actor` besides the rows: one optimiser update per `num_rows`.

    Args:
        config: `actor_rollout_ref`.
        num_rows: rows of one update.
        reads_logits: the loss needs the logits of this update.
    """
    actor = config.actor
    return {
        "calculate_entropy": actor.calculate_entropy or actor.entropy_coeff != 0.0,
        "distillation_use_topk": reads_logits,
        "distillation_only": False,
        "global_batch_size": num_rows,
        "mini_batch_size": num_rows,
        "epochs": actor.ppo_epochs,
        "seed": actor.data_loader_seed,
        "dataloader_kwargs": {"shuffle": actor.shuffle},
        "temperature": config.rollout.temperature,
    }


def target_columns(
    batch: RowBatch, targets: RowTargets, trust: torch.Tensor | None = None
) -> dict[str, torch.Tensor]:
    """[L] columns by the names that the loss and verl know.

    Args:
        batch: the rows.
        targets: what they are trained on.
        trust: [L] weights of verl's rollout correction, where it is on.
    """
    columns = {
        "advantages": targets.advantages,
        "returns": targets.advantages,
        # The sampler's log-probs of what was sampled elsewhere belong to another prompt; under
        # verl's name they would pass for this row's.
        SAMPLER_LOG_PROBS: batch.sampler_log_probs,
        "rollout_log_probs": torch.where(
            sampled_tokens(batch.role), batch.sampler_log_probs, batch.old_log_probs
        ),
    }
    # `is not`: an objective that has its own reference makes another tensor. Else the queue's
    # column holds these values already, unless some rows were not scored.
    if targets.ref_log_probs is not batch.old_log_probs or batch.scored is not None:
        columns["old_log_probs"] = targets.ref_log_probs
    if trust is not None:
        columns["rollout_is_weights"] = trust
    return columns


def rollout_correction(
    batch: RowBatch, config: Any
) -> tuple[torch.Tensor | None, dict[str, float]]:
    """verl's rollout correction of what the policy sampled; other tokens have no ratio.

    Args:
        batch: the rows.
        config: verl's `algorithm.rollout_correction`.

    Returns:
        [L] weights of verl's policy losses (its importance weight, 0 where it rejects the token, 1
            where nothing was sampled) and its metrics; None and nothing where it is off.
    """
    if not config or not (config.get("rollout_is") or config.get("rollout_rs")):
        return None, {}
    sampled = sampled_tokens(batch.role)
    mask = _rectangle(batch, sampled)
    # [N] bool: verl's means over sequences would count rows without a sampled token too.
    rows = mask.any(dim=1)
    if not rows.any():
        return None, {}
    data = DataProto.from_single_dict(
        {
            "old_log_probs": _rectangle(batch, batch.old_log_probs)[rows],
            "rollout_log_probs": _rectangle(batch, batch.sampler_log_probs)[rows],
            "response_mask": mask[rows].float(),
        }
    )
    data, metrics = compute_rollout_correction_and_add_to_batch(data, config)
    kept = data.batch["response_mask"] * data.batch.get("rollout_is_weights", torch.ones(()))
    weights = torch.ones_like(batch.old_log_probs)
    # Both masks list the sampled tokens in the order of the rows.
    weights[sampled] = kept[mask[rows]].float()
    return weights, metrics


def _rectangle(batch: RowBatch, values: torch.Tensor) -> torch.Tensor:
    """[L] -> [N, T], 0 where a row has no token: verl looks at rows."""
    return pad_sequence(batch.by_row(values), batch_first=True)
