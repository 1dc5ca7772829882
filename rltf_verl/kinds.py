"""The values that a setting can have: declared in its annotation, checked here, for every key and
option.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from rltf_verl.redaction import hidden

LARGEST = 2.0**63
"""Bound of every number in a config."""
MAX_SHOWN = 200
MANY = 1000
"""Upper bounds from here on are not named in a message about the lower bound."""


@dataclass(frozen=True)
class Within:
    """The range of a number: `Annotated[int, Within(1, 100)]`. Every number is finite and below 2⁶³
    anyway.
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    note: str = ""
    """Text after the range, in messages."""

    def holds(self, value: float) -> bool:
        """True if the number lies in the range; NaN never does."""
        return self._low_enough(value) and self._high_enough(value) and -LARGEST < value < LARGEST

    def words(self, value: float) -> str:
        """The range, for a message about the value."""
        low = self.least if self.above is None else self.above
        high = self.most if self.below is None else self.below
        if low is None or low <= -LARGEST:
            if high is None or high >= LARGEST:
                return f"a finite number{self.note}"
            return f"at most {high:g}{self.note}"
        if high is None or (high >= MANY and not self._high_enough(value)):
            bound = f"at least {low:g}"
            if self.above is not None:
                bound = f"above {low:g}" if low else "positive"
            return f"{bound}{self.note}" if value < LARGEST else f"{bound} and finite{self.note}"
        left, right = "[" if self.above is None else "(", "]" if self.below is None else ")"
        return f"in {left}{low:g}, {high:g}{right}{self.note}"

    def _high_enough(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (
            self.above is None or value > self.above
        )

    def _low_enough(self, value: float) -> bool:
        return (self.most is None or value <= self.most) and (
            self.below is None or value < self.below
        )


@dataclass(frozen=True)
class Form:
    """The form of a text."""

    holds: Callable[[str], bool]
    text: str
    """The form, for messages."""

    def words(self, value: str) -> str:
        """The same for every value."""
        return self.text


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:  # a port that is no number, brackets that are no address
        return False
    plain = not (url.username or url.password or url.query or url.fragment)
    return (
        url.scheme in ("http", "https")
        and bool(url.hostname)
        and port != 0
        and plain
        and " " not in text
    )


def _is_prose(text: str) -> bool:
    return bool(text.strip()) and all(c in "\n\t" or c.isprintable() for c in text)


PROSE = Form(_is_prose, "text that is not blank, without control characters")
LONGEST = 4096
"""Characters of a text in one line: the limit of a path."""
ONE_LINE = Form(
    lambda text: bool(text.strip()) and text.isprintable() and len(text) <= LONGEST,
    "text in one line, without control characters",
)
FINITE = Within(above=-LARGEST, below=LARGEST)
Prose = Annotated[str, PROSE]
"""Text of several lines. A plain `str` is one line without control characters, and not empty."""
Url = Annotated[
    str,
    Form(
        _is_url, "a URL such as http://127.0.0.1:8000/v1, without user, password, query or fragment"
    ),
]


OWN = "./mine.py:function"
"""In `Choice.READS`: any function of the user's."""


@dataclass(frozen=True)
class Choice:
    """A setting that is chosen by name, with the parameters that only some choices read. A config
    has the name alone, or a block: `gate: residual`, `gate: {name: residual, width: 0.05}`.

    Extend it with a default of `name` and a field per parameter.
    """

    # Name -> the parameters that it reads; other names read none.
    READS: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    name: Any

    @classmethod
    def keys_with(cls, name: object) -> tuple[str, ...]:
        """The keys of a block with this name."""
        return ("name", *cls.READS.get(OWN if ":" in str(name) else str(name), ()))


def name_of(value: Any) -> Any:
    """The name of a `Choice` as a config has it."""
    return value.get("name") if isinstance(value, Mapping) else value


def trouble(value: object, hint: Any) -> str | None:
    """The fix of a value that the annotation does not allow, `must be …`; None if it does."""
    # In a union only the kinds that the value could have: their fixes name its fault.
    kinds = [kind for kind in _alternatives(hint) if _fits_type(value, kind)]
    if not kinds:
        return f"must be {wanted(hint)}{_close(value, hint)}"
    null = " or null" if type(None) in _alternatives(hint) else ""
    for kind in kinds:
        items = _items(value, kind)
        if not all(_fits_type(item, item_hint) for item, item_hint in items):
            fixes = [f"must be {wanted(hint)}"]
            continue
        fixes = [fix for item, item_hint in items if (fix := trouble(item, item_hint)) is not None]
        fixes += [
            f"must be {mark.words(value)}{null}" for mark in _marks(kind) if not mark.holds(value)
        ]
        if not fixes:
            return None
    return fixes[0]


def shown(value: object, key: str = "") -> str:
    """A value in one line of a message; `***` for a secret, by its key or its looks."""
    text = repr(hidden(value, key))
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def plain(value: object, key: str = "") -> str:
    """A value as it was typed, where that is short and in one line; secrets as of `shown`."""
    value = hidden(value.name if isinstance(value, Choice) else value, key)
    short = isinstance(value, str) and value.isprintable() and len(value) <= MAX_SHOWN
    return str(value) if short else shown(value)


def type_hints(of: Any, *, include_extras: bool = False) -> Mapping[str, Any]:
    """`get_type_hints`, once per process: it evaluates the text of each annotation."""
    return _type_hints(of, include_extras)


@cache  # apart: to mypy a dataclass is not hashable
def _type_hints(of: Any, include_extras: bool) -> Mapping[str, Any]:
    return get_type_hints(of, include_extras=include_extras)


def hints_of(factory: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a constructor's arguments; none where they cannot be read."""
    try:
        # a dataclass is read class by class: a subclass may lack the names of its base's module
        is_plain_class = isinstance(factory, type) and not is_dataclass(factory)
        maker = inspect.getattr_static(factory, "__init__") if is_plain_class else factory
        return dict(type_hints(maker, include_extras=True))
    except Exception:  # other people's annotations may name what is not there
        return {}


def _close(value: object, hint: Any) -> str:
    """The choice that was probably meant."""
    choices: list[str] = []
    for kind in _alternatives(hint):
        if get_origin(kind) is Literal:
            choices += [choice for choice in get_args(kind) if isinstance(choice, str)]
    close = difflib.get_close_matches(str(value), choices, n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


def wanted(hint: Any) -> str:
    """The values that an annotation allows, in words."""
    return " or ".join(dict.fromkeys(_wanted(kind) for kind in _alternatives(hint)))


def _wanted(hint: Any) -> str:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _wanted(args[0])
    if origin is Literal:
        return f"one of {', '.join(map(str, args))}"
    if origin is tuple and len(args) == 2 and args[1] is not Ellipsis:
        return "[start, end], two numbers"
    if _is_sequence(origin):
        item = _base(args[0]) if args else None
        if get_origin(item) is Mapping:
            return "a list of blocks"
        return "a list of texts" if item is str else "a list"
    return _KINDS.get(origin or hint, "of another kind")


_KINDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    type(None): "null",
    Mapping: "a block of keys",
}


_OF_YAML = (str, int, float, bool, type(None), list, tuple, Mapping)
"""Types of a config's values."""


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _marks(hint: Any) -> tuple[Any, ...]:
    """Other conditions on a value of the right type."""
    base = _base(hint)
    marks = tuple(get_args(hint)[1:]) if get_origin(hint) is Annotated else ()
    own = {int: (FINITE,), float: (FINITE,), str: (ONE_LINE,)}.get(base, ())
    if PROSE in marks:
        own = ()
    return (*(mark for mark in marks if isinstance(mark, (Within, Form))), *own)


def _base(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _is_sequence(origin: Any) -> bool:
    return origin in (tuple, list, Sequence)


def _fits_type(value: object, hint: Any) -> bool:
    """True if the value is of the annotation's kind, whatever its range, form and items."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits_type(value, kind) for kind in args)
    if origin is Annotated:
        return _fits_type(value, args[0])
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in args)
    if _is_sequence(origin):
        fixed = origin is tuple and args and Ellipsis not in args
        return isinstance(value, (list, tuple)) and (not fixed or len(value) == len(args))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    if hint is Any or not isinstance(hint, type):
        return True
    if not issubclass(hint, _OF_YAML):
        return True  # a path, say: the class makes of the value what it wants
    if hint in (int, float):
        return isinstance(value, (int, float) if hint is float else int) and not isinstance(
            value, bool
        )
    return isinstance(value, hint)


def _items(value: Any, hint: Any) -> list[tuple[object, Any]]:
    """Items of a list or a block, each with its annotation."""
    origin, args = get_origin(hint), get_args(hint)
    if not args:
        return []
    if _is_sequence(origin):
        kinds = args if origin is tuple and Ellipsis not in args else args[:1] * len(value)
        return list(zip(value, kinds, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return [*((key, args[0]) for key in value), *((inner, args[1]) for inner in value.values())]
    return []
