"""`rltf/hardware=gpu`: what it sets, what it leaves to others."""

import pytest

from tests.support.configs import composed

GPU, CPU = "rltf/hardware=gpu", "rltf/hardware=cpu"
PAIRED = "rltf/method=dual_critique"


def seed_strategy_units(*words):
    config = composed("rltf", "actor_rollout_ref.model.path=/nowhere", *words)
    storage = config.transfer_queue.backend.SimpleStorage
    actor = config.actor_rollout_ref
    assert actor.ref.strategy == actor.actor.strategy
    return config.rltf.seed, actor.actor.strategy, storage.num_data_storage_units


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], (None, "fsdp2", 2)),
        ([GPU, "actor_rollout_ref.actor.strategy=fsdp"], (None, "fsdp", 2)),
        (["rltf.seed=3"], (3, "fsdp2", 2)),
        (["model_engine=megatron"], (None, "megatron", 2)),
        (["model_engine=veomni"], (None, "veomni", 2)),
        ([CPU], (0, "fsdp2", 1)),
        ([f"{GPU}_small"], (0, "fsdp2", 2)),
        ([PAIRED], (0, "fsdp2", 2)),
        ([PAIRED, CPU], (0, "fsdp2", 1)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_seed_strategy_and_storage_units(words, expected):
    assert seed_strategy_units(*words) == expected
