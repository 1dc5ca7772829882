"""A causal LM as what `JudgeServer` replies: one request at a time, with the CPU engine's own
sampling.
"""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rltf_verl.cpu.services import prepare_model
from rltf_verl.sampler.generation import BatchGenerator, Request
from rltf_verl.sampler.sampling import SamplingParams


class ServedPolicy:
    """Answers chat completions, with the seeds that they bring.

    Args:
        weights: folder of the model.
        tokenizer: folder of the tokenizer with its chat template.
    """

    def __init__(self, weights: Path, tokenizer: Path) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(tokenizer)
        model = AutoModelForCausalLM.from_pretrained(
            weights, dtype=torch.float32, attn_implementation="sdpa"
        )
        self._generator = BatchGenerator(
            model, eos_token_ids={self._tokenizer.eos_token_id}, prepare=prepare_model
        )

    def __call__(self, body: dict[str, Any]) -> tuple[str, str]:
        """Text and finish reason."""
        text = self._tokenizer.apply_chat_template(
            body["messages"], add_generation_prompt=True, tokenize=False
        )
        ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        params = SamplingParams(
            body["max_tokens"],
            temperature=body.get("temperature", 1.0),
            seed=body.get("seed"),
        )
        self._generator.add(Request("r", ids, params))
        done = []
        while not done:
            done = self._generator.step()
        sampled = done[0].token_ids
        finish = "stop" if sampled[-1] == self._tokenizer.eos_token_id else "length"
        return self._tokenizer.decode(sampled, skip_special_tokens=True), finish
