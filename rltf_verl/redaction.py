"""Secrets in text that leaves this process: found however they are written, cut out or withheld
with their text.
"""

from __future__ import annotations

import base64
import codecs
import logging
import os
import re
import string
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from rltf_verl.texts import one_line

MARK = "***"
WITHHELD = "(withheld: it quotes a secret)"

SHORTEST = 8
"""Letters and digits of a secret. Less is a placeholder (`EMPTY`, `none`) or a word that texts are
full of.
"""

_GRAM = 8
_ROUNDS = 4
"""An encoding inside of an encoding inside of …"""

_SECRET_NAME = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH)\Z", re.IGNORECASE
)
_ESCAPE = re.compile(
    # all that one can begin with, to be quick
    "[%=0&\\\\\u2460-\u24ff\uff01-\uff5e\U0001d400-\U0001d7ff]"
    r"(?:(?:(?<=[%=])|(?<=0)[xX]|(?<=\\)(?:x|u00|u\{|U000000))(?P<byte>[0-9a-fA-F]{2})|(?<=\\)(?P<octal>[0-7]{3})"
    r"|(?<=&)#0{0,7}(?P<number>[0-9]{2,3})|(?<=&)#[xX]0{0,7}(?P<hex>[0-9a-fA-F]{2})|(?<=&)(?P<and>amp;)"
    "|(?P<wide>(?<=[\u2460-\U0001d7ff])))"
)
_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[^\s/.~]\S*")
"""What a key or a token looks like; names of sort keys and paths of key files are no secrets."""

_LOWER = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
_OTHERS = bytes(set(range(256)) - set((string.ascii_letters + string.digits).encode()))
_LOOKS_SECRET = re.compile(
    r"\b(?:sk|pk|key|tok)-(?=[\w*.\-]{0,200}[0-9*])[\w*.\-]+|(?<=//)[^/\s@]{1,200}(?=@)|\b(?<=bearer"
    r" )[\w+/=.~\-]+"
    r"|(?<=[?&]key=)[^&\s]+|(?<=token=)[^&\s]+|(?<=api_key=)[^&\s]+",
    re.IGNORECASE,
)


class Secrets:
    """Values that no text may hold.

    A text is looked at as it is and with its escapes resolved (percent, JSON, HTML,
    quoted-printable, octal, wide letters; one inside of another too), always without case and
    without what is neither letter nor digit, so that nothing depends on line ends or invisible
    characters. What is looked for in it is each value, forwards, backwards and rotated by 13, its
    Base64 and Base32 at every alignment and its hexadecimal and decimal codes, and half of any of
    these. All of it takes time in proportion to the text.

    Args:
        values: the secrets; `quote` alone looks for those with less than `SHORTEST` letters and
            digits, as words.
    """

    def __init__(self, values: Iterable[str]) -> None:
        long = [value for value in set(values) if len(_reduced(value)) >= SHORTEST]
        # A number is cut out where it stands as it is, and not looked for in other forms: texts are
        # full of numbers.
        self._plain = re.compile(
            "|".join(map(re.escape, sorted(long, key=len, reverse=True))) or "(?!)", re.IGNORECASE
        )
        self._numbers = tuple(value for value in long if _reduced(value).isdigit())
        short = [re.escape(value) for value in set(values) if len(value) > 2 and value not in long]
        self._words = re.compile(rf"(?<![\w-])(?:{'|'.join(sorted(short)) or '(?!)'})(?![\w-])")
        forms = {form for value in long if not _reduced(value).isdigit() for form in _forms(value)}
        self._short = tuple(
            sorted(form for form in forms if len(form) < 2 * _GRAM - 1 or form.isdigit())
        )
        grams = {
            form[i : i + _GRAM]
            for form in forms.difference(self._short)
            for i in range(len(form) - _GRAM + 1)
        }
        self._grams = frozenset(gram for gram in grams if not gram.isdigit())

    def __repr__(self) -> str:
        """Without the values."""
        return f"{type(self).__name__}(…)"

    def found_in(self, text: str) -> bool:
        """Whether the text holds one of them, in whatever form."""
        if any(number in text for number in self._numbers):
            return True
        for _ in range(_ROUNDS if self._grams or self._short else 0):
            if self._in_reduced(_reduced(text)):
                return True
            resolved = _ESCAPE.sub(_resolved, text)
            if resolved == text:
                break
            text = resolved
        return False

    def _in_reduced(self, text: bytes) -> bool:
        """Every `_GRAM`-th stretch of the text is looked up: wherever a long form begins, one lies
        within it.
        """
        stretches = (text[i : i + _GRAM] for i in range(0, len(text) - _GRAM + 1, _GRAM))
        return not self._grams.isdisjoint(stretches) or any(form in text for form in self._short)

    def clean(self, text: str) -> str:
        """The text with `***` for each secret; `WITHHELD` if it holds one in another form."""
        if not self.found_in(text):
            return text
        rest = self._plain.sub(MARK, text)
        return WITHHELD if self.found_in(rest) else rest

    def quote(self, text: str, longest: int = 200) -> str:
        """The beginning of somebody else's text as one clean line; what only looks like a secret
        goes too.
        """
        start = text[: 100 * longest]
        if len(start) < len(
            text
        ):  # a secret that the cut went through would pass for something else
            start = start[: max(start.rfind(" "), start.rfind("\n"), 0)] or start[: -10 * longest]
        return one_line(_LOOKS_SECRET.sub(MARK, self._words.sub(MARK, self.clean(start))), longest)


