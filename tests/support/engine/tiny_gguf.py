"""A GGUF file of 40 kB: a Llama of one layer that reads bytes, with a chat template."""

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
    fields: dict[str, Any] = {
        "context_length": 256,
        "embedding_length": WIDTH,
        "block_count": 1,
        "feed_forward_length": HIDDEN,
        "head_count": HEADS,
        "head_count_kv": HEADS,
        "layer_norm_rms_eps": 1e-5,
        "rope_freq_base": 10000.0,
        "vocab_size": len(tokens),
        "tokenizer_model": "gpt2",
        "tokenizer_pre": "default",
        "token_list": tokens,
        "token_types": [3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)),
        "token_merges": ["a b", "c d"],
        "bos_token_id": start,
        "eos_token_id": 2,
        "unk_token_id": 0,
        "pad_token_id": 0,
    }
    if template:
        fields["chat_template"] = template
    for name, value in fields.items():
        getattr(writer, f"add_{name}")(value)
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
