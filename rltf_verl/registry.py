"""Things chosen by name in the config: looked up, imported lazily, and built with checked
options.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from rltf_verl.kinds import hints_of, plain, shown, trouble

T = TypeVar("T")
MAX_CAUSE = 500
"""Characters of somebody else's error that a message quotes."""
MAX_SAID = 400
"""The same, where the line of code follows."""


class UnknownOptionError(ValueError):
    """A component does not have an option that it is given.

    Args:
        option: its name.
    """

    def __init__(self, message: str, option: str) -> None:
        super().__init__(message)
        self.option = option


MISSING = "???"
"""OmegaConf's value of what has to be set."""


def unknown(key: str, value: object, known: Iterable[str]) -> ValueError:
    """The error for a `value` that config `key` cannot have: names the known ones and the closest
    of them.
    """
    return ValueError(f"{key}={shown(value)} is not known; {_known(value, known)}")


def _known(value: object, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(str(value), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"known: {', '.join(names) or 'none'}.{hint}"


def require_choice(key: str, value: object, known: Iterable[str]) -> None:
    """Raise ValueError, naming config `key`, unless `value` is one of `known`."""
    choices = tuple(known)
    if not isinstance(value, str) or value not in choices:
        raise unknown(key, value, choices)


def construct(
    block: str, selector: str, table: Mapping[str, str], name: str, options: Mapping[str, Any]
) -> Any:
    """Build the object that `name` stands for.

    Args:
        block: config block the options come from, e.g. `rltf.env`; used in errors only.
        selector: key of that block that holds the name, e.g. `name`.
        table: name -> `"module:Class"`; only the chosen module is imported. Names of installed
            packages, by the entry points of the group `rltf_verl.<last word of block>`, stand
            beside it.
        name: which one; or `"module:Class"`, or `"path/to/file.py:Class"`.
        options: keyword arguments of its constructor.

    Raises:
        ValueError: unknown name or option; names the key, the value, the known ones and the closest
            match.
    """
    key = f"{block}.{selector}"
    if name == MISSING:
        raise ValueError(f"{key}={MISSING}: name your class, e.g. {key}=./mine.py:Mine")
    if ":" not in name:
        table = {**_installed(block), **table}
        require_choice(key, name, table)
    factory = load(key, table.get(name, name))
    if not isinstance(factory, type):
        raise ValueError(f"{key}={name!r}: is a {type(factory).__name__}; name a class")
    try:
        return build_block(block, factory, options, owner=name)
    except ValueError:
        raise
    except Exception as error:  # a user's constructor can raise anything
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:MAX_CAUSE]
        raise ValueError(f"{key}={name!r}: cannot be made ({cause})") from error


def build_block(
    block: str, factory: Callable[..., T], options: Mapping[str, Any], owner: str = "it"
) -> T:
    """`factory(**options)`.

    Raises:
        ValueError: an option that it does not have, needs, or cannot take by its annotation; names
            config `block`.
    """
    try:
        known = inspect.signature(factory).parameters
    except (ValueError, TypeError) as error:
        raise ValueError(f"{block}: {owner} has no arguments that can be read ({error})") from error
    takes_any = any(p.kind is p.VAR_KEYWORD for p in known.values())
    hints = hints_of(factory)
    for option, value in options.items():
        key = f"{block}.{plain(option)}={shown(value)}"
        if option not in known and not takes_any:
            raise UnknownOptionError(
                f"{key}: {owner} has no option {shown(option)}; {_known(option, known)}", option
            )
        default = known[option].default if option in known else inspect.Parameter.empty
        fix = None if value is default else trouble(value, hints.get(option, Any))
        if fix is not None:
            raise ValueError(f"{key}: {fix}")
    for option, parameter in known.items():
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if named and parameter.default is parameter.empty and option not in options:
            raise ValueError(f"{block}.{option}: {owner} needs it; set it")
    return factory(**options)


def load(key: str, where: str) -> Any:
    """What `module:Name` or `path/to/file.py:Name` names. Raises ValueError, naming config
    `key`.
    """
    source, _, attribute = where.rpartition(":")
    try:
        module = (
            _module_of_file(_existing(Path(source)))
            if source.endswith(".py")
            else importlib.import_module(source)
        )
    except Exception as error:  # a user's file can raise anything while it is read
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:MAX_CAUSE]
        raise ValueError(f"{key}={shown(where)}: {cause}") from error
    if not hasattr(module, attribute):
        own = [
            name
            for name, value in vars(module).items()
            if getattr(value, "__module__", None) == module.__name__
        ]
        raise ValueError(
            f"{key}={shown(where)}: {source} has no {attribute!r}; {_known(attribute, own)}"
        )
    return getattr(module, attribute)


def raised_by(own: Any, error: BaseException) -> str:
    """What a user's own class or function raised, and the last line of its file that was running;
    None in its place: without the line.
    """
    said = " ".join(f"{type(error).__name__}: {error}".split())[:MAX_SAID]
    try:
        file = inspect.getfile(inspect.unwrap(own))
    except TypeError:  # None, or an object that can be called
        return said
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return f"{said} ({Path(file).name}:{lines[-1]})" if lines else said


def _installed(block: str) -> dict[str, str]:
    """Name -> `module:Class` of other packages."""
    return _read_once(entry_points, f"rltf_verl.{block.rpartition('.')[2]}")


@cache
def _read_once(read: Callable[..., Any], group: str) -> dict[str, str]:
    """Once per process: it opens a file of every installed package."""
    return {point.name: point.value for point in read(group=group)}


def _existing(path: Path) -> Path:
    """Absolute, whatever folder the process is in. Raises FileNotFoundError."""
    found = path.expanduser().resolve()
    if not found.is_file():
        raise FileNotFoundError(f"no such file, seen from {Path.cwd()}")
    return found


@cache
def _module_of_file(path: Path) -> ModuleType:
    """A user's own file as a module, loaded once per process. It finds the files beside it, behind
    everything that is installed.
    """
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    name = f"_rltf_file_{path.stem}_{abs(hash(path))}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module
