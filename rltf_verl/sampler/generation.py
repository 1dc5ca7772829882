"""Continuous batching over one Hugging Face causal LM: pure torch and transformers, one thread, no
Ray, no verl.

Every `step` admits waiting requests, runs the model once over all running ones and returns those
that ended. All but the last token of a prompt are prefilled (equal prompts once, what prompts begin
with alike once, and what an ended sequence began with not again); the last one is the first decode
step's input, so that every sampled token comes from the same code. A finished row's place is taken
by the last row.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
import torch
from transformers import PreTrainedModel

from rltf_verl.sampler.models import trouble_of
from rltf_verl.sampler.prefill import prefill
from rltf_verl.sampler.prefixes import Prefixes
from rltf_verl.sampler.sampling import SamplingParams, draw_uniforms, sample
from rltf_verl.sampler.slot_cache import SlotCache, bytes_per_token, reserved, share_out
from rltf_verl.sampler.weights import NamedTensors, load_adapter, load_weights

logger = logging.getLogger(__name__)
COMPLETED, ABORTED = "completed", "aborted"


@dataclass(frozen=True)
class Request:
    """One sequence to continue."""

    request_id: str
    prompt_ids: Sequence[int]
    params: SamplingParams

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise ValueError(f"request {self.request_id}: the prompt is empty")

    @property
    def max_length(self) -> int:
        """Tokens of the prompt and of the longest answer."""
        return len(self.prompt_ids) + self.params.max_tokens


@dataclass(frozen=True)
class Result:
    """What was sampled for one request; partial if it was aborted."""

    request_id: str
    token_ids: list[int]
    log_probs: list[float]
    stop_reason: str
    version: int | None
    "version of the weights that sampled the last token; None without a token"


@dataclass
class _Row:
    request: Request
    uniforms: np.ndarray
    stop_ids: frozenset[int]
    length: int
    "tokens in the cache"
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)

    @property
    def next_input(self) -> int:
        return self.token_ids[-1] if self.token_ids else self.request.prompt_ids[-1]

    @property
    def done(self) -> bool:
        return bool(self.token_ids) and (
            self.token_ids[-1] in self.stop_ids
            or len(self.token_ids) >= self.request.params.max_tokens
        )

    def result(self, stop_reason: str, version: int | None) -> Result:
        return Result(
            self.request.request_id,
            self.token_ids,
            self.log_probs,
            stop_reason,
            version if self.token_ids else None,
        )


class BatchGenerator:
    """Serves many requests with one model, in one dynamic batch. Not thread-safe: see
    `loop.GenerationLoop`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        eos_token_ids: Iterable[int] = (),
        max_rows: int = 256,
        max_prefill_tokens: int = 8192,
        seed: int = 0,
        max_kept_tokens: int = 8192,
        max_cache_bytes: int | None = None,
        prepare: Callable[[PreTrainedModel], None] | None = None,
    ) -> None:
        """Wrap `model`.

        Args:
            model: a causal LM with full attention in every layer.
            eos_token_ids: tokens that end a sequence (and stay in it).
            max_rows: requests that run at the same time; the others wait.
            max_prefill_tokens: prompt tokens, padding included, in one forward.
            seed: where the seeds of requests without one come from.
            max_kept_tokens: of ended sequences, whose keys and values later prompts may use.
            max_cache_bytes: keys and values in memory at once; fewer requests run where more would
                not fit. None: no bound.
            prepare: called with the model before the first step and after new weights.

        Raises:
            ValueError: the engine cannot sample from this model.
        """
        trouble = trouble_of(model.config.get_text_config())
        if trouble is not None:
            raise ValueError(trouble)
        self.model, self._prepare = model.eval(), prepare
        if prepare is not None:
            prepare(model)
        self.room: float = math.inf
        """Tokens that the cache of the running requests may hold."""
        if max_cache_bytes is not None:
            tokens = max_cache_bytes // bytes_per_token(model)
            self.room, max_prefill_tokens, max_kept_tokens = share_out(
                tokens, max_prefill_tokens, max_kept_tokens
            )
        self.eos_token_ids = frozenset(eos_token_ids)
        self.max_rows, self.max_prefill_tokens, self.seed = max_rows, max_prefill_tokens, seed
        self.version: int | None = None
        self._waiting: deque[Request] = deque()
        self._rows: list[_Row] = []
        self._seen: Counter[int] = Counter()
        self._prefixes = Prefixes(max_kept_tokens)
        self._cache = self._empty_cache()
        self._told = False

    def add(self, request: Request) -> None:
        """Queue a request; the next `step` with room for it starts it."""
        self._waiting.append(request)

    @property
    def num_unfinished(self) -> int:
        """Number of requests that wait or run."""
        return len(self._waiting) + len(self._rows)

    @torch.inference_mode()
    def step(self) -> list[Result]:
        """Sample one token for every request that fits in the batch, and return the requests that
        this ended.
        """
        self._admit()
        if not self._rows:
            return []
        self._decode()
        return self._remove_finished()

    def abort_all(self) -> list[Result]:
        """Drop every request, waiting or running, and return what they have so far."""
        partial = [row.result(ABORTED, self.version) for row in self._rows]
        partial += [Result(request.request_id, [], [], ABORTED, None) for request in self._waiting]
        self._rows.clear()
        self._waiting.clear()
        self._cache = self._empty_cache()
        return partial

    def load(
        self,
        named_tensors: NamedTensors,
        version: int | None = None,
        peft_config: Mapping[str, Any] | None = None,
    ) -> None:
        """Copy weights into the model by name, or those of a LoRA adapter. Running requests go on
        with them.

        `version` is reported with every result from here on; None keeps the old one.
        """
        if peft_config is None:
            load_weights(self.model, named_tensors)
        else:
            load_adapter(self.model, named_tensors, peft_config)
        if self._prepare is not None:
            self._prepare(self.model)
        self._prefixes.clear()
        if version is not None:
            self.version = version
        self._seen.clear()

    def forget(self) -> None:
        """Give back what is kept of ended sequences, and the cache where none runs."""
        self._prefixes.clear()
        if not self._rows:
            self._cache = self._empty_cache()

    def _empty_cache(self) -> SlotCache:
        return SlotCache(self.model.config.get_text_config().num_hidden_layers)

    def _admit(self) -> None:
        # A request is always in one of the two lists: `abort_all` ends it where the model fails.
        while self._fits_next():
            first, width = len(self._rows), 1
            while self._fits_next():
                width = max(width, len(self._waiting[0].prompt_ids))
                new = len(self._rows) - first
                # All prompts of a forward are padded to the longest.
                if new and width * (new + 1) > self.max_prefill_tokens:
                    break
                self._rows.append(self._start(self._waiting[0]))
                self._waiting.popleft()
            self._prefill(first)

    def _fits_next(self) -> bool:
        """Whether a request waits and can run with the others, should all be as long as they may.
        One alone always runs.
        """
        if not self._waiting or len(self._rows) == self.max_rows:
            return False
        if not self._rows or self.room == math.inf:
            return True
        requests = [self._waiting[0], *(row.request for row in self._rows)]
        longest = max(request.max_length for request in requests)
        if reserved(len(requests), longest) <= self.room:
            return True
        if not self._told:
            self._told = True
            logger.warning(
                "rollout.max_num_seqs=%d: %d requests of up to %d tokens run at a time, more keys"
                " and values do not fit in rollout.gpu_memory_utilization",
                *(self.max_rows, len(self._rows), longest),
            )
        return False

    def _start(self, request: Request) -> _Row:
        params = request.params
        seed = self._default_seed(request.prompt_ids) if params.seed is None else params.seed
        start = len(request.prompt_ids)
        uniforms = np.zeros(0) if params.greedy else draw_uniforms(seed, start, params.max_tokens)
        ends = self.eos_token_ids | set(params.stop_token_ids)
        # The prompt's last token is the first step's input, and enters the cache with it.
        return _Row(request, uniforms, ends, length=start - 1)

    def _default_seed(self, prompt_ids: Sequence[int]) -> int:
        """Derive a seed from the prompt and how often it came, so that it does not depend on the
        order of arrival.
        """
        prompt = crc32(np.asarray(prompt_ids, dtype=np.int64).tobytes())
        self._seen[prompt] += 1
        key = (
            self.seed,
            # A seed sequence takes no negative numbers, and no None.
            0 if self.version is None else self.version + 1,
            prompt,
            self._seen[prompt],
        )
        return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])

    def _prefill(self, first: int) -> None:
        """Of the rows from `first` on."""
        slots: dict[tuple[int, ...], list[int]] = {}
        for slot, row in enumerate(self._rows[first:], first):
            slots.setdefault(tuple(row.request.prompt_ids[:-1]), []).append(slot)
        if prompts := list(filter(None, slots)):
            for prompt, states in prefill(self.model, prompts, self._prefixes):
                self._cache.insert(slots[prompt], states)

    def _decode(self) -> None:
        rows = self._rows
        place = self.model.device
        mask = self._cache.begin_step([row.length for row in rows], place)
        logits = self.model(
            input_ids=torch.tensor([[row.next_input] for row in rows], device=place),
            attention_mask=mask,
            position_ids=self._cache.lengths[:, None],
            past_key_values=self._cache,
            use_cache=True,
        ).logits[:, -1]
        uniforms = [
            0.0 if row.request.params.greedy else float(row.uniforms[len(row.token_ids)])
            for row in rows
        ]
        sampled = sample(logits, [row.request.params for row in rows], uniforms)
        for row, token, log_prob in zip(rows, *sampled, strict=True):
            row.length += 1
            row.token_ids.append(token)
            row.log_probs.append(log_prob)

    def _remove_finished(self) -> list[Result]:
        finished = []
        # From the end: the last row, which fills the gap, has been looked at already.
        for slot in reversed(range(len(self._rows))):
            row = self._rows[slot]
            if row.done:
                finished.append(row.result(COMPLETED, self.version))
                # Without the last token, which was sampled and never read.
                ids = [*row.request.prompt_ids, *row.token_ids][: row.length]
                self._prefixes.keep(ids, self._cache.states(slot, row.length))
                last = self._rows.pop()
                if slot < len(self._rows):
                    self._rows[slot] = last
                    self._cache.move(len(self._rows), slot)
        if not self._rows:
            self._cache = self._empty_cache()
        return finished
