"""A Llama small enough to build in every test, sampled as on a CPU and as elsewhere."""

from functools import partial

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rltf_verl.cpu.services import prepare_model
from rltf_verl.sampler.generation import BatchGenerator

SIZES = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def tiny_llama(seed: int = 0) -> LlamaForCausalLM:
    config = LlamaConfig(
        **SIZES,
        max_position_embeddings=256,
        initializer_range=0.5,  # peaked enough that a wrong cache or position changes the samples
        attn_implementation="sdpa",
    )
    torch.manual_seed(seed)
    return LlamaForCausalLM(config).eval()


@pytest.fixture
def model() -> LlamaForCausalLM:
    return tiny_llama()


@pytest.fixture
def other_model() -> LlamaForCausalLM:
    return tiny_llama(seed=1)


@pytest.fixture(params=[prepare_model, None], ids=["cpu", "torch"])
def batch_of(request):
    """A `BatchGenerator` of a model, with the CPU's attention or with torch's."""
    return partial(BatchGenerator, prepare=request.param)
