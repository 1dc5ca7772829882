"""The CPU platform is opt-in, and each patch still has its reason."""

import platform
import resource
from types import SimpleNamespace

import psutil
import pytest
import torch

from rltf_verl import plugin
from rltf_verl.cpu import hooks
from rltf_verl.cpu.platform import give_back, keep_freed


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
