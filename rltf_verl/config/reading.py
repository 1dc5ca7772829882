"""From a plain mapping to a frozen dataclass: unknown keys and wrong types become one line that names the key."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


@dataclasses.dataclass(frozen=True)
class NamedOptions:
    """A component chosen by name, with the options that its constructor takes."""

    name: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class ConfigError(ValueError):
    """A setting that cannot work. The message names the key, the value and the fix."""


def require(ok: bool, key: str, value: object, fix: str) -> None:
    """Raise ConfigError about `rltf.<key>` unless ok."""
    if not ok:
        raise ConfigError(f"rltf.{key}={value}: {fix}")


def require_choices(config: object, prefix: str) -> None:
    """Hold every `Literal` field of a dataclass instance against its choices."""
    for name, hint in get_type_hints(type(config)).items():
        if get_origin(hint) is Literal:
            value, choices = getattr(config, name), get_args(hint)
            require(value in choices, prefix + name, value, f"must be one of {', '.join(choices)}")


def build(cls: type, prefix: str, values: Mapping[str, Any]) -> Any:
    """`cls(**values)`, after every key and every scalar type has been checked.

    Args:
        cls: a dataclass.
        prefix: where it stands in the config, e.g. `distill.`, for the messages.
        values: what the user wrote; YAML lists stand for tuples.

    Raises:
        ConfigError: an unknown key, or a value of the wrong type.
    """
    known = [f.name for f in dataclasses.fields(cls)]
    for key in values:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean rltf.{prefix}{close[0]}?" if close else f"known keys: {', '.join(known)}"
            raise ConfigError(f"rltf.{prefix}{key}={values[key]}: unknown key; {hint}")
    hints = get_type_hints(cls)
    typed = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
    for key, value in typed.items():
        _check_type(prefix + key, value, hints[key])
    return cls(**typed)


def block(key: str, value: Any) -> Mapping[str, Any]:
    """A nested block; an empty one when it is null."""
    require(value is None or isinstance(value, Mapping), key, value, "is a block of keys, not a value")
    return value or {}


def named_options(section: str, values: Mapping[str, Any], name_key: str) -> NamedOptions:
    """The component that `rltf.<section>.<name_key>` names; the block's other keys are its options."""
    require(bool(values.get(name_key)), f"{section}.{name_key}", values.get(name_key), "must name one")
    return NamedOptions(str(values[name_key]), {k: v for k, v in values.items() if k != name_key})


def _check_type(key: str, value: object, hint: Any) -> None:
    """Hold a scalar, or a union of scalars, against its field's annotation. Other kinds are checked elsewhere."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    allowed = " or ".join(wanted(kind) for kind in kinds)
    shown = repr(value) if isinstance(value, str) else list(value) if isinstance(value, tuple) else value
    require(any(_fits(value, kind) for kind in kinds), key, shown, f"must be {allowed}")


def _fits(value: object, kind: Any) -> bool:
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        any_length = kinds[-1] is Ellipsis
        fits_length = isinstance(value, tuple) and (any_length or len(value) == len(kinds))
        return fits_length and all(_fits(v, kinds[0]) for v in value)  # type: ignore[attr-defined]
    if not isinstance(kind, type):
        return True
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def wanted(kind: Any) -> str:
    """The values that an annotation allows, in words."""
    if get_origin(kind) is tuple:
        return "a list of texts" if get_args(kind)[0] is str else "[start, end], two numbers"
    return _KINDS.get(kind, "one of its choices")


_KINDS: dict[Any, str] = {
    int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null",
}  # fmt: skip
