"""Answers of a model in this process, without a server or a trainer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rltf_verl.cpu.bf16 import has_bf16
from rltf_verl.cpu.services import prepare_model
from rltf_verl.sampler.generation import BatchGenerator, Request
from rltf_verl.sampler.sampling import SamplingParams

KEPT = 60_000
"""Tokens of ended answers whose keys and values stay: later prompts begin as they do."""
ROWS = 64
"""Answers that are sampled at a time."""


class Sampler:
    """A model on this CPU.

    Args:
        folder: of a model that transformers reads.
        max_tokens: of an answer.
    """

    def __init__(self, folder: str, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        dtype = torch.bfloat16 if has_bf16() else torch.float32
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        ends = model.generation_config.eos_token_id
        ends = {self._tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}
        self._generator = BatchGenerator(
            model, ends, max_rows=ROWS, prepare=prepare_model, max_kept_tokens=KEPT
        )

    def answers(
        self, chats: Sequence[Sequence[Mapping[str, str]]], seeds: Sequence[int], temperature: float
    ) -> Iterator[tuple[int, str]]:
        """(position, answer) in the order in which they end."""
        for i, (chat, seed) in enumerate(zip(chats, seeds, strict=True)):
            text = self._tokenizer.apply_chat_template(
                list(chat), tokenize=False, add_generation_prompt=True
            )
            ids = self._tokenizer(text, add_special_tokens=False).input_ids
            params = SamplingParams(self._max_tokens, temperature=temperature, seed=seed)
            self._generator.add(Request(str(i), ids, params))
        while self._generator.num_unfinished:
            for result in self._generator.step():
                text = self._tokenizer.decode(result.token_ids, skip_special_tokens=True)
                yield int(result.request_id), text
