"""A Llama small enough to build in every test."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

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
