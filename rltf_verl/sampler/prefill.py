"""States of prompts: what they begin with alike is computed once, and what is kept not again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from transformers import DynamicCache, PreTrainedModel

from rltf_verl.sampler.prefixes import Ids, Prefixes, States, num_common
from rltf_verl.sampler.slot_cache import states_of

FORWARD = 100
"""Tokens that cost as much as a forward pass of their own: it reads all weights."""


class _Prompt(NamedTuple):
    ids: Ids
    kept: int
    "tokens at the beginning whose states are there"
    states: States
    "of a sequence that begins with them"

    @property
    def new(self) -> Ids:
        return self.ids[self.kept :]


def prefill(
    model: PreTrainedModel, prompts: Iterable[Ids], prefixes: Prefixes
) -> Iterator[tuple[Ids, States]]:
    """Each prompt and its states.

    Args:
        model: a causal LM that takes attention masks of [B, 1, n, m].
        prompts: different ones, not empty.
        prefixes: what is kept; what all prompts begin with is added.
    """
    prompts = sorted(prompts)
    # In the order of tuples the first and the last one have in common what all have.
    common = num_common(prompts[0], prompts[-1])
    beginning, others = prompts[0][:common], len(prompts) - 1
    if common * others > FORWARD and prefixes.longest(beginning)[0] < common:
        ((_, states),) = _forward(model, [_looked_up(beginning, prefixes)])
        prefixes.keep(beginning, states)
    left = [_looked_up(ids, prefixes) for ids in prompts]
    left.sort(key=lambda prompt: -len(prompt.new))
    while left:
        count = _cut([len(prompt.new) for prompt in left])
        yield from _forward(model, left[:count])
        left = left[count:]


def _looked_up(ids: Ids, prefixes: Prefixes) -> _Prompt:
    # One token at least is left to compute: a row without any would be all padding.
    return _Prompt(ids, *prefixes.longest(ids[:-1]))


def _cut(lengths: Sequence[int]) -> int:
    """How many sequences of these lengths, the longest first, to compute together: all, or so many
    that the shorter ones are spared the most padding, if that is worth a forward.
    """
    spared = [(lengths[0] - length) * (len(lengths) - k) for k, length in enumerate(lengths)]
    return spared.index(max(spared)) if max(spared) > FORWARD else len(lengths)


def _forward(model: PreTrainedModel, prompts: Sequence[_Prompt]) -> Iterator[tuple[Ids, States]]:
    place = model.device
    kept = torch.tensor([prompt.kept for prompt in prompts], device="cpu")
    before, width = int(kept.max()), max(len(prompt.new) for prompt in prompts)
    # A row: padding, what is kept, the new tokens, and padding that none of them sees.
    starts, new = before - kept, torch.arange(width, device="cpu")
    columns = torch.arange(before + width, device="cpu")
    sees = (starts[:, None, None] <= columns) & (columns <= before + new[:, None])
    ids = [[*prompt.new, *[0] * (width - len(prompt.new))] for prompt in prompts]
    cache = _aligned(prompts, before)
    model(
        input_ids=torch.tensor(ids, device=place),
        attention_mask=sees[:, None].to(place) if before else None,
        position_ids=(kept[:, None] + new).to(place),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    for row, (prompt, start) in enumerate(zip(prompts, starts.tolist(), strict=True)):
        yield prompt.ids, states_of(cache, row, slice(start, start + len(prompt.ids)))


def _aligned(prompts: Sequence[_Prompt], width: int) -> DynamicCache:
    """What is kept of each prompt, at the right end of `width` columns."""
    cache = DynamicCache()
    longest = max(prompts, key=lambda prompt: prompt.kept)
    for layer, pair in enumerate(longest.states if width else ()):
        rows = [kind.new_zeros(len(prompts), kind.shape[1], width, kind.shape[3]) for kind in pair]
        for row, prompt in enumerate(prompts):
            if prompt.kept:
                for kind, states in zip(rows, prompt.states[layer], strict=True):
                    kind[row, :, -prompt.kept :] = states[0, :, : prompt.kept]
        cache.update(rows[0], rows[1], layer)
    return cache
