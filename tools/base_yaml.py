"""The `rltf:` block of `rltf/base.yaml`, from the dataclasses; `tools/refresh.py` writes it."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml
from reference import GROUPS, field_docs, is_block

from rltf_verl.config import RLTFConfig
from rltf_verl.kinds import Choice

BASE = GROUPS / "base.yaml"
COMPUTED = {"rltf.episode_log.dir": "${trainer.default_local_dir}/episodes"}
"""Defaults of a run that are no constants."""

WIDTH = 100
END = "\ncritic:"
"""What follows the block: verl's own keys, written by hand."""


def with_block(text: str) -> str:
    """The file with the block written anew."""
    head, _, rest = text.partition("\nrltf:\n")
    _, end, rest = rest.partition(END)
    block = "\n".join(_lines("rltf", RLTFConfig(), RLTFConfig))
    return f"{head}\n{block}\n{end}{rest}"


def _lines(key: str, config: Any, cls: type) -> Iterator[str]:
    """A block: its own keys with their meaning, then the blocks in it."""
    indent, name = "  " * key.count("."), key.rpartition(".")[2]
    if indent:
        yield from _comment(inspect.getdoc(cls) or "", indent)
    yield f"{indent}{name}:"
    docs, hints = field_docs(cls), get_type_hints(cls)
    for field, hint in hints.items():
        value = COMPUTED.get(f"{key}.{field}", getattr(config, field))
        if isinstance(value, Choice):
            doc, value = _choice(value), value.name
        elif is_dataclass(hint):
            continue
        else:
            choices = get_args(hint) if get_origin(hint) is Literal else ()
            doc = docs[field] + (f" One of {', '.join(choices)}." if choices else "")
        yield ""
        yield from _comment(doc, indent + "  ")
        yield textwrap.indent(_written(field, value), indent + "  ")
    for field, hint in hints.items():
        if is_block(hint) and not issubclass(hint, Choice):
            yield ""
            yield from _lines(f"{key}.{field}", getattr(config, field), hint)


def _choice(value: Choice) -> str:
    """What can be chosen, and the parameters of a block."""
    (_, names), *parameters = field_docs(type(value)).items()
    block = [f"`{key}`: {doc}" for key, doc in parameters]
    head = f"{inspect.getdoc(type(value))} {names}"
    return "\n\n".join([head, "As a block, `{name: …}`, it may have:", *block])


def _comment(text: str, indent: str) -> Iterator[str]:
    start = indent + "# "
    for paragraph in text.split("\n\n"):
        words = " ".join(paragraph.split())
        yield from textwrap.wrap(
            words, WIDTH, initial_indent=start, subsequent_indent=start, break_on_hyphens=False
        )


def _written(field: str, value: Any) -> str:
    """A key with its value."""
    plain = list(value) if isinstance(value, tuple) else value
    return yaml.safe_dump({field: plain}).strip()
