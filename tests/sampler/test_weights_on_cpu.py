"""Weights and adapters by the names under which verl's trainer sends them."""

import copy
import pickle

import pytest
import torch
from peft import LoraConfig, get_peft_model
from peft.utils.save_and_load import get_peft_model_state_dict

from rltf_verl.sampler.weights import load_adapter, load_weights, packed, unpacked

IDS = torch.arange(12).reshape(2, 6)


def trained(model, seed: int):
    """The actor as verl builds it: a `PeftModel` whose adapter does something."""
    actor = get_peft_model(
        copy.deepcopy(model), LoraConfig(r=4, lora_alpha=16, target_modules="all-linear")
    ).eval()
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in actor.named_parameters():
        if "lora_" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.2
    return actor


def sent_base(actor):
    """What verl sends first: the base weights, named as vLLM wants those of a model with
    adapters.
    """
    for name, tensor in actor.base_model.model.state_dict().items():
        if "lora_" not in name:
            wrapped = name.endswith("_proj.weight") and ".base_layer" not in name
            yield (
                (name.replace("_proj.weight", "_proj.base_layer.weight") if wrapped else name),
                tensor,
            )


def logits(model):
    with torch.no_grad():
        return model(input_ids=IDS).logits


def test_the_rollout_computes_what_the_actor_computes_after_every_adapter(model, other_model):
    rollout, base = other_model, model
    for seed in (1, 2):
        actor = trained(base, seed)
        if seed == 1:
            load_weights(rollout, sent_base(actor))
        config = actor.peft_config["default"].to_dict()
        load_adapter(rollout, get_peft_model_state_dict(actor).items(), config)
        assert torch.equal(logits(rollout), logits(actor)), (
            "the same numbers: the adapter is not merged"
        )
        assert (logits(rollout) - logits(base)).abs().max() > 0.1


def test_full_weights_still_load_under_an_adapter(model, other_model):
    actor = trained(model, 1)
    load_adapter(
        model, get_peft_model_state_dict(actor).items(), actor.peft_config["default"].to_dict()
    )
    load_weights(model, other_model.state_dict().items())
    expected = trained(other_model, 1)
    assert torch.equal(logits(model), logits(expected))


def test_unknown_names_are_refused(model):
    with pytest.raises(KeyError, match="no weight called 'x'"):
        load_weights(model, [("x", torch.zeros(1))])
    config = LoraConfig(r=4, target_modules="all-linear").to_dict()
    with pytest.raises(KeyError, match="no adapter weight called"):
        load_adapter(model, [("base_model.model.x.lora_A.weight", torch.zeros(4, 32))], config)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_what_is_packed_comes_out_as_it_was(dtype):
    bucket = [("a", torch.arange(6).reshape(2, 3).T.to(dtype)), ("b", torch.tensor(3).to(dtype))]
    wire = pickle.loads(pickle.dumps(packed(bucket)))
    for (name, tensor), (same_name, same) in zip(bucket, unpacked(wire), strict=True):
        assert (name, tensor.dtype, tensor.shape) == (same_name, same.dtype, same.shape)
        assert torch.equal(tensor, same)
