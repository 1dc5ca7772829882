"""Weights that are saved on the CPU stay what they were while the model trains on."""

import inspect
from types import SimpleNamespace

import pytest
import torch
from torch import distributed

from rltf_verl.adapters.cpu import model_copies


@pytest.fixture
def sharded():
    """A model under FSDP2, in a process group of one."""
    from torch.distributed.fsdp import fully_shard

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield fully_shard(torch.nn.Linear(3, 2), mesh=distributed.init_device_mesh("cpu", (1,)))
    distributed.destroy_process_group()


def add_one(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)


def test_verl_still_keeps_the_live_tensors(sharded):
    """When this fails, verl copies by itself: drop `model_copies`."""
    from verl.utils import fsdp_utils

    saved, _ = inspect.unwrap(fsdp_utils.fsdp2_sharded_save_to_cpu)(sharded)
    assert all(
        saved[name][0].data_ptr() == p.to_local().data_ptr()
        for name, p in sharded.named_parameters()
    )


def test_the_old_weights_come_back(sharded):
    from verl.utils import fsdp_utils

    module = SimpleNamespace(
        fsdp2_sharded_save_to_cpu=inspect.unwrap(fsdp_utils.fsdp2_sharded_save_to_cpu)
    )
    model_copies.patch(module)
    model_copies.patch(module)  # idempotent
    before = {name: p.full_tensor().clone() for name, p in sharded.named_parameters()}
    saved = module.fsdp2_sharded_save_to_cpu(sharded)
    add_one(sharded)
    assert all(
        torch.equal(p.full_tensor(), before[name] + 1) for name, p in sharded.named_parameters()
    )
    fsdp_utils.fsdp2_sharded_load_from_cpu(sharded, *saved)
    assert all(torch.equal(p.full_tensor(), before[name]) for name, p in sharded.named_parameters())
