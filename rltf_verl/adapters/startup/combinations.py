"""Settings of ours that only the whole config can judge."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.compat import ENGINES_WITH_SEEDS
from rltf_verl.config import RLTFConfig
from rltf_verl.episode.parts import Parts
from rltf_verl.feedback import has_trait
from rltf_verl.objectives import objectives_of


def own_combinations(config: DictConfig, parts: Parts) -> list[tuple[bool, str]]:
    """(it works, what to say when it does not)."""
    rltf = parts.config
    rollout, episode, name = (
        config.actor_rollout_ref.rollout,
        rltf.episode,
        rltf.feedback.provider.name,
    )
    return [
        *_control_combinations(config, rltf),
        (
            rollout.n > 1 or not all(o.compares_siblings for o in objectives_of(rltf) if o.enabled),
            (
                f"actor_rollout_ref.rollout.n={rollout.n}: a group of one is its own baseline"
                f" (rltf.attempt.estimator={rltf.attempt.estimator}), so nothing would be trained;"
                " set it to 8, or the estimator to none"
            ),
        ),
        (
            episode.branch_turn is None or not has_trait("self_written", rltf.feedback.block),
            (
                f"rltf.episode.branch_turn={episode.branch_turn}: revisions share one critique,"
                " which could not be credited with any of them; choose another"
                f" rltf.feedback.provider than {name}, or null"
            ),
        ),
        (
            not episode.pair_sessions or rollout.n % 2 == 0,
            (
                f"actor_rollout_ref.rollout.n={rollout.n}: rltf.episode.pair_sessions=true needs an"
                " even number of episodes"
            ),
        ),
        (
            not episode.pair_sessions or not str(config.trainer.v1.trainer_mode).endswith("_async"),
            (
                "rltf.episode.pair_sessions=true: with"
                f" trainer.v1.trainer_mode={config.trainer.v1.trainer_mode} an interrupted first"
                " answer continues with new weights and need not be shared; use rltf_sync, or"
                " set it to false"
            ),
        ),
        (
            not episode.pair_sessions or rollout.name in ENGINES_WITH_SEEDS,
            (
                "rltf.episode.pair_sessions=true: two episodes share a first answer by sharing its"
                f" seed, which the engine {rollout.name} does not take; use"
                f" {' or '.join(ENGINES_WITH_SEEDS)}, or set it to false"
            ),
        ),
        *_refill_combinations(config, rltf),
    ]


def _control_combinations(config: DictConfig, rltf: RLTFConfig) -> list[tuple[bool, str]]:
    """The same for providers whose episodes wait for each other, to speak of the group's attempts
    or of another problem.
    """
    name, branch = rltf.feedback.provider.name, rltf.episode.branch_turn
    if not has_trait("waits_for_others", rltf.feedback.block):
        return []
    line = (
        branch is None,
        (
            f"rltf.episode.branch_turn={branch}: episodes of provider {name} wait for each"
            " other turn by turn, and a tree has several attempts at one; set it to null"
        ),
    )
    if not has_trait("quotes_other_problems", rltf.feedback.block):
        return [line]
    size, workers = config.data.train_batch_size, config.actor_rollout_ref.rollout.agent.num_workers
    mode = str(config.trainer.v1.trainer_mode)
    share = -(-size // workers)  # verl gives each worker that many, and the last one what is left
    return [
        line,
        (
            not mode.endswith("_async"),
            (
                f"rltf.feedback.provider={name}: with trainer.v1.trainer_mode={mode} problems are"
                " played one by one; use rltf_sync"
            ),
        ),
        (
            share > 1 and size % share != 1,
            (
                f"data.train_batch_size={size}: with"
                f" actor_rollout_ref.rollout.agent.num_workers={workers} a worker plays one problem"
                f" alone, and provider {name} needs another one; set the batch to a multiple of"
                f" {2 * workers}"
            ),
        ),
        (
            not rltf.refill_rounds,
            (
                f"rltf.refill_rounds={rltf.refill_rounds}: further problems are played alone, and"
                f" provider {name} needs another one; set it to 0"
            ),
        ),
    ]


def _refill_combinations(config: DictConfig, rltf: RLTFConfig) -> list[tuple[bool, str]]:
    """The same for `rltf.refill_rounds`, which plays single further problems when all episodes have
    ended.
    """
    key, off = f"rltf.refill_rounds={rltf.refill_rounds}", "or rltf.refill_rounds=0"
    mode, size = str(config.trainer.v1.trainer_mode), config.data.get("gen_batch_size")
    return [
        (
            not rltf.refill_rounds or not mode.endswith("_async"),
            (
                f"{key}: with trainer.v1.trainer_mode={mode} a batch is what is ready, and no round"
                " ever ends; use rltf_sync, or set it to 0"
            ),
        ),
        (
            not rltf.refill_rounds or size in (None, 1),
            (
                f"data.gen_batch_size={size}: {key} plays single further problems; set it to null,"
                f" {off}"
            ),
        ),
        (
            not rltf.refill_rounds or not OmegaConf.select(config, "skip.rollout_tq.enable"),
            (
                f"skip.rollout_tq.enable=True: a batch of {key} is not what was recorded; set it to"
                f" False, {off}"
            ),
        ),
    ]
