"""What verl sends of an adapter under FSDP1 by the installed peft, and the refusal."""

from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import distributed
from torch.distributed.fsdp import FullyShardedDataParallel
from transformers import AutoModelForCausalLM
from verl.utils.fsdp_utils import collect_lora_params, get_fsdp_wrap_policy

from rltf_verl.adapters.compat import finds_adapter_under_fsdp1
from rltf_verl.adapters.startup.rules import ACTOR, MODEL, rule_findings

POLICY = Path(__file__).parents[3] / "recipes" / "demo" / "policy"
LORA = f"{MODEL}.lora_rank=4"


@pytest.fixture
def adapter():
    """A policy with an adapter as verl wraps it, in a process group of one."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    base = AutoModelForCausalLM.from_pretrained(POLICY)
    model = get_peft_model(base, LoraConfig(r=4, target_modules="all-linear"))
    wrapped = get_fsdp_wrap_policy(model, is_lora=True)
    device = torch.device("cpu")
    yield FullyShardedDataParallel(model, auto_wrap_policy=wrapped, device_id=device)
    distributed.destroy_process_group()


def test_an_adapter_that_is_not_sent_is_refused(adapter, verl_config):
    sent = collect_lora_params(adapter, layered_summon=False, base_sync_done=True)
    assert bool(sent) == finds_adapter_under_fsdp1()

    def refused(*words):
        found = rule_findings(verl_config(*words, f"{ACTOR}.strategy=fsdp"), "error")
        return [each.key for each in found]

    assert refused(LORA) == ([] if sent else [f"{ACTOR}.strategy"])
    assert refused() == refused(LORA, f"{MODEL}.lora.merge=true") == []
