"""Shared by several commands: `key=value` words and the episodes of a log."""

from __future__ import annotations

import ast
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

BLOCKS = {
    "env": "env.name={}",
    "episode": "episode.KEY=VALUE",
    "feedback": "feedback.provider={}",
    "limits": "limits.KEY=VALUE",
}
"""Blocks of settings, and what is meant by a value of one."""

ConfigPath = Annotated[
    str | None, typer.Option("--config-path", "-cp", help="Folder of that config, as of Hydra.")
]
ConfigDir = Annotated[
    Path | None,
    typer.Option("--config-dir", "-cd", help="A further folder of configs, as of Hydra."),
]
BootstrapSeed = Annotated[int, typer.Option(help="Seed of the confidence intervals.")]


def parse_options(words: list[str]) -> dict[str, Any]:
    """`key=value` words, values as literals where they are ones (also `true`, `false`, `null`),
    else as text.
    """
    pairs = [word.partition("=") for word in words]
    for (key, separator, _), word in zip(pairs, words, strict=True):
        if not (separator and key.replace(".", "_").isidentifier()):
            raise ValueError(f"{word!r}: options are written key=value")
    return {key: _literal(value) for key, _, value in pairs}


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings of verl's imports: which engines are not installed matters to a run only."""
    before = logging.root.manager.disable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(before)


def _literal(text: str) -> Any:
    words = {"true": True, "false": False, "null": None}
    try:
        return words[text] if text in words else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def nested(options: dict[str, Any]) -> dict[str, Any]:
    """`{"a.b": 1}` -> `{"a": {"b": 1}}`. Raises ValueError for a key that is a value and a
    block.
    """
    blocks: dict[str, Any] = {}
    for key, value in options.items():
        *path, last = key.split(".")
        block = blocks
        for part in path:
            block = block.setdefault(part, {})
            if not isinstance(block, dict):
                raise ValueError(f"{key}={value}: {part} has the value {block!r} already")
        if isinstance(block.get(last), dict):
            raise ValueError(f"{key}={value}: {key} has keys of its own already")
        block[last] = value
    return blocks


def settings_of(words: list[str], **named: str) -> dict[str, Any]:
    """`key=value` words of an evaluation or a judge, with a mapping for each block; a run's
    `rltf.` before a key is left out.

    Args:
        words: as of `parse_options`.
        named: a block -> how it names its component; others are `BLOCKS`.

    Raises:
        ValueError: a block is given as a value, as Hydra's groups are.
    """
    options = {key.removeprefix("rltf."): value for key, value in parse_options(words).items()}
    for key, form in (BLOCKS | named).items():
        value = options.get(key)
        if value is not None and not isinstance(value, dict):
            raise ValueError(f"{key}={value}: is a block of keys; write {form.format(value)}")
    return nested(options)


def episodes_of(folder: Path, step: int | None) -> list[dict[str, Any]]:
    """Episodes of an episode log, or of the one in the folder of a run."""
    from rltf_verl.runlog.episodes import read_episodes
    from rltf_verl.runlog.files import log_folder

    episodes = read_episodes(log_folder(folder), step)
    if not episodes:
        raise ValueError(f"{folder}: no episodes{'' if step is None else f' of step {step}'} in it")
    return episodes
