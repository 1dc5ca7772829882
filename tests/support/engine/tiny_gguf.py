"""A GGUF file of 40 kB: a Llama of one layer that reads bytes, with a chat template."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WIDTH, HIDDEN, HEADS = 32, 64, 2


def byte_letters() -> list[str]:
    """The characters by which byte-level BPE writes each byte."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    unseen = [byte for byte in range(256) if byte not in seen]
    return [*map(chr, seen), *(chr(256 + i) for i in range(len(unseen)))]


def tiny_gguf(path: Path, start: int = 1, template: str | None = CHAT_TEMPLATE) -> Path:
    """Write it; `start` is its start token, which transformers takes for the end token."""
    import gguf

    writer: Any = gguf.GGUFWriter(path, "llama")
    tokens = [*SPECIAL, *byte_letters(), "ab", "cd"]
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)))
    writer.add_token_merges(["a b", "c d"])
    writer.add_bos_token_id(start)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(0)
    if template:
        writer.add_chat_template(template)
    rng = np.random.default_rng(0)
    shapes = {
        "token_embd": (len(tokens), WIDTH),
        **{f"blk.0.attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")},
        **{f"blk.0.ffn_{name}": (HIDDEN, WIDTH) for name in ("gate", "up")},
        "blk.0.ffn_down": (WIDTH, HIDDEN),
    }
    for name, shape in shapes.items():
        weights = rng.normal(scale=0.02, size=shape).astype(np.float32)
        writer.add_tensor(f"{name}.weight", weights)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
