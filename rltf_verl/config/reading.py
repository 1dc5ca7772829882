"""From a plain mapping to a frozen dataclass: unknown keys and wrong types become one line that
names the key.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from rltf_verl.findings import ConfigError, Finding
from rltf_verl.kinds import Choice, plain, trouble, type_hints

__all__ = [
    "ConfigError",
    "NamedOptions",
    "block",
    "build",
    "named_options",
    "require",
]


@dataclasses.dataclass(frozen=True)
class NamedOptions:
    """A component chosen by name, with the options that its constructor takes."""

    name: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def require(ok: bool, key: str, value: object, fix: str) -> None:
    """Raise ConfigError about `rltf.<key>` unless ok."""
    if not ok:
        raise ConfigError(Finding(f"rltf.{key}", value, "", fix))


def build(cls: type, prefix: str, values: Mapping[str, Any]) -> Any:
    """`cls(**values)`, after every key and every scalar type has been checked.

    Args:
        cls: a dataclass.
        prefix: its place in the config, e.g. `distill.`, for the messages.
        values: what the user wrote; YAML lists become tuples.

    Raises:
        ConfigError: an unknown key, or a value of the wrong type.
    """
    _check_keys(prefix, values, [f.name for f in dataclasses.fields(cls)])
    hints = type_hints(cls, include_extras=True)
    typed: dict[str, Any] = {}
    for key, value in values.items():
        kind = hints[key]
        typed[key] = tuple(value) if isinstance(value, list) else value
        _check_value(prefix + key, typed[key], kind)
        # A default of the code is built already.
        if isinstance(kind, type) and dataclasses.is_dataclass(kind) and type(value) is not kind:
            typed[key] = build(kind, f"{prefix}{key}.", _block_of(kind, prefix + key, value))
    return cls(**typed)


def keys_in(key: str, tree: Any) -> Iterator[tuple[str, str | int, Any]]:
    """(key, its last part, value) of all that is inside a block, at any depth."""
    entries: Iterable[tuple[str | int, Any]] = ()
    if isinstance(tree, Mapping):
        entries = tree.items()
    elif isinstance(tree, (list, tuple)):
        entries = enumerate(tree)
    for name, value in entries:
        at = f"{key}[{name}]" if isinstance(name, int) else f"{key}.{name}"
        yield at, name, value
        yield from keys_in(at, value)


def block(key: str, value: Any) -> Mapping[str, Any]:
    """A nested block; an empty one when it is null."""
    if not (value is None or isinstance(value, Mapping)):
        raise ConfigError(
            Finding(f"rltf.{key}", value, "is a block of keys, not a value", "", quoted=True)
        )
    return value or {}


def named_options(section: str, values: Mapping[str, Any], name_key: str) -> NamedOptions:
    """The component that `rltf.<section>.<name_key>` names; the block's other keys are its
    options.
    """
    name = values.get(name_key)
    fix = "must name one" if name is None else trouble(name, str)
    require(fix is None, f"{section}.{name_key}", name, str(fix))
    return NamedOptions(str(name), {k: v for k, v in values.items() if k != name_key})


def _block_of(kind: type, key: str, value: Any) -> Mapping[str, Any]:
    """The block of a dataclass. The name alone is enough for a `Choice`, and its block has only
    the keys that the chosen one reads.
    """
    if not issubclass(kind, Choice):
        return block(key, value)
    values = value if isinstance(value, Mapping) and value else {"name": value}
    # Hydra makes a block without it of a name and `+….beta=0.3`: no default may take its place
    require("name" in values, f"{key}.name", None, "must name one")
    name = values["name"]
    _check_value(key, name, type_hints(kind, include_extras=True)["name"])
    _check_keys(f"{key}.", values, kind.keys_with(name), f"rltf.{key}={name} does not read it")
    return values


def _check_keys(
    prefix: str, values: Mapping[str, Any], names: Sequence[str], why: str = "unknown key"
) -> None:
    """Raise ConfigError about a key that has none of the names."""
    for key in values:
        if key not in names:
            close = difflib.get_close_matches(str(key), names, n=1)
            hint = f"known keys: {', '.join(names)}"
            if close:
                hint = f"did you mean rltf.{prefix}{close[0]}?"
            raise ConfigError(Finding(f"rltf.{prefix}{plain(key)}", values[key], why, hint))


def _check_value(key: str, value: object, hint: Any) -> None:
    """Hold a value against its field's annotation. Blocks are checked where they are built."""
    names = get_args(hint)[0] if get_origin(hint) is Mapping else None
    if isinstance(value, Mapping) and get_origin(names) is Literal:  # a table of known keys
        _check_keys(f"{key}.", value, get_args(names))
        for name, inner in value.items():
            _check_value(f"{key}.{name}", inner, get_args(hint)[1])
    elif not dataclasses.is_dataclass(hint):
        fix = trouble(value, hint)
        choices = any(get_origin(kind) is Literal for kind in (hint, *get_args(hint)))
        if fix is not None:
            raise ConfigError(Finding(f"rltf.{key}", value, "", fix, quoted=not choices))
