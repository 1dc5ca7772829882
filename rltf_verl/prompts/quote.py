"""Text of a policy, a judge or a dataset inside a prompt, where it ends neither its block nor its
message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

from rltf_verl.policy import Policy
from rltf_verl.texts import CHAT_TOKENS, clean_text, without_thoughts

UNFINISHED = "(It ended in the middle of the thoughts, before an answer.)"
"""Quote of an attempt that never stopped thinking."""

# A lookahead keeps the whole token for the match, so that only its first character is replaced.
_ANY_CHAT_TOKEN = re.compile(rf"(?=<[|\uff5c]|{CHAT_TOKENS.pattern})[<\[]", re.IGNORECASE)
_ROUNDS = 4
"""The space that breaks a token makes another one only if a tokenizer has tokens that differ by a
space.
"""


def fence_around(texts: Sequence[str]) -> str:
    """A line of tildes longer than any in the texts, so that none of them can end its own block."""
    longest = max((len(run) for text in texts for run in re.findall("~+", text)), default=0)
    return "~" * max(8, longest + 1)


def defused(text: str, tokens: Sequence[str] | None = None) -> str:
    """Clean text (`texts.clean_text`) that is encoded as the characters that it consists of.

    A conversation is tokenised at once, so `<|im_end|>` inside a message would end that message: a
    space follows the first character of each special token.

    Args:
        text: what is quoted.
        tokens: the special tokens of the tokenizer that will read it; None: whatever looks like one
            of a chat template.
    """
    plain = clean_text(text)
    pattern = _ANY_CHAT_TOKEN if tokens is None else _beginning_of(tuple(tokens))
    for _ in range(_ROUNDS):
        broken = pattern.sub(lambda first: f"{first[0]} ", plain)
        if broken == plain or tokens is None:
            return broken
        plain = broken
    return plain


def quoted(policy: Policy, text: str) -> str:
    """`defused` for a prompt to this policy; one that does not name its special tokens may have
    any.
    """
    return defused(text, getattr(policy, "special_tokens", None))


def shown_of(attempt: str, quote: Literal["answer", "all", "none"]) -> str:
    """Part of an attempt for later prompts and critics (`rltf.episode.quote`)."""
    if quote != "answer":  # with `none` the template of the later prompt does not show it
        return attempt
    answer = without_thoughts(attempt)
    return answer if answer.strip() or not attempt.strip() else UNFINISHED


def control_tokens(added: Mapping[str, bool]) -> tuple[str, ...]:
    """The tokens of a tokenizer that a quotation must not hold.

    Args:
        added: the text of each token that was added to its vocabulary, and whether it is marked as
            special. One that is not may be ordinary text (a run of spaces, `\\boxed{`) and counts
            only if it looks like one of a chat template (`<think>`).
    """
    return tuple(
        sorted(
            t
            for t, special in added.items()
            if len(t.strip()) > 1 and (special or CHAT_TOKENS.fullmatch(t))
        )
    )


@lru_cache(maxsize=16)
def _beginning_of(tokens: tuple[str, ...]) -> re.Pattern[str]:
    """Matches the first character of each of the tokens; nothing without tokens."""
    # `(?!)` matches nowhere: a tokenizer may have no such tokens.
    return re.compile(rf"(?=(?:{'|'.join(map(re.escape, tokens)) or '(?!)'})).", re.DOTALL)
