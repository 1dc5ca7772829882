"""Things chosen by name in the config: looked up, imported lazily, and built with checked options."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")


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
        table: name -> `"module:Class"`; only the chosen module is imported. Names of installed packages, by the entry
            points of the group `rltf_verl.<last word of block>`, stand beside it.
        name: which one; or `"module:Class"`, or `"path/to/file.py:Class"`.
        options: keyword arguments of its constructor.

    Raises:
        ValueError: unknown name or option; names the key, the value, the known ones and the closest match.
    """
    key = f"{block}.{selector}"
    if ":" not in name:
        table = {**_installed(block), **table}
        require_choice(key, name, table)
    return build_block(block, load(key, table.get(name, name)), options, owner=name)


def build_block(block: str, factory: Callable[..., T], options: Mapping[str, Any], owner: str = "it") -> T:
    """`factory(**options)`. Raises ValueError, naming config `block`, for an option that it does not have."""
    known = inspect.signature(factory).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in known.values()):
        for option in options:
            if option not in known:
                key = f"{block}.{option}={options[option]!r}"
                raise ValueError(f"{key}: {owner} has no option {option!r}; {_known(option, known)}")
    return factory(**options)


def load(key: str, where: str) -> Any:
    """What `module:Name` or `path/to/file.py:Name` names. Raises ValueError, naming config `key`."""
    source, _, attribute = where.rpartition(":")
    try:
        module = _module_of_file(Path(source)) if source.endswith(".py") else importlib.import_module(source)
        return getattr(module, attribute)
    except Exception as error:  # a user's file can raise anything while it is read
        raise ValueError(f"{key}={where!r}: {type(error).__name__}: {error}") from error


def _installed(block: str) -> dict[str, str]:
    """Name -> `module:Class` of other packages."""
    found = entry_points(group=f"rltf_verl.{block.rpartition('.')[2]}")
    return {point.name: point.value for point in found}


@cache
def _module_of_file(path: Path) -> ModuleType:
    """A user's own file as a module, loaded once per process."""
    if not path.is_file():
        raise FileNotFoundError(f"no such file, seen from {Path.cwd()}")
    name = f"_rltf_file_{path.stem}_{abs(hash(path.resolve()))}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module
