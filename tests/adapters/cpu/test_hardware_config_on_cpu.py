"""`+rltf/hardware=...` on verl's own trainer config, found through the search path, and the weight
buckets it sizes.
"""

import pytest
import torch


def compose(hardware: str):
    import verl  # noqa: F401  loads the plugin, which adds the search path
    from hydra import compose, initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=[f"+rltf/hardware={hardware}"] if hardware else [])


def test_cpu_turns_every_gpu_default_off():
    config = compose("cpu")
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
    plain, ours = compose("cpu"), compose("cpu_vllm")
    rollout = ours.actor_rollout_ref.rollout
    assert (rollout.name, rollout.enforce_eager, rollout.enable_sleep_mode) == ("vllm", True, False)
    del rollout.enable_sleep_mode
    rollout.name, rollout.enforce_eager = (
        "transformers",
        plain.actor_rollout_ref.rollout.enforce_eager,
    )
    assert ours == plain


def test_gpu_changes_nothing():
    assert compose("gpu") == compose("")


@pytest.mark.parametrize(("limit", "sizes"), [(1, [1, 1, 1]), (16, [2, 1]), (1000, [3])])
async def test_weights_are_sent_in_buckets(limit, sizes):
    from rltf_verl.adapters.cpu.buckets import buckets

    weights = [(str(i), torch.zeros(2)) for i in range(3)]
    found = [bucket async for bucket in buckets(weights, limit)]
    assert [len(bucket) for bucket in found] == sizes
    assert [name for bucket in found for name, _ in bucket] == ["0", "1", "2"]
