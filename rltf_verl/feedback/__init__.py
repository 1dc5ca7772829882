"""Feedback providers by name. To add one here: one file in this folder, one line below.

A custom provider needs neither: `rltf.feedback.provider=./mine.py:Mine`, or an entry point of the
group `rltf_verl.feedback` in an installed package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltf_verl.feedback.base import FeedbackProvider
from rltf_verl.registry import construct, load

_PROVIDERS = {
    "correctness": "rltf_verl.feedback.sentences:CorrectnessProvider",
    "judge": "rltf_verl.feedback.judge_provider:JudgeProvider",
    "paired": "rltf_verl.feedback.policy:PairedProvider",
    "policy": "rltf_verl.feedback.policy:PolicyProvider",
    "shuffled": "rltf_verl.feedback.controls:ShuffledProvider",
    "siblings": "rltf_verl.feedback.siblings:SiblingsProvider",
    "try_again": "rltf_verl.feedback.sentences:TryAgainProvider",
    "verifier": "rltf_verl.feedback.verifier:VerifierProvider",
}


def provider_names() -> tuple[str, ...]:
    """Names that `make_provider` knows, sorted."""
    return tuple(sorted(_PROVIDERS))


def make_provider(name: str, /, **options: Any) -> FeedbackProvider:
    """Make the provider `rltf.feedback.provider`, with the other keys of that block as options.

    Args:
        name: one of ours, one of an installed package (entry points `rltf_verl.feedback`),
            `module:Class`, or `path/to/file.py:Class`.
        options: its constructor's arguments.

    Raises:
        ValueError: unknown name, or an option that is unknown or out of range; names the key.
    """
    provider = construct("rltf.feedback", "provider", _PROVIDERS, name, options, FeedbackProvider)
    missing = [
        part for part in ("name", "sees_reference", "constant") if not hasattr(provider, part)
    ]
    if missing:
        raise ValueError(
            f"rltf.feedback.provider={name!r}: lacks {', '.join(missing)}; see"
            " feedback.base.FeedbackProvider"
        )
    return provider


def provider_of_block(key: str, block: Mapping[str, Any]) -> FeedbackProvider:
    """The provider of a block `{provider: …, its options}` at `rltf.feedback.<key>`.

    Raises:
        ValueError: no block, no `provider` in it, or an error of the provider.
    """
    if not isinstance(block, Mapping) or "provider" not in block:
        shown = dict(block) if isinstance(block, Mapping) else block
        raise ValueError(
            f"rltf.feedback.{key}={shown}: has no `provider`; name one, e.g. {{provider: policy}}"
        )
    return make_provider(block["provider"], **{k: v for k, v in block.items() if k != "provider"})


def has_trait(trait: str, block: Mapping[str, Any]) -> bool:
    """True if a provider's class, or that of a provider in one of its options, has a flag.

    Args:
        trait: `self_written`, `waits_for_others` or `quotes_other_problems`
            (`base.FeedbackProvider`).
        block: `{provider: …, its options}`.
    """
    name = str(block["provider"])
    inner = (each for each in block.values() if isinstance(each, Mapping) and "provider" in each)
    where = _PROVIDERS.get(name, name)
    kind = load("rltf.feedback.provider", where) if ":" in where else None
    return bool(getattr(kind, trait, False)) or any(has_trait(trait, each) for each in inner)
