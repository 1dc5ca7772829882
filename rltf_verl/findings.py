"""What is wrong with a run, or may be: one shape and one line for everyone who looks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from rltf_verl.kinds import plain

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

    def __str__(self) -> str:
        """`key=value: why; fix`, on one line."""
        head = f"{self.key}={plain(self.value)}: " if self.key else ""
        return " ".join(f"{head}{self.why}; {self.fix}".split())


@dataclass(frozen=True)
class Rule(Generic[Subject]):
    """A row of a table of rules: `when` it holds of the subject, the row is a `Finding`.

    `why` and `fix` are templates over the settings: `{rltf.attempt.estimator}`.
    """

    key: str
    when: Callable[[Subject], bool]
    why: str
    fix: str
    level: Level = "error"


def findings(
    rules: Iterable[Rule[Subject]], subject: Subject, settings: Mapping[str, Any]
) -> Iterator[Finding]:
    """The rules that hold, in the table's order.

    Args:
        rules: rows.
        subject: what `when` looks at.
        settings: nested; `key` and the templates are looked up in it, dots reach into its blocks.
    """
    for rule in rules:
        if rule.when(subject):
            yield Finding(
                rule.key,
                _value(rule.key, settings),
                rule.why.format_map(_Settings(settings)),
                rule.fix.format_map(_Settings(settings)),
                rule.level,
            )


def _value(key: str, settings: Any) -> Any:
    for name in key.split("."):
        settings = settings.get(name) if settings is not None else None
    return settings


class _Settings(dict[str, Any]):
    """Lets `{a.b}` reach into blocks, in the syntax of `str.format`."""

    def __getitem__(self, name: str) -> Any:
        value = dict.__getitem__(self, name)
        return _Block(value) if hasattr(value, "get") else value


class _Block:
    def __init__(self, settings: Any) -> None:
        self._settings = settings

    def __getattr__(self, name: str) -> Any:
        value = self._settings.get(name)
        return _Block(value) if hasattr(value, "get") else value
