"""A key-value cache with one slot per running request. Slots have their own lengths, so rows join
and leave freely.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import proxy

import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache

from rltf_verl.sampler.prefixes import States

NEW_SLOTS, NEW_COLUMNS = 8, 64
"""The cache grows by multiples of these: every growth copies it."""


class SlotLayer(CacheLayerMixin):
    """Keys and values of one model layer, [slots, heads, columns, head size]. A slot holds its
    tokens from column 0.
    """

    is_sliding = False

    def __init__(self, owner: SlotCache) -> None:
        super().__init__()
        # In a cycle of references the cache would outlive its batch: Python collects cycles by the
        # number of new objects, and a hundred MB of tensors are few.
        self.owner = proxy(owner)

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate nothing yet: `reserve` does."""
        self.keys = key_states.new_empty(0, key_states.shape[1], 0, key_states.shape[3])
        self.values = value_states.new_empty(0, value_states.shape[1], 0, value_states.shape[3])
        self.is_initialized = True

    def reserve(self, slots: int, columns: int) -> None:
        """Make room for `slots` x `columns`, keeping what is there."""
        if self.keys.shape[0] < slots or self.keys.shape[2] < columns:
            size = (
                max(self.keys.shape[0], _slots(slots)),
                max(self.keys.shape[2], _rounded(columns, NEW_COLUMNS)),
            )
            self.keys, self.values = _grown(self.keys, *size), _grown(self.values, *size)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one new token per running slot, at the slot's own length, and return the columns in
        use.
        """
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.reserve(len(key_states), self.owner.width)
        # Index tensors around a slice pair up, slot i with length i, and come first: [N, heads, D].
        place = self.owner.slots, slice(None), self.owner.lengths
        self.keys[place], self.values[place] = key_states[:, :, 0], value_states[:, :, 0]
        used = slice(len(key_states)), slice(None), slice(self.owner.width)
        return self.keys[used], self.values[used]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of columns that attention sees, and where they begin."""
        return self.owner.width, 0

    def get_seq_length(self) -> int:
        """Return the number of columns before the new token."""
        return self.owner.width - 1

    def get_max_cache_shape(self) -> int:
        """Return no limit."""
        return -1


def reserved(slots: int, columns: int) -> int:
    """Tokens that a cache for so many slots of so many columns makes room for."""
    return _slots(slots) * _rounded(columns, NEW_COLUMNS)


def _slots(num: int) -> int:
    # A few have no more than they need: one long request may be all that a GPU has room for.
    return _rounded(num, NEW_SLOTS) if num > NEW_SLOTS else num


def share_out(tokens: int, max_prefill: int, max_kept: int) -> tuple[int, int, int]:
    """The tokens of a bounded memory that are for running requests, for a prefill, and for ended
    sequences: the last two get a quarter and a sixteenth at most.

    >>> share_out(1600, 8192, 50)
    (1150, 400, 50)
    """
    prefill, kept = min(max_prefill, tokens // 4), min(max_kept, tokens // 16)
    return tokens - prefill - kept, prefill, kept


@torch.inference_mode()
def bytes_per_token(model: PreTrainedModel) -> int:
    """Size of one token's keys and values in all layers."""
    cache = DynamicCache()
    first = torch.zeros(1, 1, dtype=torch.long, device=model.device)
    model(input_ids=first, past_key_values=cache, use_cache=True)
    return sum(kind.nbytes for pair in states_of(cache, 0, slice(None)) for kind in pair)


def _grown(states: torch.Tensor, slots: int, columns: int) -> torch.Tensor:
    grown = states.new_zeros(slots, states.shape[1], columns, states.shape[3])
    grown[: states.shape[0], :, : states.shape[2]] = states
    return grown


def _rounded(size: int, step: int) -> int:
    # −(−a // b) rounds up.
    return -(-size // step) * step


def states_of(cache: Cache, row: int, columns: slice) -> States:
    """Views of a row's columns."""
    own = slice(row, row + 1), slice(None), columns
    return [(layer.keys[own], layer.values[own]) for layer in cache.layers]


class SlotCache(Cache):
    """The cache of one decode step: `lengths` says where each running slot's new token goes."""

    def __init__(self, num_layers: int) -> None:
        super().__init__(layers=[SlotLayer(self) for _ in range(num_layers)])
        self.slots = self.lengths = torch.zeros(0, dtype=torch.long, device="cpu")
        self.width = 0

    def begin_step(self, lengths: Sequence[int], device: torch.device) -> torch.Tensor:
        """Prepare one decode step and return its attention mask [N, 1, 1, width] (True where a row
        may look).
        """
        self.slots = torch.arange(len(lengths), device=device)
        self.lengths = torch.tensor(lengths, device=device)
        self.width = max(lengths) + 1
        columns = torch.arange(self.width, device=device)
        return (columns <= self.lengths[:, None])[:, None, None]

    def insert(self, slots: Sequence[int], states: States) -> None:
        """Copy a sequence's states to slots."""
        for layer, (keys, values) in zip(self.layers, states, strict=True):
            if not layer.is_initialized:
                layer.lazy_initialization(keys, values)
            columns = keys.shape[2]
            layer.reserve(max(slots) + 1, columns)
            # [1, heads, columns, D], copied to each slot.
            layer.keys[slots, :, :columns], layer.values[slots, :, :columns] = keys, values

    def states(self, slot: int, length: int) -> States:
        """A copy of the first `length` columns of a slot."""
        return [
            (keys.clone(), values.clone()) for keys, values in states_of(self, slot, slice(length))
        ]

    def move(self, source: int, target: int) -> None:
        """Copy slot `source` over slot `target`."""
        for layer in self.layers:
            if layer.is_initialized:
                layer.keys[target] = layer.keys[source]
                layer.values[target] = layer.values[source]
