"""Post-import hooks: offer the rollout engine to verl. Each imports it where it is chosen."""

from __future__ import annotations

from types import ModuleType

from rltf_verl.sampler import ROLLOUT_NAME

ADAPTER = "rltf_verl.sampler.adapter.TransformersAdapter"


def register_replica(replica: ModuleType) -> None:
    """Add the engine."""

    def load() -> type:
        from rltf_verl.sampler.adapter import TransformersReplica

        return TransformersReplica

    replica.RolloutReplicaRegistry.register(ROLLOUT_NAME, load)


def register_adapter(rollout_base: ModuleType) -> None:
    """Add the trainer's side of the engine."""
    rollout_base._ROLLOUT_REGISTRY[(ROLLOUT_NAME, "async")] = ADAPTER
