"""Feedback providers by name. To add one: one file in this folder, one line here."""

from __future__ import annotations

from typing import Any, cast

from rltf_verl.feedback.base import FeedbackProvider
from rltf_verl.registry import construct

_PROVIDERS = {
    "correctness": "rltf_verl.feedback.correctness:CorrectnessProvider",
    "verifier": "rltf_verl.feedback.verifier:VerifierProvider",
}


def provider_names() -> tuple[str, ...]:
    """Names that `make_provider` knows, sorted."""
    return tuple(sorted(_PROVIDERS))


def make_provider(name: str, /, **options: Any) -> FeedbackProvider:
    """Make the provider `rltf.feedback.provider`, with its own keys of that block as options.

    Raises:
        ValueError: unknown name, or an option it does not have or cannot take; names the config key.
    """
    return cast(FeedbackProvider, construct("rltf.feedback", "provider", _PROVIDERS, name, options))
