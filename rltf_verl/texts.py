"""Text from elsewhere (a judge, a person, a record, an environment), made fit for tokenizers, logs
and terminals.
"""

from __future__ import annotations

import hashlib
import re

THOUGHTS, THOUGHTS_END = "<think>", "</think>"

LONGEST = 1_000_000
"""Characters that are kept of a text. No prompt holds more, and whatever reads it stays quick."""

# CR LF first, as one line end; then CR, VT, FF, the separators FS to RS, NEL, LS and PS.
_LINE_ENDS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_SURROGATES = re.compile("[\ud800-\udfff]")
# C0 and C1 controls, soft hyphen, marks of direction and of no width, invisible operators,
# noncharacters, byte-order mark, annotations, controls of musical notation, tags.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufdd0-\ufdef\ufeff\ufff9-\ufffb\ufffe\uffff\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Control characters, marks of writing direction, invisible ones. The two joiners stay: scripts and
emoji need them.
"""

_EPISTEMIC = re.compile(
    r"\b(?:wait|hmm+|maybe|perhaps|actually|alternatively|check)\b", re.IGNORECASE
)
"""Words by which a reasoning model turns back (arXiv 2607.02234 counts wait, maybe, perhaps and
check).
"""

# `<|im_end|>` and its kin, DeepSeek's with full-width bars; turns of Gemma, `<<SYS>>` and `[INST]`
# of Llama 2, `[TOOL_CALLS]` of Mistral, `<tool_call>` of Qwen and Hermes.
_CHAT_TOKEN = (
    r"<[|\uff5c][^<>\s]{0,40}[|\uff5c]>|</?s>|</?think>|<(?:start|end)_of_turn>|<</?SYS>>|<(?:pad|eos|bos|unk)>|</?tool_(?:call|response)>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]"
)
CHAT_TOKENS = re.compile(_CHAT_TOKEN, re.IGNORECASE)
"""Tokens of the chat templates that are in use. Each ends with `>` or `]` and has at most 44
characters.
"""

_CHAT_TOKEN_LAST = re.compile(rf"(?:{_CHAT_TOKEN})\Z", re.IGNORECASE)
_CHAT_TOKEN_LENGTH = 44


def clean_text(text: str, longest: int = LONGEST) -> str:
    """The text with `\\n` as its only line end, without half surrogate pairs and invisible
    characters.

    Innocent text stays as it is, character by character. Idempotent.

    Args:
        text: any text, however long; time grows with its length at most.
        longest: characters that are kept.

    Raises:
        TypeError: not a text.
    """
    if not isinstance(text, str):
        raise TypeError(f"must be a text, not {type(text).__name__}")
    plain = _LINE_ENDS.sub("\n", text[:longest])
    if _SURROGATES.search(plain):
        # Two halves that belong together become their character, a half alone becomes U+FFFD.
        plain = plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _UNSEEN.sub("", plain)


def counted(num: int, singular: str, plural: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "line"), counted(2, "line"), counted(3, "try", "tries")
    ('1 line', '2 lines', '3 tries')
    """
    return f"{num} {singular if num == 1 else plural or f'{singular}s'}"


def split_words(text: str) -> tuple[str, ...]:
    """Its words: for long lists of words in code."""
    return tuple(text.split())


def seed_from(text: str) -> int:
    """63 bits of the text's hash: a seed fits a signed 64-bit number."""
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def one_line(text: str, longest: int) -> str:
    """The beginning of a text as one line, for causes and logs."""
    line = " ".join(clean_text(text, 20 * longest).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def without_thoughts(text: str) -> str:
    """A reasoning model's words without its thoughts: the text behind the last `</think>`, up to a
    `<think>` never left.

    The opening `<think>` may be missing: some chat templates put it into the prompt. Without either
    mark the text is returned as it is.

    >>> without_thoughts("so 12?</think>\\n\\nIt is 12.")
    'It is 12.'
    """
    _, closed, behind = text.rpartition(THOUGHTS_END)
    answer, opened, _ = behind.partition(THOUGHTS)
    return answer.strip() if closed or opened else text


def thought_share(text: str) -> float:
    """The share of the characters that are thoughts; 0 where `without_thoughts` finds none.

    >>> thought_share("<think>so?</think>12")
    0.9
    """
    return 1 - len(without_thoughts(text)) / len(text) if text else 0.0


def epistemic_rate(text: str) -> float:
    """Words of doubt, of 100 words.

    >>> epistemic_rate("Wait, is it 12? Maybe")
    40.0
    """
    words = len(text.split())
    return 100 * len(_EPISTEMIC.findall(text)) / words if words else 0.0


def without_chat_tokens(text: str) -> str:
    """The text without tokens of chat templates, nor any that would come up when those are gone:
    `<|<|x|>im_end|>`.

    Goes through the text once: whenever a token ends, it is taken back from what was kept.
    """
    if CHAT_TOKENS.search(text) is None:
        return text
    kept: list[str] = []
    # A token can end only behind `>` or `]`: each piece ends at one of these.
    for piece in re.split(r"(?<=[>\]])", text):
        kept.extend(piece)
        end = "".join(kept[-_CHAT_TOKEN_LENGTH:])
        if token := _CHAT_TOKEN_LAST.search(end):
            del kept[len(kept) - len(token[0]) :]
    return "".join(kept)


def printable(text: object) -> str:
    """`text` without control characters (a model may write escape sequences); line ends and tabs
    stay.
    """
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in str(text)
    )


def answer_form(parsed: str | None, text: str) -> str:
    """The answer as it was graded, else the whole text; white space aside. Rewards, metrics and
    reports compare answers by it.

    Args:
        parsed: what the grader extracted (`Grade.parsed`), None if nothing.
        text: the whole attempt.

    Example:
        >>> answer_form(None, "so  I\\nthink") == answer_form("so I think", "another text")
        True
    """
    return " ".join((text if parsed is None else parsed).split())
