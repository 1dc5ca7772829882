"""The CPU platform is opt-in, each patch still has its reason; `+rltf/hardware=...` on verl's own
trainer config, found through the search path, and the weight buckets it sizes.
"""

import platform
import resource
from types import SimpleNamespace

import psutil
import pytest
import torch

from rltf_verl import plugin
from rltf_verl.cpu import bf16, hooks
from rltf_verl.cpu.platform import give_back, keep_freed
from tests.support.configs import composed


@pytest.mark.parametrize(
    ("variable", "chosen"), [("cpu", True), ("CPU ", True), ("nvidia", False), ("", False)]
)
def test_only_the_variable_chooses_the_cpu(monkeypatch, variable, chosen):
    from verl.plugin.platform import platform_manager

    monkeypatch.setenv("VERL_PLATFORM", variable)
    plugin._on_cpu("register_platform")(platform_manager)
    assert (platform_manager._detect_platform_name() == "cpu") is chosen
    fake = fake_distributed([])
    plugin._on_cpu("patch_process_group")(fake)
    assert hasattr(fake.initialize_global_process_group_ray, "__wrapped__") is chosen


def fake_distributed(seen):
    def initialize_global_process_group_ray(timeout_second=None, backend=None):
        seen.append((timeout_second, backend))

    def initialize_global_process_group(timeout_second=36000):
        raise AssertionError("verl's own, which asks for cpu:gloo,cpu:gloo")

    return SimpleNamespace(
        initialize_global_process_group_ray=initialize_global_process_group_ray,
        initialize_global_process_group=initialize_global_process_group,
    )


def test_torch_still_refuses_the_backend_that_verl_asks_for():
    """When this fails, drop or adapt `hooks.patch_process_group`."""
    with pytest.raises(ValueError, match="Duplicate device type cpu"):
        torch.distributed.BackendConfig("cpu:gloo,cpu:gloo")


def test_process_groups_are_built_with_gloo_unless_the_caller_chose(monkeypatch):
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    for name, number in (("LOCAL_RANK", "1"), ("RANK", "3"), ("WORLD_SIZE", "4")):
        monkeypatch.setenv(name, number)
    seen = []
    module = fake_distributed(seen)
    for _ in range(2):  # idempotent
        hooks.patch_process_group(module)
    module.initialize_global_process_group_ray(5)
    module.initialize_global_process_group_ray(timeout_second=None, backend="cpu:gloo")
    assert module.initialize_global_process_group(timeout_second=7) == (1, 3, 4)
    assert seen == [(5, "gloo"), (None, "cpu:gloo"), (7, "gloo")]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others keep less")
def test_freed_memory_goes_back_to_the_system():
    pieces = [torch.ones(25_000) for _ in range(2000)]  # 200 MB, each below what glibc maps
    del pieces[::2]
    before = psutil.Process().memory_info().rss
    give_back()
    assert psutil.Process().memory_info().rss < before - 50e6
    assert len(pieces) == 1000


def test_large_tensors_take_the_memory_that_was_freed():
    def cleared_pages():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(6_000_000)  # 24 MB, 5 900 pages
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    keep_freed()
    assert min(cleared_pages() for _ in range(5)) < 1000
    give_back()
    assert cleared_pages() > 4_000


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
    assert actor.key.endswith(".mixed_precision.param_dtype")
    assert rollout.key.endswith("rollout.dtype")
    assert {actor.level, rollout.level} == {"warning"}


@pytest.mark.parametrize(("limit", "sizes"), [(1, [1, 1, 1]), (16, [2, 1]), (1000, [3])])
async def test_weights_are_sent_in_buckets(limit, sizes):
    from rltf_verl.cpu.checkpoint_engine import buckets

    weights = [(str(i), torch.zeros(2)) for i in range(3)]
    made = [bucket async for bucket in buckets(weights, limit)]
    assert [len(bucket) for bucket in made] == sizes
    assert [name for bucket in made for name, _ in bucket] == ["0", "1", "2"]
