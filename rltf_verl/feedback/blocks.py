"""Providers that consist of other providers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rltf_verl.feedback.base import FeedbackProvider, Subject


def provider_of_block(key: str, block: Mapping[str, Any]) -> FeedbackProvider:
    """The provider of a block `{provider: …, its options}` at `rltf.feedback.<key>`.

    Raises:
        ValueError: no such block, one without `provider`, or what the provider raises.
    """
    from rltf_verl.feedback import (
        make_provider,
    )  # the table of providers, which names the users of this function

    if not isinstance(block, Mapping) or "provider" not in block:
        shown = dict(block) if isinstance(block, Mapping) else block
        raise ValueError(
            f"rltf.feedback.{key}={shown}: has no `provider`; name one, e.g. {{provider: policy}}"
        )
    return make_provider(block["provider"], **{k: v for k, v in block.items() if k != "provider"})


def common_subject(subjects: Iterable[Subject | None]) -> Subject | None:
    """What several providers speak of: the attempt if one of them does, else nothing is known
    unless all agree.

    >>> common_subject(["answer", "attempt"])
    'attempt'
    """
    known = set(subjects)
    if "attempt" in known:
        return "attempt"
    return known.pop() if len(known) == 1 else None
