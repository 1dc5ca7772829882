"""The text of docs/configuration.md, from dataclasses and YAML; `tools/refresh.py` writes it."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from rltf_verl.config import RLTFConfig
from rltf_verl.config.reading import NamedOptions
from rltf_verl.config.rules import EXPERIMENTAL
from rltf_verl.kinds import wanted

ROOT = Path(__file__).resolve().parents[1]
GROUPS = ROOT / "hydra_configs" / "rltf_verl" / "rltf"
HEAD = """# Configuration

Look up what a key of this package means, which values it takes, and its default. All keys are in
one top-level block `rltf:` of verl's config; set them on the command line
(`rltf.distill.weight=0.2`). An unknown key, a value of the wrong kind or a combination that cannot
work is refused before any worker starts. `rltf methods` lists the methods, [methods.md](methods.md)
explains them. How this package sets verl's own keys is written beside them in
`hydra_configs/rltf_verl/rltf/base.yaml` and `rltf/hardware/*.yaml`. `python tools/refresh.py`
writes this page from the code.

A choice takes its name, or a block of the name and the parameters that it reads:
`rltf.teacher.gate=route`, `'rltf.teacher.gate={name: residual, width: 0.05}'`. Its parameters have
no dotted key unless the configuration already has such a block.

Defaults below are the code's. A method may set others; this prints the values of a run:
`python -m verl.trainer.main_ppo --config-name=rltf rltf/method=sd --cfg job`.
"""


def configuration() -> str:
    """The whole page."""
    blocks = "\n".join(
        f"## `{name}`\n\n{intro}\n\n{table}\n" for name, intro, table in _blocks("rltf", RLTFConfig)
    )
    chosen = "\n".join(map(_group, ("env", "feedback")))
    return f"{HEAD}\n{blocks}\n{chosen}"


def _blocks(prefix: str, cls: type) -> Iterator[tuple[str, str, str]]:
    """(block, what it is, table of its own keys), then those of the blocks in it."""
    hints, docs = get_type_hints(cls), field_docs(cls)
    nested = [f for f in fields(cls) if is_block(hints[f.name])]
    lines = [
        f"| `{f.name}` | {cell(_kind(hints[f.name]))} | `{_default(f)}` | "
        f"{cell(docs.get(f.name, ''))}{_promise(f'{prefix}.{f.name}')} |"
        for f in fields(cls)
        if f not in nested
    ]
    table = "\n".join(["| key | value | default | meaning |", "|---|---|---|---|", *lines])
    yield prefix, _text(inspect.getdoc(cls) or ""), table
    for f in nested:
        yield from _blocks(f"{prefix}.{f.name}", hints[f.name])


def _promise(key: str) -> str:
    """The mark of an experimental setting."""
    choices = EXPERIMENTAL.get(key.removeprefix("rltf.").removesuffix(".name"))
    names = ", ".join(f"`{choice}`" for choice in choices or ())
    return (
        ""
        if choices is None
        else f" [Experimental](architecture.md#layers){names and ': '}{names}."
    )


def is_block(hint: Any) -> bool:
    """Whether a field of this kind is a block of keys, not a key."""
    return is_dataclass(hint) and hint is not NamedOptions


def field_docs(cls: type) -> dict[str, str]:
    """Field -> the string that follows it in the source, of the class and those it extends."""
    docs: dict[str, str] = {}
    for base in reversed([c for c in cls.__mro__ if is_dataclass(c)]):
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body
        for field, doc in pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(doc, ast.Expr)
                and isinstance(doc.value, ast.Constant)
            ):
                docs[field.target.id] = str(doc.value.value)
    return docs


def _kind(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(hint))
    if hint is NamedOptions:
        return "a name, its options beside it"
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return " or ".join("a block" if get_origin(kind) is Mapping else wanted(kind) for kind in kinds)


def _default(f: Field[Any]) -> str:
    value = f.default if f.default is not MISSING else f.default_factory()
    if isinstance(value, NamedOptions):
        return value.name
    return (
        ", ".join(value)
        if isinstance(value, tuple)
        else "null"
        if value is None
        else str(value).lower()
    )


def _group(name: str) -> str:
    """The options of every choice of a Hydra group, with the comments of its YAML."""
    parts = [f"## `rltf/{name}=…`\n"]
    for path in sorted((GROUPS / name).glob("*.yaml")):
        first, *lines = path.read_text("utf-8").splitlines()
        block = first.removeprefix("# @package ")
        intro_lines = list(takewhile(lambda line: line.startswith("#"), lines))
        keys = _yaml_keys(lines[len(intro_lines) :])
        table = [
            f"| `{block}.{key}` | `{cell(value)}` | {cell(meaning)} |"
            for key, value, meaning in keys
            if key != "defaults"
        ]
        intro = _text(" ".join(line[1:] for line in intro_lines))
        head = f"### `rltf/{name}={path.stem}`\n\n{intro}\n"
        parts += [head, "| key | default | meaning |", "|---|---|---|", *table, ""]
    return "\n".join(parts)


def _yaml_keys(lines: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """(dotted key, value, the comment above it); what stands in a list is shown as `[…]`."""
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    listed: int | None = None  # where the items of the list that we are in begin
    for line in lines:
        match = re.fullmatch(r"( *)([\w-]+):(?: (.*))?", line)
        if line.strip().startswith("#"):
            comment.append(line.strip()[1:])
        elif re.match(r" *- ", line):
            if listed is None:
                yield ".".join(key for _, key in path), "[…]", " ".join(comment)
            listed, comment = line.index("-"), []
        elif match is None:
            comment = []
        elif listed is not None and len(match[1]) > listed:
            continue
        else:
            listed = None
            path = [(indent, key) for indent, key in path if indent < len(match[1])] + [
                (len(match[1]), match[2])
            ]
            if match[3] is not None:
                yield ".".join(key for _, key in path), match[3], " ".join(comment)
                comment = []


def _text(words: str) -> str:
    return " ".join(words.split())


def cell(words: str) -> str:
    """A text in a cell of a table."""
    return _text(words).replace("|", "\\|")
