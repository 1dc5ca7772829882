"""Weights that are saved on the CPU stay what they were while the model trains on."""

import inspect
from types import SimpleNamespace

import pytest
import torch
from torch import distributed
from verl.utils import fsdp_utils

from rltf_verl.adapters.cpu import hooks


@pytest.fixture
def sharded():
    """A model under FSDP2, in a process group of one."""
    from torch.distributed.fsdp import fully_shard

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield fully_shard(torch.nn.Linear(3, 2), mesh=distributed.init_device_mesh("cpu", (1,)))
    distributed.destroy_process_group()


def test_the_old_weights_come_back(sharded, monkeypatch):
    """With verl's function as it is, the copies are the live tensors."""
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    plain = inspect.unwrap(fsdp_utils.fsdp2_sharded_save_to_cpu)
    module = SimpleNamespace(fsdp2_sharded_save_to_cpu=plain)
    for _ in range(2):  # idempotent
        hooks.patch_model_copies(module)
    before = {name: p.full_tensor().clone() for name, p in sharded.named_parameters()}
    saved, live = module.fsdp2_sharded_save_to_cpu(sharded), plain(sharded)
    with torch.no_grad():
        for parameter in sharded.parameters():
            parameter.add_(1)
    for there, added in ((live, 1), (saved, 0)):
        fsdp_utils.fsdp2_sharded_load_from_cpu(sharded, *there)
        for name, parameter in sharded.named_parameters():
            assert torch.equal(parameter.full_tensor(), before[name] + added)
