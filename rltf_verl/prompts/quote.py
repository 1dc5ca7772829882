"""Text of a policy or a dataset inside a prompt, where it can neither end its block nor pose as instructions."""

from __future__ import annotations

import re
from collections.abc import Sequence


def fence_around(texts: Sequence[str]) -> str:
    """A line of tildes longer than any in the texts, so that none of them can end its own block."""
    longest = max((len(run) for text in texts for run in re.findall("~+", text)), default=0)
    return "~" * max(8, longest + 1)


_CHAT_TOKENS = re.compile(
    r"<(?=\||/?s>|/?think>|(?:start|end)_of_turn>|<SYS>>|</SYS>>|[\uff5c])|\[(?=/?INST\])|(?<=<)<(?=SYS)", re.IGNORECASE
)


def defused(text: str) -> str:
    """Text of a policy or dataset, in which nothing is a control character or a token of a chat template.

    An endpoint tokenises the whole conversation at once, so `<|im_end|>` inside a message would end that message.
    """
    lines = re.sub(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]", "\n", text)
    plain = "".join(c for c in lines if c in "\n\t" or c.isprintable())
    return _CHAT_TOKENS.sub(lambda found: f"{found[0]} ", plain)
