"""`+rltf/hardware=...` on verl's own trainer config, found through the search path, and the weight
buckets it sizes.
"""

import pytest
import torch

from rltf_verl.cpu import bf16
from tests.support.configs import composed


def stock(hardware: str):
    return composed("ppo_trainer", *([f"+rltf/hardware={hardware}"] if hardware else []))


def test_cpu_vllm_sends_the_largest_matrix_in_one_bucket():
    """vLLM takes no matrix in pieces."""
    rollout = stock("cpu_vllm").actor_rollout_ref.rollout
    vocabulary = 49_152 * 576 * 4  # of SmolLM2, in fp32
    assert rollout.checkpoint_engine.update_weights_bucket_megabytes * 2**20 > vocabulary


def test_cpu_bf16_changes_the_compute_and_nothing_else():
    plain, ours = stock("cpu"), stock("cpu_bf16")
    actor, rollout = ours.actor_rollout_ref.actor, ours.actor_rollout_ref.rollout
    assert actor.fsdp_config.model_dtype == "fp32"
    assert actor.fsdp_config.mixed_precision.reduce_dtype == "fp32"
    assert (actor.fsdp_config.mixed_precision.param_dtype, rollout.dtype) == ("bf16", "bfloat16")
    actor.fsdp_config.mixed_precision.param_dtype, rollout.dtype = "fp32", "float32"
    assert ours == plain


@pytest.mark.parametrize(
    ("cpuinfo", "known"),
    [
        ("processor\t: 0\nflags\t\t: fpu amx_bf16 sse\n", True),
        ("processor\t: 0\nflags\t\t: fpu avx512f sse\n", False),
        ("processor\t: 0\nFeatures\t: fp asimd bf16\n", True),
        ("", False),
    ],
)
def test_bf16_units_are_known_by_the_cpus_flags(tmp_path, cpuinfo, known):
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    assert bf16.has_bf16(tmp_path / "cpuinfo") == known


def test_bf16_without_units_is_slow_and_said_so(monkeypatch):
    monkeypatch.setattr(bf16, "has_bf16", lambda: False)
    config = stock("cpu_bf16")
    assert not list(bf16.slow_settings(stock("cpu")))
    actor, rollout = bf16.slow_settings(config)
    assert (actor.key.rpartition(".")[2], rollout.key.rpartition(".")[2]) == (
        "param_dtype",
        "dtype",
    )
    assert {actor.level, rollout.level} == {"warning"}
    assert "rltf/hardware=cpu" in rollout.fix


@pytest.mark.parametrize(("limit", "sizes"), [(1, [1, 1, 1]), (16, [2, 1]), (1000, [3])])
async def test_weights_are_sent_in_buckets(limit, sizes):
    from rltf_verl.cpu.checkpoint_engine import buckets

    weights = [(str(i), torch.zeros(2)) for i in range(3)]
    made = [bucket async for bucket in buckets(weights, limit)]
    assert [len(bucket) for bucket in made] == sizes
    assert [name for bucket in made for name, _ in bucket] == ["0", "1", "2"]
