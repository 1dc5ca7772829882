"""Rows of episodes -> one padded `RowBatch`, without verl: what tests, parity and benchmarks feed to the equations.

In training the same fields arrive as columns of verl's transfer queue instead (`adapters.columns`).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rltf_verl.algos.targets import RowBatch
from rltf_verl.types import Row


def pad(values: Sequence[Sequence[float]], dtype: torch.dtype) -> torch.Tensor:
    """Ragged lists -> [N, T] with zeros on the right."""
    tensors = [torch.tensor(v, dtype=dtype) for v in values]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)


def pack_rows(
    rows: Sequence[Row], session: Sequence[int], group: Sequence[int], old_log_probs: Sequence[Sequence[float]]
) -> RowBatch:
    """Pad rows to a batch.

    Args:
        rows: N rows of any role.
        session: [N] session of each row, 0..S−1.
        group: [S] group of each session, 0..G−1.
        old_log_probs: [N] lists of length T: log π_old of each row's tokens under its own prompt.
    """
    return RowBatch(
        role=torch.tensor([int(row.role) for row in rows]),
        session=torch.tensor(list(session)),
        group=torch.tensor(list(group)),
        turn=pad([row.turn for row in rows], torch.int64),
        mask=pad([row.mask for row in rows], torch.int64).bool(),
        rewards=pad([row.rewards for row in rows], torch.float32),
        old_log_probs=pad(old_log_probs, torch.float32),
        sampler_log_probs=pad([row.log_probs or (0.0,) * len(row.turn) for row in rows], torch.float32),
    )