def secrets_here(more: Iterable[str] = ()) -> Secrets:
    """What this process must not tell: values of variables named `…KEY`, `…TOKEN` and so on,
    passwords of proxies.
    """
    return _secrets(tuple(sorted({*_of_environment(os.environ), *more})))


@lru_cache(maxsize=8)
def _secrets(values: tuple[str, ...]) -> Secrets:
    return Secrets(values)


def _of_environment(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if _SECRET_NAME.search(name) and _RANDOM.fullmatch(value):
            yield value
        elif name.lower().endswith(
            "_proxy"
        ):  # http://user:password@host; not by urlsplit, which raises on odd values
            yield value.rpartition("@")[0].rpartition("//")[2].partition(":")[2]


@lru_cache(maxsize=8)
def clean_log(secrets: Secrets) -> CleanLog:
    """One filter for the same secrets: a logger does not take the same one twice."""
    return CleanLog(secrets)


def cleaned(record: Any, secrets: Secrets) -> Any:
    """A JSON value with all its texts clean."""
    if isinstance(record, str):
        return secrets.clean(record)
    if isinstance(record, Mapping):
        return {secrets.clean(str(key)): cleaned(value, secrets) for key, value in record.items()}
    return (
        [cleaned(value, secrets) for value in record]
        if isinstance(record, (list, tuple))
        else record
    )


class CleanLog(logging.Filter):
    """Cleans what a library logs. Belongs on its loggers: a filter does not apply to a logger's
    children.
    """

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        """Always True; the record then holds clean text."""
        record.msg, record.args = self._secrets.clean(record.getMessage()), ()
        return True


def _reduced(text: str) -> bytes:
    """Its letters and digits, in lower case."""
    return text.encode("ascii", "ignore").translate(_LOWER, _OTHERS)


def _resolved(escape: re.Match[str]) -> str:
    kind, text = str(escape.lastgroup), escape[escape.lastgroup or 0]
    if kind == "wide":
        return unicodedata.normalize("NFKC", escape[0])
    return "&" if kind == "and" else chr(int(text, {"octal": 8, "number": 10}.get(kind, 16)))


def _forms(value: str) -> Iterator[bytes]:
    """What a text that holds the value, encoded as a whole or with what stands around it, holds
    when it is reduced.
    """
    raw = value.encode()
    once = [raw.hex(), *_aligned(base64.b64encode, raw, 3, 4)]
    twice = [form for text in once[1:] for form in _aligned(base64.b64encode, text.encode(), 3, 4)]
    for text in (value, *once):
        yield _reduced(text)[::-1]
    for text in (
        value,
        codecs.encode(value, "rot13"),
        *once,
        *twice,
        *_aligned(base64.b32encode, raw, 5, 8),
    ):
        yield _reduced(text)
    yield "".join(map(str, raw)).encode()


def _aligned(encode: Any, raw: bytes, of: int, to: int) -> Iterator[str]:
    """What every encoding of a text with `raw` in it holds: blocks of `of` bytes become `to`
    letters.
    """
    for before in range(of):
        text = encode(b"\0" * before + raw).decode().rstrip("=")
        first = -(-before * to // of)
        whole = (before + len(raw)) * 8 // {4: 6, 8: 5}[to]
        yield text[first:whole]
