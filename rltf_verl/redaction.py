"""Secrets in text that leaves this process: API keys, tokens, passwords of URLs."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from rltf_verl.texts import one_line

MARK = "***"

SHORTEST = 8
"""Letters and digits of a secret. Less is a placeholder (`EMPTY`, `none`) or a common word."""

_NAME = r"(?:KEY|TOKEN|SECRET|PASS(?:WORD|WD|PHRASE)?|CREDENTIAL|AUTH|SESSION|COOKIE)S?"
_SECRET_NAME = re.compile(rf"{_NAME}\Z", re.IGNORECASE)
_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[^\s/.~]\S*")
"""The form of a key or a token; names of sort keys and paths of key files have another."""

URL_LOGIN = re.compile(r"(?<=//)[^/\s@]{1,200}(?=@)")
_LOOKS_SECRET = re.compile(
    rf"\b(?:sk|pk|key|tok)-(?=[\w*.\-]{{0,200}}[0-9*])[\w*.\-]+|{URL_LOGIN.pattern}"
    r"|\b(?<=bearer )[\w+/=.~\-]+|(?<=[?&]key=)[^&\s]+|(?<=token=)[^&\s]+|(?<=api_key=)[^&\s]+",
    re.IGNORECASE,
)
# A name within the value (`{WANDB_API_KEY: …}`), a prefix of a provider, a long random word.
_SECRET_VALUE = re.compile(
    rf"{_NAME}[\"']?\s*[:=]|{_LOOKS_SECRET.pattern}|\b(?:hf_|gh[a-z]_|glpat-|AKIA|xox)\w"
    r"|\b(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{32,}\b",
    re.IGNORECASE,
)


def looks_secret(name: str, value: str) -> bool:
    """Whether a variable or a setting may hold a secret, by its name or by its value."""
    return bool(value and (re.search(rf"(?i){_NAME}(?=\Z|_)", name) or _SECRET_VALUE.search(value)))


class Secrets:
    """Values that no text may hold, in upper or lower case, as they are or as JSON writes them.

    Args:
        values: the secrets; `quote` alone looks for those shorter than `SHORTEST`, as words.
    """

    def __init__(self, values: Iterable[str]) -> None:
        by_length = sorted(set(values), key=len, reverse=True)
        long = [value for value in by_length if sum(map(str.isalnum, value)) >= SHORTEST]
        forms = {form: None for value in long for form in (value, json.dumps(value)[1:-1])}
        self._values = re.compile("|".join(map(re.escape, forms)) or "(?!)", re.IGNORECASE)
        short = [re.escape(value) for value in by_length if len(value) > 2 and value not in long]
        self._words = re.compile(rf"(?<![\w-])(?:{'|'.join(short) or '(?!)'})(?![\w-])")

    def __repr__(self) -> str:
        """Without the values."""
        return f"{type(self).__name__}(…)"

    def found_in(self, text: str) -> bool:
        """Whether the text holds one of them."""
        return self._values.search(text) is not None

    def clean(self, text: str) -> str:
        """The text with `***` for each secret."""
        return self._values.sub(MARK, text)

    def quote(self, text: str, longest: int = 200) -> str:
        """The start of a foreign text as one clean line, without what only looks like a secret."""
        start = text[: 100 * longest]
        if len(start) < len(text):  # half of a secret at the cut would not be recognised
            start = start[: max(start.rfind(" "), start.rfind("\n"), 0)] or start[: -10 * longest]
        return one_line(_LOOKS_SECRET.sub(MARK, self._words.sub(MARK, self.clean(start))), longest)


def secrets_here(more: Iterable[str] = ()) -> Secrets:
    """Secrets of this process: values of variables named `…KEY`, `…TOKEN` and so on, passwords of
    proxies.
    """
    return _secrets(tuple(sorted({*_of_environment(os.environ), *more})))


@lru_cache(maxsize=8)
def _secrets(values: tuple[str, ...]) -> Secrets:
    return Secrets(values)


def _of_environment(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if (secret := _of_variable(name, value)) is not None:
            yield secret


@lru_cache(maxsize=4096)  # every line of a log asks
def _of_variable(name: str, value: str) -> str | None:
    if _SECRET_NAME.search(name) and _RANDOM.fullmatch(value):
        return value
    if name.lower().endswith("_proxy"):  # urlsplit raises on some values
        return value.rpartition("@")[0].rpartition("//")[2].partition(":")[2]
    return None


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
    if isinstance(record, (list, tuple)):
        return [cleaned(value, secrets) for value in record]
    return record


class CleanLog(logging.Filter):
    """Cleans a library's log records. Add it to each of its loggers: children inherit no filter."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        """Always True; the record then holds clean text."""
        record.msg, record.args = self._secrets.clean(record.getMessage()), ()
        return True
