"""Weights on their way from trainer to rollout, in portions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import torch
from torch.distributed.tensor import DTensor
from verl.workers.rollout.utils import ensure_async_iterator

Bucket = list[tuple[str, torch.Tensor]]
Weights = Iterable[tuple[str, torch.Tensor]] | AsyncIterator[tuple[str, torch.Tensor]]


async def buckets(weights: Weights, limit_bytes: int) -> AsyncIterator[Bucket]:
    """Group named tensors into lists of about `limit_bytes`. Every rank must come here: shards are
    gathered.
    """
    bucket: Bucket = []
    size = 0
    async for name, tensor in ensure_async_iterator(weights):
        full = (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach()
        if bucket and size + full.nbytes > limit_bytes:
            yield bucket
            bucket, size = [], 0
        bucket.append((name, full))
        size += full.nbytes
    if bucket:
        yield bucket
