"""What several commands share: `key=value` words, the episodes of a log, a dataset's problems."""

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


def words_as_text(words: list[str]) -> dict[str, str]:
    """`NAME=VALUE` words, values as they are written."""
    pairs = [word.partition("=") for word in words]
    for (name, separator, _), word in zip(pairs, words, strict=True):
        if not (separator and name.isidentifier()):
            raise ValueError(f"{word!r}: write NAME=VALUE")
    return {name: value for name, _, value in pairs}


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
    """`key=value` words of an evaluation or a judge, with a mapping for each block.

    Args:
        words: as of `parse_options`.
        named: a block -> how it names its component; others are `BLOCKS`.

    Raises:
        ValueError: a block is given as a value, as Hydra's groups are.
    """
    options = parse_options(words)
    for key, form in (BLOCKS | named).items():
        value = options.get(key)
        if value is not None and not isinstance(value, dict):
            raise ValueError(f"{key}={value}: is a block of keys; write {form.format(value)}")
    return nested(options)


def episodes_of(folder: Path, step: int | None) -> list[dict[str, Any]]:
    """Episodes of an episode log, or of the one in the folder of a run."""
    from rltf_verl.runlog.episodes import read_episodes
    from rltf_verl.runlog.files import log_folder

    found = read_episodes(log_folder(folder), step)
    if not found:
        raise ValueError(f"{folder}: no episodes{'' if step is None else f' of step {step}'} in it")
    return found


def questions_of(
    file: Path, num: int | None, told: dict[str, Any], config: Path | None
) -> tuple[list[Any], dict[str, Any]]:
    """The first rows of a dataset, and what `rltf.env` is for them: the environment that is told,
    that of the run's config, or the one that the file names with its options.
    """
    from rltf_verl.data.made_for import made_for, require_known, takes_rows_of
    from rltf_verl.data.questions import read_questions
    from rltf_verl.data.schema import AS_IT_IS
    from rltf_verl.tools.evaluate.settings import training_blocks

    env, trained = dict(told.get("env") or {}), dict(training_blocks(config).get("env") or {})
    if env.get("name", trained.get("name")) == trained.get("name"):
        env = {**trained, **env}
    name = env.pop("name", None)
    try:
        questions = read_questions(file, num, takes_rows_of(file, name, env))
    except ValueError as error:
        words = str(error).removesuffix(AS_IT_IS)
        if name is not None or words == str(error):
            raise
        raise ValueError(
            f"{words}; or take it as it is: env.name=reward_function"
            " env.function=./reward.py:compute_score"
        ) from None
    found = made_for(file, questions[0].problem.env)
    if name is None:
        require_known(file, found)
        return questions, {**found.options, "name": found.spec}
    return questions, {**found.at(str(name)).options, "name": name}


def require_all(missing: int, failures: list[str]) -> None:
    """Raise ValueError if episodes have no result."""
    from rltf_verl.texts import counted

    if missing:
        why = f", e.g. because {failures[0]}" if failures else ""
        raise ValueError(
            f"no result of {counted(missing, 'episode')}{why}. The same command asks again"
        )


def require_grades(episodes: list[Any]) -> None:
    """Raise ValueError if the grader failed at every answer."""
    from rltf_verl.runlog.turns import grader_trouble

    said, all_failed = grader_trouble(episodes)
    if all_failed:
        raise ValueError(f"{said}. Mend the grader, then evaluate into a new folder")


def play(folder: Any) -> list[str]:
    """Play what is missing, with a bar on stderr. Returns why episodes have no answer."""
    import asyncio

    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    known = folder.known()
    columns = (
        TextColumn("episodes"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("first answers right {task.fields[right]}"),
    )
    progress = Progress(*columns, console=Console(stderr=True))
    task = progress.add_task("", total=folder.num_episodes, completed=len(known), right="–")
    verdicts: list[bool] = []

    def ended(episode: Any) -> None:
        if episode is not None and episode.turns[0].stop != "ungraded":
            verdicts.append(episode.turns[0].grade.correct)
        right = f"{sum(verdicts) / len(verdicts):.0%}" if verdicts else "–"
        progress.update(task, advance=1, right=right)

    player = folder.player(ended)
    with progress:
        asyncio.run(player.play(known))
    failures: list[str] = player.failures
    return failures
