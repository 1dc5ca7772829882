"""Tokens that a chat template puts around an answer: those that end it, and an empty block of
thoughts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verl.utils.tokenizer.chat_template import apply_chat_template

from rltf_verl.texts import THOUGHTS, THOUGHTS_END
from rltf_verl.types import Message

ANSWER = "7320508"
"""Placeholder of an answer; digits, which no template changes."""


SYSTEM = {"role": "system", "content": "?"}
USER = {"role": "user", "content": "?"}


@dataclass(frozen=True)
class ChatForm:
    """The tokens of one tokenizer and its template's settings."""

    end_of_turn: tuple[int, ...]
    """Up to the special token that ends an answer in a conversation; empty if the template has
    none.
    """
    no_thoughts: tuple[int, ...]
    """Between the header of an answer and the answer, if it is given without thinking: empty for
    most models, an empty block `<think>…</think>` (or its rest, if the header opens it) for models
    that think."""


_forms: dict[tuple[Any, str], ChatForm] = {}


def chat_form(tokenizer: Any, settings: Mapping[str, Any]) -> ChatForm:
    """Read from a rendered conversation, so it needs no list of templates; once per process.

    Args:
        tokenizer: with a chat template.
        settings: `data.apply_chat_template_kwargs`.
    """
    key = tokenizer, repr(sorted(settings.items()))  # settings can hold what has no hash
    if key not in _forms:
        _forms[key] = _read(tokenizer, settings)
    return _forms[key]


def after_answer(
    tokenizer: Any, settings: Mapping[str, Any], added: Sequence[Mapping[str, str]]
) -> tuple[int, ...]:
    """Tokens between an answer and the next one: the answer's end, the added messages, the header
    of the next answer.
    """
    later = [{"role": "assistant", "content": ANSWER}, *map(dict, added)]
    question, _ = _question(tokenizer, settings)
    text = _render(tokenizer, settings, [*question, *later], header=True)
    before, answer, after = text.partition(ANSWER)
    start, whole = _ids(tokenizer, before + answer), _ids(tokenizer, text)
    # Alone, `after` could begin with a space that the tokenizer puts in front of every text.
    return whole[len(start) :] if whole[: len(start)] == start else _ids(tokenizer, after)


def _read(tokenizer: Any, settings: Mapping[str, Any]) -> ChatForm:
    question, header = _question(tokenizer, settings)
    answered = [*question, {"role": "assistant", "content": ANSWER}]
    text = _render(tokenizer, settings, answered, header=False)
    before, _, after = text.rpartition(ANSWER)
    if before.startswith(header):
        between = before[len(header) :]
    else:
        # The header opens thoughts itself, and the template drops them from past answers: what
        # closes them is not rendered, so it is written as most models do.
        between = f"\n{THOUGHTS_END}\n\n" if header.rstrip().endswith(THOUGHTS) else ""
    end = _ids(tokenizer, after)
    # `all_special_ids` has those with a name alone (eos, pad, …).
    added = {id for id, token in tokenizer.added_tokens_decoder.items() if token.special}
    special = added | set(tokenizer.all_special_ids)
    stop = next((i for i, token in enumerate(end) if token in special), -1)
    return ChatForm(end[: stop + 1], _ids(tokenizer, between))


def _question(tokenizer: Any, settings: Mapping[str, Any]) -> tuple[list[Message], str]:
    """A question that the template can render, and its text up to the answer."""
    try:
        return [USER], _render(tokenizer, settings, [USER], header=True)
    except Exception:  # the template's: it cannot do without a system message
        return [SYSTEM, USER], _render(tokenizer, settings, [SYSTEM, USER], header=True)


def _render(
    tokenizer: Any, settings: Mapping[str, Any], messages: list[Message], *, header: bool
) -> str:
    text = apply_chat_template(
        tokenizer, messages, tokenize=False, add_generation_prompt=header, **settings
    )
    return str(text)


def _ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text, add_special_tokens=False)) if text else ()
