"""Updates that share π_old: which losses then have nothing that holds them near it."""

from __future__ import annotations

from omegaconf import DictConfig

from rltf_verl.config import RLTFConfig

CLIPPED = "choose rltf_ppo, which has the same gradient while the ratio stays within its bounds"


def trust_region_warnings(config: DictConfig, rltf: RLTFConfig) -> list[str]:
    """What to log about losses that no trust region holds; with one update per π_old there is
    nothing to hold.
    """
    actor = config.actor_rollout_ref.actor
    counts = {
        "rltf.updates_per_batch": rltf.updates_per_batch,
        "actor_rollout_ref.actor.ppo_epochs": actor.ppo_epochs,
    }
    if str(config.trainer.v1.trainer_mode).endswith("separate_async"):
        syncs = "trainer.v1.separate_async.parameter_sync_step"
        counts[syncs] = config.trainer.v1.separate_async.parameter_sync_step
    several = ", ".join(f"{key}={count}" for key, count in counts.items() if count > 1)
    if not several:
        return []
    warnings, loss = [], actor.policy_loss.get("loss_mode", "vanilla")
    if rltf.attempt.weight > 0 and loss == "importance_sampling":
        warnings.append(
            f"actor_rollout_ref.actor.policy_loss.loss_mode={loss}: nothing clips the ratio, which"
            f" moves away from 1 when several updates share old log-probs ({several}); {CLIPPED}"
        )
    repeated = actor.ppo_epochs > 1
    if repeated and rltf.distill.enabled and rltf.distill.reference == "current":
        warnings.append(
            "rltf.distill.reference=current: distillation rows have no ratio, so every one of the"
            f" actor_rollout_ref.actor.ppo_epochs={actor.ppo_epochs} epochs pushes them as far"
            " again; set it to old with rltf.distill.loss=ppo, or lower rltf.distill.weight"
        )
    return warnings
