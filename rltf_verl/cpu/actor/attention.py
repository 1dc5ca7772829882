"""Attention over any mask on the CPU: short sequences and single new tokens by matrix products,
long ones by torch's kernel.

torch's fused kernel takes three times as long as these products in a bf16 backward pass of 128
tokens, and five to twenty times as long for one new token of each of 16 or more sequences. Scores
and probabilities are fp32 in either compute type; grouped heads share their keys without copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.modeling_utils import AttentionInterface

from rltf_verl.sampler.models import has_full_attention

NAME = "rltf_cpu"
DENSE_WIDTH = 512
"""Longest sequence whose probabilities are kept for the backward pass."""
CACHED = 2**19
"""Numbers of the keys that a decoding step turns to fp32 at once: more leave the CPU's cache."""


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **_kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention as transformers calls it.

    Args:
        module: the layer; unused.
        query: [B, H, n, D].
        key: [B, K, m, D]; H is a multiple of K.
        value: [B, K, m, D].
        attention_mask: [B or 1, 1, n, m], bool (True is seen) or to be added; None is causal.
        dropout: must be 0.
        scaling: of the scores; None is D^-1/2.

    Returns:
        [B, n, H, D], and no weights.
    """
    assert dropout == 0, "models with dropout take the padded path"
    n, size = query.shape[2:]
    scale = size**-0.5 if scaling is None else scaling
    # Take as many sequences at once as have room for their keys in the cache.
    rows = max(1, CACHED // key[0].numel())
    if attention_mask is None or (n > 1 and max(n, key.shape[2]) > DENSE_WIDTH):
        out = _fused(query, key, value, attention_mask, scale)
    elif n > 1 or len(query) <= rows:
        out = _dense(query, key, value, attention_mask, scale)
    else:
        mask = attention_mask.expand(len(query), -1, -1, -1)
        queries, keys, values = query.split(rows), key.split(rows), value.split(rows)
        parts = zip(queries, keys, values, mask.split(rows), strict=True)
        out = torch.cat([_dense(q, k, v, m, scale) for q, k, v, m in parts])
    return out.transpose(1, 2).contiguous(), None


def _dense(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scale: float
) -> torch.Tensor:
    (batch, heads, n, size), groups = query.shape, key.shape[1]
    grouped = query.float().reshape(batch, groups, -1, size)  # heads of a group are neighbours
    # [B, K, H/K · n, D] @ [B, K, D, m]: each key is read once for its whole group of heads.
    scores = (grouped * scale) @ key.float().transpose(2, 3)
    scores = scores.view(batch, heads, n, -1)
    seen = mask.dtype == torch.bool
    scores = scores.masked_fill(~mask, -torch.inf) if seen else scores + mask
    # Back to one matrix per group of heads, as `grouped`, for the product with its values.
    probs = scores.softmax(-1).view(batch, groups, heads // groups * n, -1)
    return (probs @ value.float()).view(batch, heads, n, size).to(query.dtype)


def _fused(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
) -> torch.Tensor:
    copies = query.shape[1] // key.shape[1]
    if copies > 1:
        key, value = key.repeat_interleave(copies, 1), value.repeat_interleave(copies, 1)
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(query.dtype)
    return scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        scale=scale,
        # For one new token torch's causal mask would let it see the first key alone.
        is_causal=mask is None and query.shape[2] > 1,
    )


def use(model: PreTrainedModel) -> None:
    """Let `model` attend by `attend`."""
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)


def is_pluggable(model: PreTrainedModel) -> bool:
    """True if the model attends through transformers' interface, by plain softmax."""
    capped = getattr(model.config.get_text_config(), "attn_logit_softcapping", None) is not None
    return bool(getattr(model, "_supports_attention_backend", False)) and not capped


def shares_prefixes(model: PreTrainedModel) -> bool:
    """True if a token's state depends on its ancestors and its position only, so that rows may
    share them: full attention through transformers' interface, no dropout.
    """
    drops = any(isinstance(m, torch.nn.Dropout) and m.p > 0 for m in model.modules())
    drops |= bool(getattr(model.config.get_text_config(), "attention_dropout", 0))
    return has_full_attention(model.config.get_text_config()) and is_pluggable(model) and not drops


@contextmanager
def bf16_products(wanted: bool) -> Iterator[None]:
    """Within: fp32 matrix products round their factors to bf16 and add up in fp32.

    Scores and logits of a model that computes in bf16 stay fp32 so, at a bf16 model's speed.
    """
    settings: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]  # set at run time
    before = settings.fp32_precision
    if wanted:
        settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before
