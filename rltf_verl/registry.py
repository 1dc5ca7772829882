"""Things chosen by name in the config: looked up, imported lazily, and built with checked options."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any


def unknown(key: str, value: object, known: Iterable[str]) -> ValueError:
    """The error for a `value` that config `key` cannot have: names the known ones and the closest of them."""
    return ValueError(f"{key}={value!r} is not known; {_known(value, known)}")


def _known(value: object, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(str(value), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"known: {', '.join(names) or 'none'}.{hint}"


def require_choice(key: str, value: object, known: Iterable[str]) -> None:
    """Raise ValueError, naming config `key`, unless `value` is one of `known`."""
    choices = tuple(known)
    if value not in choices:
        raise unknown(key, value, choices)


def construct(block: str, selector: str, table: Mapping[str, str], name: str, options: Mapping[str, Any]) -> Any:
    """Build the object that `name` stands for.

    Args:
        block: config block the options come from, e.g. `rltf.env`; used in errors only.
        selector: key of that block that holds the name, e.g. `name`.
        table: name -> `"module:Class"`; only the chosen module is imported.
        name: which one.
        options: keyword arguments of its constructor.

    Raises:
        ValueError: unknown name or option; names the key, the value, the known ones and the closest match.
    """
    require_choice(f"{block}.{selector}", name, table)
    module, _, attribute = table[name].partition(":")
    factory = getattr(importlib.import_module(module), attribute)
    known = inspect.signature(factory).parameters
    for option in options:
        if option not in known:
            key = f"{block}.{option}={options[option]!r}"
            raise ValueError(f"{key}: {name} has no option {option!r}; {_known(option, known)}")
    return factory(**options)
