"""Feedback providers by name. To add one here: one file in this folder, one line below.

One of your own needs neither: `rltf.feedback.provider=./mine.py:Mine`, or an entry point of the
group `rltf_verl.feedback` in your package.
"""

from __future__ import annotations

from typing import Any, cast

from rltf_verl.feedback.base import FeedbackProvider
from rltf_verl.registry import construct

_PROVIDERS = {
    "correctness": "rltf_verl.feedback.correctness:CorrectnessProvider",
    "judge": "rltf_verl.feedback.judge_provider:JudgeProvider",
    "ensemble": "rltf_verl.feedback.ensemble:EnsembleProvider",
    "human": "rltf_verl.feedback.human:HumanProvider",
    "marginal": "rltf_verl.feedback.controls:MarginalProvider",
    "paired": "rltf_verl.feedback.paired:PairedProvider",
    "peer": "rltf_verl.feedback.peer:PeerProvider",
    "policy": "rltf_verl.feedback.policy:PolicyProvider",
    "replay": "rltf_verl.feedback.replay:ReplayProvider",
    "shuffled": "rltf_verl.feedback.controls:ShuffledProvider",
    "siblings": "rltf_verl.feedback.siblings:SiblingsProvider",
    "try_again": "rltf_verl.feedback.try_again:TryAgainProvider",
    "verifier": "rltf_verl.feedback.verifier:VerifierProvider",
}


def provider_names() -> tuple[str, ...]:
    """Names that `make_provider` knows, sorted."""
    return tuple(sorted(_PROVIDERS))


def make_provider(name: str, /, **options: Any) -> FeedbackProvider:
    """Make the provider `rltf.feedback.provider`, with its own keys of that block as options.

    Args:
        name: one of ours, one of an installed package (entry points `rltf_verl.feedback`),
            `module:Class`, or `path/to/file.py:Class`.
        options: its constructor's arguments.

    Raises:
        ValueError: unknown name, or an option it does not have or cannot take; names the config
            key.
    """
    provider = construct("rltf.feedback", "provider", _PROVIDERS, name, options)
    missing = [
        part
        for part in ("name", "sees_reference", "constant", "feedback")
        if not hasattr(provider, part)
    ]
    if missing:
        raise ValueError(
            f"rltf.feedback.provider={name!r}: lacks {', '.join(missing)}; see"
            " feedback.base.FeedbackProvider"
        )
    return cast(FeedbackProvider, provider)
