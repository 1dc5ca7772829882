"""Compare passages with the reference answer; find copies of it and of its worked solution."""

from __future__ import annotations

import re

from rltf_verl.envs.text.number_words import as_number, spell_digits

MIN_TOKENS = 5
"""Tokens from which on a text repeats a reference by copying and not by chance."""
N = 5
"""Words of one n-gram: fewer are shared by chance, more are broken by one changed word."""

# A name, a date, a formula, an address, or a long word
_TELLING = re.compile(r"(?=.{4}).*[^a-z\s]|.{9}", re.DOTALL)
_COMMON = frozenset(
    {"True", "False", "None", "Both", "Even", "Never", "Always", "Neither", "Zero", "incorrect"}
)
_LIST = re.compile(r"(?:\b[A-Z]\w{0,30}, ){2,20}(?:(?:and |or )?[A-Z]\w{0,30})?")
# Words and numbers; a minus only where a digit follows.
_TOKEN = re.compile(r"[^\W_]+|-(?=[0-9])")


def same_answer(passage: str, reference: str) -> bool:
    """The passage *is* the reference: the same number, or the same words and digits in the same
    order.

    >>> same_answer("forty-two", "42"), same_answer("1,000.0", "1000"), same_answer("x = 3", "3")
    (True, True, False)
    """
    number = as_number(reference)
    if number is not None:
        return as_number(passage) == number
    tokens, said = (
        [token for token in tokens_of(text) if token != "and"] for text in (reference, passage)
    )
    return bool(tokens) and said == tokens


def tokens_of(text: str) -> list[str]:
    """Words and numbers in lower case, numbers in digits, without punctuation and markup."""
    return _TOKEN.findall(spell_digits(text).casefold())


def find_reference(text: str, reference: str) -> tuple[int, int] | None:
    """Span of a long reference that the text repeats, whatever is between its words; else None.

    Short references are left to passages that look like an answer: a text may mention a 3 for many
    reasons. Number words of the text must be digits (`plain_text.readings`).
    """
    wanted = tokens_of(reference)
    if len(wanted) < MIN_TOKENS:
        return None
    tokens = [(match[0].casefold(), match.span()) for match in _TOKEN.finditer(text)]
    for i in range(len(tokens) - len(wanted) + 1):
        if all(tokens[i + k][0] == token for k, token in enumerate(wanted)):
            return tokens[i][1][0], tokens[i + len(wanted) - 1][1][1]
    return None


def find_phrase(text: str, reference: str, known: str) -> tuple[int, int] | None:
    """Span of a short reference in the text, as it is written: a name, a date, a formula; None if
    it lacks one, and where it is no news.

    Args:
        text: the feedback, as a reading.
        reference: the answer; a number and a common word are left to other finders.
        known: what the reader has anyway.
    """
    phrase = reference.strip()
    if phrase in _COMMON or phrase in known or not _TELLING.match(phrase):
        return None
    if as_number(phrase) is not None:
        return None
    # A list of several names states none as the answer.
    lists = [] if "," in phrase else [match.span() for match in _LIST.finditer(text)]
    # `9:03 PM` is `9:03 pm`, but a name is no word
    case = re.IGNORECASE if re.search(r"\d", phrase) else 0
    for match in re.finditer(rf"(?<!\w){re.escape(phrase)}(?!\w)", text, case):
        if not any(start <= match.start() < end for start, end in lists):
            return match.span()
    return None


def copied_share(text: str, solution: str, attempt: str = "") -> float:
    """Share of the solution's n-grams in the text, of those that the attempt lacks; 0 if the
    attempt has them all.

    >>> copied_share("so: add two and three to get five", "Add two and three to get five.")
    1.0
    """
    wanted = _ngrams(tokens_of(solution)) - _ngrams(tokens_of(attempt))
    return len(wanted & _ngrams(tokens_of(text))) / len(wanted) if wanted else 0.0


def _ngrams(tokens: list[str]) -> set[tuple[str, ...]]:
    return {tuple(tokens[i : i + N]) for i in range(len(tokens) - N + 1)}
