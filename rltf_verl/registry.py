"""Components chosen by name in the config: found, imported lazily, built with checked options."""

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
from typing import Any, TypeVar, cast

from rltf_verl.findings import ConfigError, Finding
from rltf_verl.kinds import hints_of, plain, trouble
from rltf_verl.redaction import secrets_here

T = TypeVar("T")
MAX_ERROR_CHARS = 400
"""Characters of an error of user code that a message quotes."""
OWN_ERRORS = (Exception, SystemExit, KeyboardInterrupt, GeneratorExit)
"""Exceptions that a user's file can raise on import."""


class UserCodeError(Exception):
    """A call of user code failed. Its text and traceback are those of whatever was raised."""


class UserCodeTimeoutError(UserCodeError):
    """The call did not return within its deadline."""


def described(error: BaseException) -> str:
    """Type and text of an exception in one line, also if its text raises."""
    try:
        text = str(error)
    except BaseException as broken:  # user code
        text = f"its text raises {type(broken).__name__}"
    name = "" if isinstance(error, UserCodeError) else f"{type(error).__name__}: "
    return secrets_here().quote(f"{name}{text}".rstrip(": "), MAX_ERROR_CHARS)


class UnknownOptionError(ConfigError):
    """A component does not have the option `name`."""

    def __init__(self, finding: Finding, name: str) -> None:
        super().__init__(finding)
        self.option = name


MISSING = "???"
"""OmegaConf's value of a mandatory key that is not set."""


def unknown(key: str, value: object, choices: Iterable[str]) -> ConfigError:
    """The error for a `value` outside the choices of config `key`."""
    return _refused(key, value, "is not known", _known(value, choices))


def _refused(key: str, value: object, why: str, fix: str) -> ConfigError:
    return ConfigError(Finding(key, value, why, fix, quoted=True))


