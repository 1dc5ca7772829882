"""Rows packed so that a prefix that several rows share is computed once.

The rows of a group begin with the same prompt, and a second turn's prompt begins with the first
turn. A causal model's state at a token depends on what precedes it only, so the rows are laid out
as a forest: one node per distinct prefix, and each node sees its ancestors. Row by row the numbers
are the same as without sharing, and so is the gradient. (Cf. verl's PrefixGrouper, which shares one
prompt per group; tree attention, Miao et al. 2023, arXiv:2305.09781.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

Ids = np.ndarray
"""[L] int64 tokens of a row."""

WIDTHS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Widths of a bin that are tried, in longest rows."""

DENSE_WIDTH = 512
"""Widest bin with several rows. Attention looks at every pair of its nodes, related or not."""

ATTENTION_SHARE = 1 / 1500
"""Extra cost of a node per node of its bin, in the cost of its other layers: measured on a model of
135 M parameters.
"""


@dataclass(frozen=True)
class Bin:
    """Rows that are computed in one line of the batch."""

    rows: list[int]
    "indices, neighbours share the longest prefixes"
    shared: list[int]
    "tokens that each row shares with the one before it in the bin"
    size: int
    "nodes"


@dataclass(frozen=True)
class Forest:
    """B bins of n nodes each, as a model takes them."""

    input_ids: torch.Tensor
    "[B, n] int64"
    position_ids: torch.Tensor
    "[B, n] int64"
    mask: torch.Tensor
    "[B, 1, n, n] float32: 0 where a node sees another, -inf where not"
    nodes: list[np.ndarray]
    "[L] node of each token of each row, in B·n; rows in the order of the bins"


def pack(rows: Sequence[Ids], max_nodes: int = DENSE_WIDTH) -> list[Bin]:
    """Bins of all rows, the widest first. A row that is empty takes no place in its bin.

    Args:
        rows: tokens.
        max_nodes: no bin with several rows has more.
    """
    # Big-endian bytes sort as numbers do: rows with the longest common prefixes are neighbours.
    order = sorted(range(len(rows)), key=lambda i: rows[i].astype(">i4").tobytes())
    shared = [0] + [_shared(rows[a], rows[b]) for a, b in pairwise(order)]
    lengths = [len(rows[i]) for i in order]
    longest = max(1, *lengths)
    widths = {round(longest * factor) for factor in WIDTHS}
    tried = [
        _cut(order, lengths, shared, width)
        for width in sorted(widths)
        if width <= max(longest, min(DENSE_WIDTH, max_nodes))
    ]
    return min(tried, key=_cost)


def micro_batches(bins: Sequence[Bin], max_nodes: int, at_least: int = 1) -> list[list[Bin]]:
    """Bins that are computed together: at most `max_nodes` nodes, padding included, or one bin.

    Args:
        bins: from `pack`, the widest first.
        max_nodes: the bound.
        at_least: number of micro-batches; no more than there are rows.
    """
    parts: list[list[Bin]] = []
    for one in bins:
        # A micro-batch is padded to its first bin, the widest.
        if not parts or (len(parts[-1]) + 1) * parts[-1][0].size > max_nodes:
            parts.append([])
        parts[-1].append(one)
    while len(parts) < at_least:
        num_rows = [sum(len(one.rows) for one in part) for part in parts]
        parts += _halves(parts.pop(num_rows.index(max(num_rows))))
    return parts


def lay_out(rows: Sequence[Ids], bins: Sequence[Bin]) -> Forest:
    """The model's inputs for these bins."""
    width = max(1, *(one.size for one in bins))
    ids, positions = np.zeros((2, len(bins), width), dtype=np.int64)
    sees = np.zeros((len(bins), width, width), dtype=bool)
    sees[:, np.arange(width), np.arange(width)] = True  # padding sees itself: no row of -inf
    nodes = []
    for b, one in enumerate(bins):
        path, used = np.zeros(0, dtype=np.int64), 0
        for row, shared in zip(one.rows, one.shared, strict=True):
            # `path`: node of each token, those shared with the row before, then the new ones.
            end = used + len(rows[row]) - shared
            path = np.concatenate([path[:shared], np.arange(used, end)])
            ids[b, used:end], positions[b, used:end] = rows[row][shared:], np.arange(end - used)
            positions[b, used:end] += shared
            sees[b, used:end, path[:shared]] = True
            sees[b, used:end, used:end] = np.tri(end - used, dtype=bool)
            nodes.append(b * width + path)
            used = end
    mask = torch.zeros(sees.shape).masked_fill_(torch.from_numpy(~sees), -torch.inf)
    return Forest(torch.from_numpy(ids), torch.from_numpy(positions), mask[:, None], nodes)


def _shared(a: Ids, b: Ids) -> int:
    size = min(len(a), len(b))
    differ = a[:size] != b[:size]
    return int(differ.argmax()) if differ.any() else size


def _cut(order: list[int], lengths: list[int], shared: list[int], width: int) -> list[Bin]:
    """Cut the sorted rows into bins of at most `width` nodes."""
    bins: list[Bin] = []
    for row, length, common in zip(order, lengths, shared, strict=True):
        if bins and bins[-1].size + length - common <= width:
            last = bins[-1]
            bins[-1] = Bin([*last.rows, row], [*last.shared, common], last.size + length - common)
        else:
            bins.append(Bin([row], [0], length))
    return sorted(bins, key=lambda one: -one.size)


def _cost(bins: list[Bin]) -> float:
    width = bins[0].size
    # Every bin is padded to the widest, and attention costs each node its bin's width.
    return len(bins) * width * (1 + width * ATTENTION_SHARE)


def _halves(bins: list[Bin]) -> tuple[list[Bin], list[Bin]]:
    """Two micro-batches out of one."""
    if len(bins) > 1:
        return bins[::2], bins[1::2]
    # Only one bin is left: its rows are halved.
    ((one,),) = (bins,)
    half = len(one.rows) // 2
    if half == 0:
        raise ValueError(
            "a data-parallel rank has fewer rows than another has micro-batches: raise"
            " actor_rollout_ref.actor.ppo_max_token_len_per_gpu"
        )
    # Sizes are upper bounds here: the second half's first row shares with no row any more.
    return (
        [Bin(one.rows[:half], one.shared[:half], one.size)],
        [Bin(one.rows[half:], [0, *one.shared[half + 1 :]], one.size + one.shared[half])],
    )
