"""What a chat template puts around an answer: the tokens that end it, and those that stand for no
thoughts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from verl.utils.tokenizer.chat_template import apply_chat_template

from rltf_verl.texts import THOUGHTS, THOUGHTS_END

ANSWER = "7320508"
"""Stands for an answer; digits, which no template changes."""


SYSTEM = {"role": "system", "content": "?"}
USER = {"role": "user", "content": "?"}


@dataclass(frozen=True)
class ChatForm:
    """Of one tokenizer and its template's settings."""

    end_of_turn: tuple[int, ...]
    """Up to the special token that ends an answer in a conversation; empty if the template has
    none.
    """
    no_thoughts: tuple[int, ...]
    """Between the header of an answer and the answer, if it is given without thinking: empty for
    most models, an empty block `<think>…</think>` (or its rest, if the header opens it) for models
    that think."""


def chat_form(tokenizer: Any, settings: Mapping[str, Any]) -> ChatForm:
    """Found by rendering a conversation, so that no template needs to be known. Read once per
    process.

    Args:
        tokenizer: with a chat template.
        settings: `data.apply_chat_template_kwargs`.
    """
    return _chat_form(tokenizer, repr(sorted(settings.items())), _Held(settings))


def after_answer(
    tokenizer: Any, settings: Mapping[str, Any], message: Mapping[str, str]
) -> tuple[int, ...]:
    """What a template writes behind an answer that a message follows: the answer's end, the
    message, the header of the next answer.
    """

    def rendered(before: list[dict[str, str]]) -> str:
        said = [*before, {"role": "assistant", "content": ANSWER}, dict(message)]
        text = apply_chat_template(
            tokenizer, said, tokenize=False, add_generation_prompt=True, **settings
        )
        return str(text)

    try:
        text = rendered([USER])
    except Exception:  # as in `_chat_form`
        text = rendered([SYSTEM, USER])
    before, answer, after = text.partition(ANSWER)
    start, whole = _ids(tokenizer, before + answer), _ids(tokenizer, text)
    # Alone, `after` could begin with a space that the tokenizer puts in front of every text.
    return whole[len(start) :] if whole[: len(start)] == start else _ids(tokenizer, after)


@dataclass(frozen=True, eq=False)
class _Held:
    """Settings can hold what has no hash; their text is the key."""

    settings: Mapping[str, Any]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held)

    def __hash__(self) -> int:
        return 0


@cache
def _chat_form(tokenizer: Any, key: str, held: _Held) -> ChatForm:
    def rendered(messages: list[dict[str, str]], header: bool) -> str:
        text = apply_chat_template(
            tokenizer, messages, tokenize=False, add_generation_prompt=header, **held.settings
        )
        return str(text)

    try:
        header = rendered(question := [USER], True)
    except Exception:  # the template's: it cannot do without a system message
        header = rendered(question := [SYSTEM, USER], True)
    before, _, after = rendered(
        [*question, {"role": "assistant", "content": ANSWER}], False
    ).rpartition(ANSWER)
    if before.startswith(header):
        between = before[len(header) :]
    else:
        between = f"\n{THOUGHTS_END}\n\n" if header.rstrip().endswith(THOUGHTS) else ""
    end = _ids(tokenizer, after)
    # `all_special_ids` has those with a name alone (eos, pad, …).
    added = {id for id, token in tokenizer.added_tokens_decoder.items() if token.special}
    special = added | set(tokenizer.all_special_ids)
    stop = next((i for i, token in enumerate(end) if token in special), -1)
    return ChatForm(end[: stop + 1], _ids(tokenizer, between))


def _ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text, add_special_tokens=False)) if text else ()
