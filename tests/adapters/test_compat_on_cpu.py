"""What `compat` mends and knows of FSDP: weights that are saved on the CPU stay what they were
while the model trains on, and what verl sends of an adapter under FSDP1 by the installed peft.
"""

import inspect
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import distributed
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from transformers import AutoModelForCausalLM
from verl.utils import fsdp_utils

from rltf_verl.adapters.compat import finds_adapter_under_fsdp1, patch_model_copies

SAVE, RESTORE = "fsdp2_sharded_save_to_cpu", "fsdp2_sharded_load_from_cpu"
OF_FSDP1 = "fsdp1_sharded_load_from_cpu"
"""Its effect: tests/e2e/test_gpu_rehearsal_e2e.py."""


POLICY = Path(__file__).parents[2] / "recipes" / "demo" / "policy"


@pytest.fixture
def group_of_one():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.fixture
def sharded(group_of_one):
    """A model under FSDP2."""
    return fully_shard(torch.nn.Linear(3, 2), mesh=distributed.init_device_mesh("cpu", (1,)))


def update(model, offload):
    """Add 1 to every weight; with `offload` in other memory, as on a GPU and back."""
    with torch.no_grad():
        if offload:
            model._apply(torch.clone)
        for parameter in model.parameters():
            parameter.add_(1)


@pytest.mark.parametrize(
    ("patched", "offload", "olds", "currents"),
    [
        (True, True, [0, 0], [1, 2]),
        (True, False, [0, 0], [1, 2]),
        # by verl's both updates are lost, or π_old is the current policy
        (False, True, [0, 0], [0, 0]),
        (False, False, [1, 2], [1, 2]),
    ],
)
def test_a_cycle_of_updates_keeps_all_of_them(sharded, patched, offload, olds, currents):
    """Calls of `PPOTrainerSeparateAsync._compute_old_log_prob` with `parameter_sync_step=3`."""
    waits = []
    module = SimpleNamespace(  # verl's own functions
        get_torch_device=lambda: SimpleNamespace(synchronize=lambda: waits.append(1)),
        **{name: inspect.unwrap(getattr(fsdp_utils, name)) for name in (SAVE, RESTORE, OF_FSDP1)},
    )
    for _ in range(2 * patched):  # idempotent
        patch_model_copies(module)
    save, restore = getattr(module, SAVE), getattr(module, RESTORE)
    start, saved, old, current = next(sharded.parameters()).full_tensor().clone(), {}, [], []

    def above_start():
        return (next(sharded.parameters()).full_tensor() - start).mean().round().item()

    saved[0] = save(sharded)
    for step in (1, 2):
        update(sharded, offload)
        saved[step] = save(sharded)
        restore(sharded, *saved[0])
        old.append(above_start())
        restore(sharded, *saved[step])
        current.append(above_start())
    assert old == olds
    assert current == currents
    assert len(waits) == 7 * patched


def test_verl_s_functions_are_ours_on_every_platform(monkeypatch):
    code = (
        "import verl\n"
        "from verl.utils import fsdp_utils as f\n"
        f"assert hasattr(f.{SAVE}, '__wrapped__') and hasattr(f.{RESTORE}, '__wrapped__')\n"
        "f.get_torch_device().synchronize\n"
    )
    monkeypatch.delenv("VERL_PLATFORM", raising=False)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_where_an_adapter_is_not_sent_under_fsdp1_is_known(group_of_one):
    """Of a policy as verl wraps it; there `startup/test_rules_on_cpu.py` refuses it."""
    base = AutoModelForCausalLM.from_pretrained(POLICY)
    model = get_peft_model(base, LoraConfig(r=4, target_modules="all-linear"))
    units, device = fsdp_utils.get_fsdp_wrap_policy(model, is_lora=True), torch.device("cpu")
    adapter = FullyShardedDataParallel(model, auto_wrap_policy=units, device_id=device)
    sent = fsdp_utils.collect_lora_params(adapter, layered_summon=False, base_sync_done=True)
    assert bool(sent) == finds_adapter_under_fsdp1()
