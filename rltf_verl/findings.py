"""Findings: what to change in a run's settings. Rules about settings are rows of tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from rltf_verl.kinds import plain, shown
from rltf_verl.redaction import hide

Level = Literal["error", "warning", "note"]
Subject = TypeVar("Subject")


@dataclass(frozen=True)
class Finding:
    """One thing to change: the setting, its value, the reason and the fix (an imperative)."""

    key: str
    value: Any
    why: str
    fix: str
    level: Level = "error"
    quoted: bool = False
    """Show a text in quotes, because its type matters."""

    def __str__(self) -> str:
        """`key=value: why; fix`, on one line, without secrets."""
        value = shown(self.value, self.key) if self.quoted else plain(self.value, self.key)
        head = f"{self.key}={value}: " if self.key else ""
        text = "; ".join(part for part in (self.why, self.fix) if part)
        return hide(" ".join(f"{head}{text}".split()))

    def with_chosen_key(self, chosen: Sequence[str]) -> Finding:
        """The same with the key of the user's override that it names, unless its own is one. A
        finding without a key is a whole line and stays as it is.

        Args:
            chosen: Hydra's overrides; all other values came with presets.
        """
        words = dict(word.lstrip("+").split("=", 1) for word in chosen if "=" in word)
        # Every dotted key that reason and fix name, in order.
        named = re.findall(r"\w+(?:\.\w+)+", f"{self.why} {self.fix}")
        key = next((key for key in named if key in words), None)
        if self.key in ("", *words) or key is None:
            return self
        fix = self.fix.replace("set it to", f"set {self.key} to")
        return Finding(key, words[key], str(replace(self, fix="")), fix, self.level)

    def under(self, block: str) -> Finding:
        """The same, with the key seen from outside of `block`, which may be empty."""
        return replace(self, key=f"{block}.{self.key}".removeprefix(".") if self.key else "")


class ConfigError(ValueError):
    """A setting that cannot work.

    Args:
        finding: the key, its value and the fix; or the whole line.
    """

    def __init__(self, finding: Finding | str) -> None:
        super().__init__(hide(str(finding)))
        self.finding = finding if isinstance(finding, Finding) else Finding("", None, finding, "")

    def __reduce__(self) -> tuple[Any, ...]:
        return ConfigError, (self.finding,)


@dataclass(frozen=True)
class Rule(Generic[Subject]):
    """A row of a table of rules: `when` it holds of the subject, the row is a `Finding`.

    `why` and `fix` are templates over the settings: `{rltf.attempt.estimator}`.
    """

    key: str
    when: Callable[[Subject], object]
    why: str
    fix: str
    level: Level = "error"
    steps: int = 1
    """Steps in a row in which a rule on a run's metrics holds before its report."""


def findings(rules: Iterable[Rule[Subject]], subject: Subject, settings: Any) -> Iterator[Finding]:
    """The rules that hold, in the table's order.

    Args:
        rules: rows.
        subject: the argument of `when`.
        settings: mappings or objects inside each other; `key` and the templates are looked up here.
    """
    for rule in rules:
        if rule.when(subject):
            why, fix = filled(rule.why, settings), filled(rule.fix, settings)
            yield Finding(rule.key, value_at(settings, rule.key), why, fix, rule.level)


def finding_of(error: Exception) -> Finding:
    """An error's finding."""
    if isinstance(error, ConfigError):
        return error.finding
    return Finding("", None, " ".join(str(error).split()), "")


def filled(template: str, settings: Any) -> str:
    """A template with the values of its settings."""
    return _FIELD.sub(lambda field: plain(value_at(settings, field[1]), field[1]), template)


_FIELD = re.compile(r"\{([a-z]\w*(?:\.\w+)*)\}")
"""A key in braces, `{data.train_batch_size}`."""


def value_at(settings: Any, key: str) -> Any:
    """The value of a dotted key; None where a block is missing."""
    for name in key.split("."):
        get = getattr(settings, "get", None)
        settings = getattr(settings, name, None) if get is None else get(name)
    return settings