def _known(value: object, choices: Iterable[str]) -> str:
    names = sorted(choices)
    close = difflib.get_close_matches(str(value), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"known: {', '.join(names) or 'none'}.{hint}"


def require_package(name: str, module: str, install: str) -> None:
    """Raise ValueError, with what pip installs, if the module of environment `name` is missing."""
    if importlib.util.find_spec(module) is None:
        raise ValueError(f"rltf.env.name={name}: {module} is missing; pip install {install}")


def require_choice(key: str, value: object, known: Iterable[str]) -> None:
    """Raise ConfigError, naming config `key`, unless `value` is one of `known`."""
    choices = tuple(known)
    if not isinstance(value, str) or value not in choices:
        raise unknown(key, value, choices)


def construct(
    block: str,
    selector: str,
    table: Mapping[str, str],
    name: str,
    options: Mapping[str, Any],
    base: type[T],
) -> T:
    """Build the object of this `name`.

    Args:
        block: config block of the options, e.g. `rltf.env`, for errors.
        selector: key of that block that holds the name, e.g. `name`.
        table: name -> `"module:Class"`; only the chosen module is imported. Installed packages add
            names by the entry points of the group `rltf_verl.<last word of block>`.
        name: one of the names, `"module:Class"`, or `"path/to/file.py:Class"`.
        options: keyword arguments of its constructor.
        base: its defaults; a user's class need not extend it.

    Raises:
        ConfigError: unknown name or option; names the key, the value, and the closest match.
    """
    key = f"{block}.{selector}"
    if name == MISSING:
        raise ConfigError(Finding(key, MISSING, "", f"name your class, e.g. {key}=./mine.py:Mine"))
    if ":" not in name:
        table = {**installed(block), **table}
        require_choice(key, name, table)
    factory = load(key, table.get(name, name))
    if not isinstance(factory, type):
        kind = type(factory).__name__
        raise _refused(key, name, f"is a {kind}", "name a class")
    try:
        made = build_block(block, factory, options, owner=name)
    except ValueError:
        raise
    except OWN_ERRORS as error:  # a user's constructor can raise anything
        why = f"cannot be made: {raised_by(factory, error)}"
        raise _refused(key, name, why, "correct the class") from error
    try:
        return with_defaults(made, base)
    except TypeError as error:
        why = f"lacks the defaults of {base.__module__}.{base.__name__} ({error})"
        fix = f"write class {factory.__name__}({base.__name__})"
        raise _refused(key, name, why, fix) from error


def with_defaults(made: Any, base: type[T]) -> T:
    """The same object, as an instance of `base` too: what its own class lacks, `base` gives.

    Raises:
        TypeError: Python cannot extend its class so.
    """
    own = type(made)
    if not isinstance(made, base):
        # One class for each class of a user: instances keep comparing as equal types.
        if (own, base) not in _extended:
            place = {"__module__": own.__module__, "__qualname__": own.__qualname__}
            # No slots of its own: an object can only change to a class with the same layout.
            body = {**place, "__doc__": own.__doc__, "__slots__": ()}
            _extended[own, base] = type(own.__name__, (own, base), body)
        object.__setattr__(made, "__class__", _extended[own, base])
    return cast(T, made)


_extended: dict[tuple[type, type], type] = {}
"""Class of a user, base -> the class that extends both."""


def build_block(
    block: str, factory: Callable[..., T], options: Mapping[str, Any], owner: str = "it"
) -> T:
    """`factory(**options)`.

    Raises:
        ConfigError: an option that is unknown, missing, or outside of its annotation.
    """
    parameters = inspect.signature(factory).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    hints = hints_of(factory)
    for option, value in options.items():
        key = f"{block}.{plain(option)}"
        if option not in parameters and not takes_any:
            why = f"{owner} has no option {plain(option)!r}"
            finding = Finding(key, value, why, _known(option, parameters), quoted=True)
            raise UnknownOptionError(finding, option)
        default = parameters[option].default if option in parameters else inspect.Parameter.empty
        fix = None if value is default else trouble(value, hints.get(option, Any))
        if fix is not None:
            raise _refused(key, value, "", fix)
    for option, parameter in parameters.items():
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if named and parameter.default is parameter.empty and option not in options:
            raise _refused(f"{block}.{option}", None, f"{owner} needs it", "set it")
    return factory(**options)


def load(key: str, where: str) -> Any:
    """The object that `module:Name` or `path/to/file.py:Name` names. Raises ConfigError."""
    source, _, attribute = where.rpartition(":")
    if not source:
        raise _refused(key, where, "", "name it as module:name or ./file.py:name")
    try:
        if source.endswith(".py"):
            module = _module_of_file(_existing(Path(source)))
        else:
            module = importlib.import_module(source)
    except OWN_ERRORS as error:
        fix = "correct the name" if isinstance(error, FileNotFoundError) else "correct the file"
        raise _refused(key, where, raised_by(None, error), fix) from error
    if not hasattr(module, attribute):
        own = [
            name
            for name, value in vars(module).items()
            if getattr(value, "__module__", None) == module.__name__
        ]
        why = f"{source} has no {attribute!r}"
        raise _refused(key, where, why, _known(attribute, own))
    return getattr(module, attribute)


def raised_by(own: Any, error: BaseException) -> str:
    """The error of a user's class or function, with the last line of its file that ran. Without
    the line where `own` is None.
    """
    text = described(error)
    try:
        file = inspect.getfile(inspect.unwrap(own))
    except (TypeError, OSError):  # None, an object that can be called, a class of no file
        return text
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return f"{text} ({Path(file).name}:{lines[-1]})" if lines else text


@cache
def installed(block: str) -> dict[str, str]:
    """Name -> `module:Class` of other packages, once per process: each has a file to open."""
    points = entry_points(group=f"rltf_verl.{block.rpartition('.')[2]}")
    return {point.name: point.value for point in points}


def _existing(path: Path) -> Path:
    """The absolute path. Raises FileNotFoundError."""
    absolute = path.expanduser().resolve()
    if not absolute.is_file():
        raise FileNotFoundError(f"no such file, seen from {Path.cwd()}")
    return absolute


@cache
def _module_of_file(path: Path) -> ModuleType:
    """A user's file as a module, loaded once per process. It can import the files next to it;
    installed packages come first.
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
