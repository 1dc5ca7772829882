"""The table of what fits on a card (docs/scale.md) has the estimate's numbers."""

import re
from functools import partial
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from transformers import Qwen3Config

from rltf_verl.adapters.startup.memory import (
    ACTOR,
    BUDGET,
    CACHE,
    GB,
    MODEL,
    UTILIZATION,
    memory_of,
)
from rltf_verl.sampler.slot_cache import reserved, share_out
from tests.support.configs import composed

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
ROW = re.compile(
    r"\| (\d+) GB.*? \| Qwen3-(\S+) \| (.*?) \| (\d+) \| ([\d.]+) \| (\d+) \| (\d+) \|"
)
SIZES = {
    "0.6B": (1024, 3072, 28, 16),
    "1.7B": (2048, 6144, 28, 16),
    "4B": (2560, 9728, 36, 32),
    "8B": (4096, 12288, 36, 32),
}
"""Hidden state, MLP, layers, heads."""
CARDS = {"8": 8.6, "16": 16.1}
"""Those that are a little larger than their name."""


@pytest.mark.parametrize("row", ROW.findall(PAGE.read_text("utf-8")), ids=" ".join)
def test_a_row_is_the_estimate_and_fits(row):
    card, name, trained, tokens, share, update, sampling = row
    hidden, inner, layers, heads = SIZES[name]
    model = Qwen3Config(
        vocab_size=151936,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        head_dim=128,
        tie_word_embeddings=name != "8B",
    )
    half = 512 if card == "8" else 1024
    words = [
        f"rltf/hardware=gpu_small{'_fp16' if card == '16' else ''}",
        *([f"{MODEL}.lora_rank=32"] if "LoRA" in trained else []),
        *([f"{ACTOR}.fsdp_config.model_dtype=bf16"] if "bf16" in trained else []),
        *(f"data.max_{part}_length={half}" for part in ("prompt", "response")),
        *(f"{BUDGET}={tokens}", f"{UTILIZATION}={share}"),
    ]
    get = partial(OmegaConf.select, composed("rltf_sd", *words))
    size = CARDS.get(card, float(card))
    moments = {name: sum(parts.values()) for name, parts in memory_of(get, model, size).items()}
    assert (round(moments["in an update"]), round(moments["while sampling"])) == (
        int(update),
        int(sampling),
    )
    assert max(moments.values()) <= size
    # and the sampler starts there: it needs room for the longest request beside its weights
    cache = memory_of(get, model, size)["while sampling"][CACHE]
    room, _, _ = share_out(int(cache * GB / (layers * 2 * 8 * 128 * 2)), 8192, 8192)
    assert reserved(4, 2 * half) <= room, "four at a time"
