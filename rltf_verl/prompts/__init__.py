"""Prompt templates: `<folder>/<name>.j2` beside this file, rendered so that a missing field is an error."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, TemplateNotFound, UndefinedError

from rltf_verl.registry import require_choice, unknown


@cache
def _environment() -> Environment:
    # Prompts are plain text for a model, never HTML: nothing is escaped. Fields are values, so their text is never
    # read as a template.
    return Environment(
        loader=PackageLoader("rltf_verl", "prompts"), undefined=StrictUndefined, autoescape=False,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def template_names() -> tuple[str, ...]:
    """Names that `render` knows, e.g. `revise/guide`, sorted."""
    return tuple(sorted(name.removesuffix(".j2") for name in _environment().list_templates(extensions=["j2"])))


def require_template(key: str, folder: str, name: str) -> None:
    """Raise ValueError, naming config `key`, unless `<folder>/<name>` is a template."""
    require_choice(key, name, [t.partition("/")[2] for t in template_names() if t.startswith(f"{folder}/")])


def render(template: str, /, **fields: Any) -> str:
    """Fill in a template.

    Args:
        template: name without `.j2`, e.g. `revise/guide`.
        fields: what it may use. The `revise/*` ones all take question, attempt and feedback; unused ones are ignored.

    Raises:
        ValueError: unknown template, or one that uses a field that is not given.
    """
    try:
        return _environment().get_template(f"{template}.j2").render(fields)
    except TemplateNotFound:
        raise unknown("prompt template", template, template_names()) from None
    except UndefinedError as error:
        raise ValueError(f"prompt template {template}.j2: {error}; given: {', '.join(sorted(fields))}") from None
