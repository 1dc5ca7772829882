"""What verl's trainer modes ask of the rest of the config, said before a worker starts."""

from __future__ import annotations

from omegaconf import DictConfig


def mode_combinations(config: DictConfig) -> list[tuple[bool, str]]:
    """(it works, what to say when it does not) for `trainer.v1.trainer_mode`."""
    mode = str(config.trainer.v1.trainer_mode)
    if mode.endswith("separate_async"):
        return _separate(config, mode)
    return []


def _separate(config: DictConfig, mode: str) -> list[tuple[bool, str]]:
    """verl asserts some of these itself, but only when Ray and the first actor run."""
    model, rollout = config.actor_rollout_ref.model, config.actor_rollout_ref.rollout
    problems, size = (
        config.data.train_batch_size,
        config.actor_rollout_ref.actor.ppo_mini_batch_size,
    )
    syncs, backend = (
        config.trainer.v1.separate_async.parameter_sync_step,
        rollout.checkpoint_engine.backend,
    )
    return [
        (
            rollout.nnodes > 0 and rollout.n_gpus_per_node > 0,
            (
                f"actor_rollout_ref.rollout.nnodes={rollout.nnodes},"
                f" n_gpus_per_node={rollout.n_gpus_per_node}: trainer.v1.trainer_mode={mode} plays"
                " on devices of its own; set both to at least 1"
            ),
        ),
        (
            backend != "naive",
            (
                "actor_rollout_ref.rollout.checkpoint_engine.backend=naive: cannot reach replicas"
                f" in other processes, as trainer.v1.trainer_mode={mode} wants; set it to nccl, or"
                " to cpu with rltf/hardware=cpu"
            ),
        ),
        (
            problems == syncs * size,
            (
                f"actor_rollout_ref.actor.ppo_mini_batch_size={size}:"
                f" trainer.v1.trainer_mode={mode} makes"
                f" trainer.v1.separate_async.parameter_sync_step={syncs} updates of as many"
                " problems between two synchronisations; set it to data.train_batch_size /"
                f" parameter_sync_step = {problems / syncs:g}"
            ),
        ),
        (
            not _has_adapter(model) or model.lora.merge,
            (
                "actor_rollout_ref.model.lora.merge=False: verl 0.9.1 sends replicas of their own"
                f" the base weights without the adapter; with trainer.v1.trainer_mode={mode} set it"
                " to True"
            ),
        ),
    ]


def _has_adapter(model: DictConfig) -> bool:
    return model.lora_rank > 0 or model.lora.rank > 0 or model.lora_adapter_path is not None
