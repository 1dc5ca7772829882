"""What a request takes of an allowance of tokens: a guess before its reply, what the endpoint
counts after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rltf_verl.judge.wire import Reply

CHARACTERS_PER_TOKEN = 3.0
"""Of a text whose tokens nobody has counted."""

TEMPLATE_TOKENS = 512
"""What an endpoint may add to a message: its chat template, a system prompt of its own."""

LONGEST_REPLY_TOKENS = 131_072
"""Of a request that leaves its reply's length to the endpoint."""


def possible(reply: Reply, body: Mapping[str, Any]) -> Reply:
    """The reply with no more tokens than its request can have cost, whatever the endpoint says that
    it used.

    A token has at least one byte, so a prompt has at most as many as its texts have bytes, and what
    is put around them.
    """
    num_bytes = sum(
        len(message["content"].encode("utf-8", "replace")) for message in body["messages"]
    )
    most = (
        num_bytes + TEMPLATE_TOKENS * len(body["messages"]),
        _longest_reply(body) or LONGEST_REPLY_TOKENS,
    )
    used = [
        max(0, min(n, top))
        for n, top in zip((reply.prompt_tokens, reply.completion_tokens), most, strict=True)
    ]
    return replace(reply, prompt_tokens=used[0], completion_tokens=used[1])


def guessed_tokens(body: Mapping[str, Any], reply: Reply | None = None) -> float:
    """Tokens of a request that nobody has counted: before its reply, or with a reply that does not
    say.
    """
    prompt = sum(len(message["content"]) for message in body["messages"]) / CHARACTERS_PER_TOKEN
    return prompt + (
        (_longest_reply(body) or 0) if reply is None else len(reply.text) / CHARACTERS_PER_TOKEN
    )


def _longest_reply(body: Mapping[str, Any]) -> int | None:
    """The longest reply that the request asks for, under either of the field's names."""
    limits = (body.get("max_tokens"), body.get("max_completion_tokens"))
    return next((limit for limit in limits if isinstance(limit, int) and limit > 0), None)
