"""Models that the engine can sample from, by their configs."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedConfig

STRETCHED = ("llama3", "longrope", "su")
"""Kinds of rotary scaling whose factor `max_position_embeddings` already holds, as in vLLM."""


def context_of(text: Any) -> int | None:
    """Most tokens that a model of this (text) config reads; None: it does not say."""
    positions = getattr(text, "max_position_embeddings", None)
    if not isinstance(positions, int):
        return None
    scaling = getattr(text, "rope_scaling", None) or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    factor = 1.0 if kind in STRETCHED else float(scaling.get("factor") or 1.0)
    return max(positions, int(positions * factor))


def has_full_attention(config: PreTrainedConfig) -> bool:
    """Whether every layer of a (text) model sees every earlier token."""
    kinds = getattr(config, "layer_types", None)
    if kinds is None:  # Mistral and Phi-3 have a window in all layers and no list
        return getattr(config, "sliding_window", None) is None
    return set(kinds) == {"full_attention"}


def end_tokens(*sources: Any) -> set[int]:
    """The tokens that end a sequence, by a generation config and a tokenizer."""
    found: set[int] = set()
    for source in sources:
        ids = getattr(source, "eos_token_id", None)
        found |= set(ids if isinstance(ids, list) else [] if ids is None else [ids])
    return found


def trouble_of(config: PreTrainedConfig) -> str | None:
    """Why the engine cannot sample from a model of this (text) config; None if it can."""
    if has_full_attention(config):
        return None
    trouble = (
        f"rollout.name=transformers needs full attention in every layer; {config.model_type} has"
        " layers of another kind: take another model, or vLLM (on a CPU rltf/hardware=cpu_vllm)"
    )
    # Where the layers have a list, that list decides, and it does not change with the window.
    if getattr(config, "layer_types", None) is not None:
        return trouble
    return (
        f"{trouble}, or, if no sequence is longer than the window,"
        " +actor_rollout_ref.model.override_config.sliding_window=null"
    )
