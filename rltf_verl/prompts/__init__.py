"""Prompt templates: `<folder>/<name>.j2` next to this file, or a user's file, rendered in a
sandbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import (
    PackageLoader,
    StrictUndefined,
    Template,
    TemplateError,
    TemplateNotFound,
    UndefinedError,
    nodes,
)
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import SandboxedEnvironment

from rltf_verl.registry import require_choice, unknown

FIELDS = {
    "revise": ("question", "attempt", "feedback"),
    "critic": ("question", "attempt"),
    "teacher": ("question", "attempt", "feedback", "reference", "sibling", "demonstration"),
}
"""Folder -> what a template of one's own may use."""


@cache
def _environment() -> SandboxedEnvironment:
    # Prompts are plain text for a model, never HTML: nothing is escaped. Fields are values, so
    # their text is never read as a template.
    return SandboxedEnvironment(
        loader=PackageLoader("rltf_verl", "prompts"),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # else each render asks the disk whether the file has changed
    )


@cache
def template_names() -> tuple[str, ...]:
    """Names that `render` knows, e.g. `revise/guide`, sorted; without the parts that templates
    share (`_…`).
    """
    names = _environment().list_templates(extensions=["j2"])
    return tuple(sorted(name.removesuffix(".j2") for name in names if "/_" not in name))


def is_file(name: str) -> bool:
    """True if a config value names a template file (`./mine.j2`), not a built-in template."""
    return name.endswith(".j2")


def template_of(folder: str, name: str) -> str:
    """The name that `render` takes for the config value `name` of a template of `folder`."""
    return name if is_file(name) else f"{folder}/{name}"


def require_template(key: str, folder: str, name: str) -> None:
    """Raise ValueError, naming config `key`, unless `name` is a template of `folder` or a file that
    can be one. A teacher's prompt is named with its folder: it may be one of `revise`.
    """
    if is_file(name):
        _require_file(key, folder, name)
    elif folder == "teacher":
        names = [t for t in template_names() if t.startswith(("revise/", "teacher/"))]
        require_choice(key, name, names)
    else:
        require_choice(
            key, name, [t.partition("/")[2] for t in template_names() if t.startswith(f"{folder}/")]
        )


def render(template: str, /, **fields: Any) -> str:
    """Fill in a template.

    Args:
        template: name without `.j2`, e.g. `revise/guide`, or the path of a file (`template_of`).
        fields: what it may use. The `revise/*` ones all take question, attempt and feedback; unused
            ones are ignored.

    Raises:
        ValueError: unknown template, or one that uses a field that is not given.
    """
    try:
        compiled = (
            _of_file(template)
            if is_file(template)
            else _environment().get_template(f"{template}.j2")
        )
        return compiled.render(fields)
    except TemplateNotFound as error:
        if is_file(template):
            raise ValueError(f"it includes {error.name}, which is not there") from None
        raise unknown("prompt template", template, template_names()) from None
    except UndefinedError as error:
        name = template if is_file(template) else f"{template}.j2"
        raise ValueError(
            f"prompt template {name}: {error}; given: {', '.join(sorted(fields))}"
        ) from None


def fields_shown(template: str, fields: Sequence[str], empty: Sequence[str] = ()) -> frozenset[str]:
    """The fields that the template prints, found by rendering it with markers. `empty`: fields
    passed as empty.
    """
    # Digits, which no filter of a template changes.
    marks = {field: f"{i}7320508075{i}" for i, field in enumerate(fields, start=1)}
    text = render(template, **dict.fromkeys(empty, ""), **marks)
    return frozenset(field for field, mark in marks.items() if mark in text)


@cache
def _of_file(path: str) -> Template:
    return _environment().from_string(_source(path))


def _source(path: str) -> str:
    return Path(path).expanduser().read_text("utf-8")


def _require_file(key: str, folder: str, name: str) -> None:
    """Read, parse and render it once, so that nothing about it can fail while episodes are
    played.
    """
    names = ", ".join(FIELDS[folder])
    _of_file.cache_clear()  # it may have been another text when it was read last
    try:
        tree = _environment().parse(_source(name), filename=name)
        foreign = find_undeclared_variables(tree) - set(FIELDS[folder])
        for variable in tree.find_all(nodes.Name):
            if variable.name in foreign:
                raise ValueError(
                    f"line {variable.lineno}: no variable {variable.name!r}; there are: {names}"
                )
        shown = fields_shown(name, FIELDS[folder])
    except TemplateError as error:
        where = f"line {line}: " if (line := getattr(error, "lineno", None)) else ""
        raise ValueError(f"{key}={name}: {where}{error.message}") from None
    except OSError as error:
        raise ValueError(
            f"{key}={name}: {error.strerror}, seen from {Path.cwd()}; name a file of yours, or a"
            " template of this package without .j2"
        ) from None
    except Exception as error:  # a template is a program: rendering it can raise anything
        cause = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{key}={name}: {cause}") from None
    if folder == "critic" and (missing := set(FIELDS[folder]) - shown):
        raise ValueError(
            f"{key}={name}: does not show {{{{ {sorted(missing)[0]} }}}}; a critic needs {names}"
        )
