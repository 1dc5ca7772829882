"""Secrets in text that leaves this process: API keys, tokens, passwords of URLs."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from rltf_verl.texts import one_line

MARK = "***"

SHORTEST = 8
"""Letters and digits of a secret. Less is a placeholder (`EMPTY`, `none`) or a common word."""

_NAME = (
    r"(?:(?:api|access|account|auth|client|encryption|license|private|secret|shared|signing)"
    r"[_-]?keys?(?:_?id)?|(?-i:KEYS?(?:_ID)?)"  # lower case alone is a mapping's: `sort_key`
    r"|token|secrets?|pass(?:word|wd|phrase|code)s?|credentials?"
    r"|(?<![^\W_])(?:pass|pwd?|pin|creds?|auth|session|cookies?|sig|dsn|webhook(?:_?url)?"
    r"|org(?:ani[sz]ation)?(?:_?id)?))"
)
"""End of a name whose value is a secret. Counts of tokens have names in the plural."""
_SECRET_NAME = re.compile(rf"{_NAME}(?:_?\d+)?\Z", re.IGNORECASE)
_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[^\s/.~]\S*")
"""The form of a key or a token; names of sort keys and paths of key files have another."""
_VARIABLE = re.compile(r"[A-Z]{1,12}|[A-Z]+(?:_[A-Z0-9]+)+")
"""Names of environment variables; anything else under `api_key_env` may be the key itself."""

_VALUE = r"[^\s\"',;&(){}\[\]]+"
# No secret: a number, null, true, `<placeholder>`, `$VARIABLE`, `***`.
_NO_VALUE = r"(?!(?:[-+.\de]+|null|none|true|false)(?![^\s\"',;&(){}\[\]])|[<$*])"
FORMS = (
    # `password: x`, `"passwd": "x"`
    r"(pass(?:word|wd|phrase)[\"']?\s*[:=]\s*[\"']?)" + _VALUE,
    # `API_KEY=x`, `"api_key": "x"`, `token:x`
    rf"({_NAME}(?:[\"']?\s*=\s*|[\"']\s*:\s*|:)[\"']?){_NO_VALUE}{_VALUE}",
    # `token: a1b2`; without a digit only in capitals, inside a printed mapping: `API_KEY: abc,`
    rf"({_NAME}:\s+[\"']?)(?=\S*\d|(?-i:(?<=[A-Z]: ))[^\s,}}]+[,}}]){_NO_VALUE}{_VALUE}",
    # `?api_key=x`; Amazon's signed addresses
    r"((?:[?&][\w-]{0,40}(?:key|token|secret|signature)|\bX-Amz-[\w-]{1,40})=)[^&\s'\"]+",
    # `--api-key x`; MySQL's `-px`; `wandb login a1b2`; ~/.netrc
    rf"(--[\w-]{{0,40}}{_NAME}\s+)(?!-){_NO_VALUE}{_VALUE}",
    r"(\bmysql[^\n|;]{0,200}\s-p)\S+",
    r"(\blogin\s+(?:\S+\s+password\s+|(?=[\w.-]*\d)(?=[\w.-]{16})))\S+",
    r"(\b(?-i:Bearer|bearer(?=\s+\S*\d))\s+)(?!token|auth)[\w+/=.~*-]+",
    r"(\bbasic\s+)(?-i:(?=[A-Za-z+/]*(?:[0-9=]|[a-z][A-Z]))[A-Za-z0-9+/]{8,}={0,2})",
    r"(https?://[^\s'\"]{0,200}?hook[^\s'\"/]*/)[^\s'\"]+",  # Slack, Discord, Teams
    r"(?<=:/)(/?)(?:[^\s'\"/]{1,200}|[^\s'\"/:]{0,200}:(?!\d+[/?#])[^\s'\"]{1,200})(?=@)",  # login
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:.|\n)*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    r"\b[spr]k[-_](?=[\w*.-]{0,200}[\d*])[\w*.-]{6,}",  # OpenAI, Anthropic, OpenRouter, Stripe
    r"\b(?:key|tok)-(?=[a-z]*\d)[a-z\d]{6,}",
    r"\b(?:hf|gsk)_(?-i:(?=[a-z]*[A-Z\d])[A-Za-z\d]{8,})",
    # a short name and a random word, as most others are: `dop_v1_…`; ids of calls are no secrets
    r"\b(?!(?:call|msg|node|req|resp)_)(?-i:[a-z]{2,9}(?:_[a-z\d]{2,4})?_(?=[A-Za-z]*\d)"
    r"(?=[A-Z\d]*[a-z])[A-Za-z\d]{20,})",
    # GitHub; GitLab; Slack
    r"\b(?:gh[a-z]|github_pat)_\w{6,}|\bgl[a-z]{1,4}t-[\w-]{6,}|\bxox[a-z]-[\w-]{6,}",
    # AWS; Google; Databricks; a JSON web token
    r"\bdapi[a-f\d]{32}|\b(?-i:A[KS]IA)[A-Z\d]{12,}|\b(?-i:AIza)[\w-]{10,}|\b(?-i:eyJ)[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?",
    r"\b(?:csk|dckr_pat|figd|hvs|nvapi|pplx|pypi|r8|wandb_v1|xai|xapp)[-_.](?=\S*\d)[\w-]{16,}",
    r"\b(?:org|proj)[-_](?=[a-z]*\d)[a-z\d]{8,}",
    r"\b(?-i:(?=[A-Z\d]*[a-z])(?=[a-z\d]*[A-Z])(?=[A-Za-z]*\d)[A-Za-z\d]{32,})\b",  # not a hash
)
"""Patterns of a secret in a text. Text that a group matches stays."""
_SECRET = re.compile("|".join(FORMS), re.IGNORECASE)


def hide(text: str) -> str:
    """The text with `***` for what looks like a secret."""
    return _SECRET.sub(
        lambda match: (match[match.lastindex] if match.lastindex else "") + MARK, text
    )


def looks_secret(name: str, value: str) -> bool:
    """True if a variable or a setting may hold a secret, by its name or by its value."""
    return bool(hidden(value, name) != value)


def hidden(value: Any, name: str = "") -> Any:
    """A JSON value with `***` for what looks like a secret, by its form or its key's name."""
    return mapped(value, _without_secret, name)


