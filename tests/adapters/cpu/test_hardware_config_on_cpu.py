"""`+rltf/hardware=...` on verl's own trainer config, found through the search path, and the weight
buckets it sizes.
"""

import pytest
import torch

from tests.support.configs import composed


def stock(hardware: str):
    return composed("ppo_trainer", *([f"+rltf/hardware={hardware}"] if hardware else []))


def test_cpu_turns_every_gpu_default_off():
    config = stock("cpu")
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    assert (config.trainer.device, rollout.name, rollout.n_gpus_per_node) == (
        "cpu",
        "transformers",
        1,
    )
    assert config.trainer.n_gpus_per_node == 1
    assert (config.ray_kwargs.ray_init.num_gpus, rollout.checkpoint_engine.backend) == (16, "cpu")
    for role in (actor, config.actor_rollout_ref.ref):
        assert role.strategy == "fsdp2"
        assert set(role.fsdp_config.mixed_precision.values()) == {"fp32"}


def test_cpu_vllm_changes_the_rollout_and_nothing_else():
    plain, ours = stock("cpu"), stock("cpu_vllm")
    rollout = ours.actor_rollout_ref.rollout
    assert (rollout.name, rollout.enforce_eager, rollout.enable_sleep_mode) == ("vllm", True, False)
    del rollout.enable_sleep_mode
    rollout.name, rollout.enforce_eager = (
        "transformers",
        plain.actor_rollout_ref.rollout.enforce_eager,
    )
    assert ours == plain


def test_gpu_changes_nothing():
    assert stock("gpu") == stock("")


@pytest.mark.parametrize(("limit", "sizes"), [(1, [1, 1, 1]), (16, [2, 1]), (1000, [3])])
async def test_weights_are_sent_in_buckets(limit, sizes):
    from rltf_verl.adapters.cpu.buckets import buckets

    weights = [(str(i), torch.zeros(2)) for i in range(3)]
    found = [bucket async for bucket in buckets(weights, limit)]
    assert [len(bucket) for bucket in found] == sizes
    assert [name for bucket in found for name, _ in bucket] == ["0", "1", "2"]
