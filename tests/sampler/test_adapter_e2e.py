"""Where the server of a replica runs, in a real Ray whose two GPUs are names only."""

import os

import pytest
import ray
from omegaconf import OmegaConf
from verl.plugin.platform import platform_manager
from verl.plugin.platform.platform_cuda import PlatformCUDA

from rltf_verl.sampler import adapter
from rltf_verl.sampler.adapter import TransformersReplica

from .test_server_on_cpu import ROLLOUT

pytestmark = pytest.mark.e2e


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setenv("VERL_PLATFORM", "nvidia")
    monkeypatch.setattr(platform_manager, "_current_platform", PlatformCUDA())
    ray.init(num_cpus=2, num_gpus=2, include_dashboard=False)
    yield
    ray.shutdown()


def visible(_: object) -> str | None:
    return os.environ.get("CUDA_VISIBLE_DEVICES")


async def test_each_server_sees_the_device_of_its_worker(two_gpus, monkeypatch):
    """The worker has claimed it, so the server claims none: Ray would show it no GPU, or all."""

    class Server:
        def __init__(self, *_):
            pass

        def ping(self):
            return None

    class Worker:
        pass

    monkeypatch.setattr(adapter, "TransformersServer", Server)
    workers = [ray.remote(num_gpus=1)(Worker).remote() for _ in range(2)]
    seen = []
    for rank, worker in enumerate(workers):
        replica = TransformersReplica(rank, OmegaConf.create(ROLLOUT), None, gpus_per_node=2)
        replica.workers = [worker]
        await replica.launch_servers()
        actors = worker, *replica.servers
        seen.append([await actor.__ray_call__.remote(visible) for actor in actors])
    assert sorted(seen) == [["0", "0"], ["1", "1"]]
