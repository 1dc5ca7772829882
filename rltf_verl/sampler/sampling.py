"""Sampling parameters of one request, and one vectorised draw for a batch of requests.

Log-probs are those of the distribution that was sampled: temperature first, then top-k, then top-p,
renormalised. That is `logprobs_mode: processed_logprobs`, which verl sets for vLLM. verl's actor
recomputes log-softmax(logits / temperature), so the two agree when nothing is truncated (`top_p=1`,
`top_k=-1`). A greedy request reports log-softmax(logits).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

MAX_TOKENS_KEYS = ("max_tokens", "max_new_tokens")
IGNORED_KEYS = frozenset({"logprobs", *MAX_TOKENS_KEYS})
GREEDY_BELOW = 1e-5
BLOCK = 1024


@dataclass(frozen=True)
class SamplingParams:
    """How to sample the tokens of one request."""

    max_tokens: int
    "number of new tokens, at least 1"
    temperature: float = 1.0
    "0 is greedy"
    top_p: float = 1.0
    "in (0, 1]; 1 keeps every token"
    top_k: int = -1
    "-1 or 0 keeps every token"
    repetition_penalty: float = 1.0
    "only 1 is supported"
    seed: int | None = None
    "None lets the server choose"
    stop_token_ids: tuple[int, ...] = ()
    "tokens that end the sequence, besides the model's own; the token itself is kept"

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")
        if self.temperature < 0:
            raise ValueError(f"temperature must not be negative, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")
        if self.repetition_penalty != 1.0:
            raise ValueError(
                "repetition_penalty must be 1.0 with rollout.name=transformers: use vllm, or"
                " drop it"
            )

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is taken."""
        return self.temperature < GREEDY_BELOW

    @classmethod
    def from_dict(cls, params: Mapping[str, Any], max_tokens: int) -> SamplingParams:
        """Read verl's dictionary. `max_tokens` is used when the request names none, and never
        exceeded.
        """
        unknown = set(params) - IGNORED_KEYS - set(cls.__dataclass_fields__)
        if unknown:
            raise ValueError(
                "rollout.name=transformers does not support the sampling parameters"
                f" {sorted(unknown)}"
            )
        asked = next(
            (params[key] for key in MAX_TOKENS_KEYS if params.get(key) is not None), max_tokens
        )
        known = {key: value for key, value in params.items() if key not in IGNORED_KEYS}
        known["stop_token_ids"] = tuple(known.get("stop_token_ids") or ())
        return cls(max_tokens=min(int(asked), max_tokens), **known)


def draw_uniforms(seed: int, start: int, count: int) -> np.ndarray:
    """Return the uniform numbers of positions `start .. start + count` of the stream that `seed`
    names.

    The stream is indexed by position in the sequence, so a request that was aborted and resumed
    with a longer prompt draws what it would have drawn without the interruption.
    """
    return np.random.Generator(np.random.Philox(key=seed)).random(start + count)[start:]


def _truncate(logits: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """Set the logits outside each row's top-k and top-p sets to minus infinity. `logits` is [N,
    V].
    """
    ordered, order = logits.sort(dim=-1, descending=True)
    rank = torch.arange(logits.shape[-1], device=logits.device).expand_as(ordered)
    ordered = ordered.masked_fill(rank >= top_k[:, None], -torch.inf)
    probs = ordered.softmax(-1)
    # A token stays while the mass before it is below top_p, so the first one always does.
    ordered = ordered.masked_fill(probs.cumsum(-1) - probs >= top_p[:, None], -torch.inf)
    return torch.empty_like(logits).scatter_(-1, order, ordered)


def processed_log_probs(logits: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
    """Return the log-probs [N, V] of the distribution each row samples from."""
    on = partial(torch.tensor, device=logits.device)
    temperature = on([1.0 if p.greedy else p.temperature for p in params])
    logits = logits.float() / temperature[:, None]
    cut = [not p.greedy and (p.top_p < 1 or p.top_k > 0) for p in params]
    if any(cut):
        vocab = logits.shape[-1]
        top_k = on(
            [p.top_k if c and p.top_k > 0 else vocab for p, c in zip(params, cut, strict=True)]
        )
        # No cumulated mass reaches 2.0, so a row that is not cut keeps all tokens.
        top_p = on([p.top_p if c else 2.0 for p, c in zip(params, cut, strict=True)])
        logits = _truncate(logits, top_k, top_p)
    return logits.log_softmax(-1)


def sample(
    logits: torch.Tensor, params: Sequence[SamplingParams], uniforms: Sequence[float]
) -> tuple[list[int], list[float]]:
    """Draw one token per row of `logits` [N, V] by inverting the cumulative distribution at the
    row's uniform number.

    A row depends on its own logits and its own number only, never on the rows beside it.
    """
    log_probs = processed_log_probs(logits, params)
    tokens = log_probs.argmax(-1)
    if any(not p.greedy for p in params):
        on = partial(torch.tensor, device=logits.device)
        drawn = _invert(log_probs, on(uniforms, dtype=torch.float64))
        tokens = torch.where(on([p.greedy for p in params]), tokens, drawn)
    return tokens.tolist(), log_probs.gather(-1, tokens[:, None]).squeeze(-1).tolist()


def _invert(log_probs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """[N] tokens at which the cumulative distributions [N, V] reach the numbers [N].

    Large vocabularies are searched in two steps, block and token: a running sum of 49 152 doubles
    per sequence took longer than the model's step.
    """
    if log_probs.shape[-1] <= BLOCK:
        return _search(log_probs.double().exp(), uniforms)[0]
    # Tokens that the last block lacks; padded with mass 0.
    spare = -log_probs.shape[-1] % BLOCK
    probs = torch.nn.functional.pad(log_probs.exp(), (0, spare)).unflatten(-1, (-1, BLOCK))
    block, rest = _search(probs.sum(-1, dtype=torch.float64), uniforms)
    inside = probs[torch.arange(len(block), device=block.device), block].double()
    return block * BLOCK + _search(inside, rest)[0]


def _search(masses: torch.Tensor, uniforms: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Index at which the running sum of [N, M] masses exceeds each number's share of the total, and
    how far into that mass, in [0, 1].
    """
    cumulative = masses.cumsum(-1)
    # Scaled by the total, which rounding leaves a little off 1, and below it, so that the search
    # cannot run past the last one.
    total = cumulative[:, -1:]
    target = torch.minimum(uniforms[:, None] * total, total.nextafter(torch.zeros_like(total)))
    index = torch.searchsorted(cumulative, target, right=True)
    mass = masses.gather(-1, index)
    before = cumulative.gather(-1, index) - mass
    return index.squeeze(-1), ((target - before) / mass).clamp(0, 1).squeeze(-1)