def _without_secret(text: str, name: str) -> str:
    misplaced = name.endswith("api_key_env") and not _VARIABLE.fullmatch(text)
    return MARK if text and (misplaced or _SECRET_NAME.search(name)) else hide(text)


def mapped(value: Any, change: Callable[[str, str], str], name: str = "") -> Any:
    """A JSON value with `change(text, name of its key)` for each text; keys have the name ""."""
    if isinstance(value, str):
        return change(value, name)
    if isinstance(value, Mapping):
        return {mapped(k, change): mapped(inner, change, str(k)) for k, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [mapped(inner, change, name) for inner in value]
    return value


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
        """True if the text holds one of them."""
        return self._values.search(text) is not None

    def clean(self, text: str) -> str:
        """The text with `***` for each secret."""
        return self._values.sub(MARK, text)

    def quote(self, text: str, longest: int = 200) -> str:
        """The start of a foreign text as one clean line, without what only looks like a secret."""
        start = text[: 100 * longest]
        if len(start) < len(text):  # half of a secret at the cut would not be recognised
            start = start[: max(start.rfind(" "), start.rfind("\n"), 0)] or start[: -10 * longest]
        return one_line(hide(self._words.sub(MARK, self.clean(start))), longest)


def secrets_here(more: Iterable[str] = ()) -> Secrets:
    """Secrets of this process: values of variables named `…KEY`, `…TOKEN` and so on, passwords of
    proxies.
    """
    found = (_of_variable(name, value) for name, value in os.environ.items())
    return _secrets(tuple(sorted({*filter(None, found), *more})))


_secrets = lru_cache(maxsize=8)(Secrets)


@lru_cache(maxsize=4096)  # every line of a log asks
def _of_variable(name: str, value: str) -> str | None:
    if _SECRET_NAME.search(name) and _RANDOM.fullmatch(value):
        return value
    if name.lower().endswith("_proxy"):  # urlsplit raises on some values
        # `http://user:password@host:3128` -> `password`
        return value.rpartition("@")[0].rpartition("//")[2].partition(":")[2]
    return None


def cleaned(record: Any, secrets: Secrets) -> Any:
    """A JSON value with all its texts clean."""
    return mapped(record, lambda text, _: secrets.clean(text))


@lru_cache(maxsize=8)  # a logger does not take the same filter twice
def clean_log(secrets: Secrets) -> Callable[[logging.LogRecord], bool]:
    """A filter that cleans a library's log records. Add it to each of its loggers: children inherit
    no filter.
    """

    def clean(record: logging.LogRecord) -> bool:
        record.msg, record.args = secrets.clean(record.getMessage()), ()
        return True

    return clean
