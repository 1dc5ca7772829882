"""Shared by several commands: `key=value` words, files to write, the episodes of a log."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator, Sequence
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

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on stdout, for a program.")]
Log = Annotated[Path, typer.Argument(metavar="LOG", help="Folder of a run, or its episode log.")]
Step = Annotated[int | None, typer.Option(help="Training step; all steps if not given.")]
EnvOptions = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Options of the environment.")
]
RunConfig = Annotated[
    Path | None, typer.Option(help="A run's config.yaml, for what no key here says.")
]
ConfigPath = Annotated[
    str | None, typer.Option("--config-path", "-cp", help="Folder of that config, as of Hydra.")
]
ConfigDir = Annotated[
    Path | None,
    typer.Option("--config-dir", "-cd", help="A further folder of configs, as of Hydra."),
]


def tell(line: object) -> None:
    """Print a line on stderr: stdout is for what a program reads."""
    typer.echo(line, err=True)


def echo_json(value: object) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False, default=str))


def refuse_existing(paths: Sequence[Path], overwrite: bool) -> None:
    """Raise ValueError if a file is there that may not be replaced."""
    there = [str(path) for path in paths if path.exists()]
    if there and not overwrite:
        raise ValueError(
            f"{', '.join(there)}: there already; name another --out, or replace it with --overwrite"
        )


def parse_options(words: list[str]) -> dict[str, Any]:
    """`a.b=1` as `{"a": {"b": 1}}`, values as YAML; of several words for a key the last counts."""
    from omegaconf import OmegaConf

    for word in words:
        key, separator, _ = word.partition("=")
        if not (separator and key.replace(".", "_").isidentifier()):
            raise ValueError(f"{word!r}: options are written key=value")
    try:
        options: Any = OmegaConf.to_container(OmegaConf.from_dotlist(words))
    except Exception as error:  # of YAML or OmegaConf
        raise ValueError(f"{' '.join(words)}: cannot be read ({error})") from error
    return dict(options)


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings of verl's imports, which take seconds: which engines are not installed matters
    to a run only.
    """
    tell("loading verl and the run's settings …")
    before = logging.root.manager.disable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(before)


def settings_of(words: list[str], **named: str) -> dict[str, Any]:
    """`key=value` words of an evaluation or a judge, with a mapping for each block; a run's
    `rltf.` before a key is left out.

    Args:
        words: as of `parse_options`.
        named: a block -> how it names its component; others are `BLOCKS`.

    Raises:
        ValueError: a block is given as a value, as Hydra's groups are.
    """
    options = parse_options([word.removeprefix("rltf.") for word in words])
    for key, form in (BLOCKS | named).items():
        value = options.get(key)
        if value is not None and not isinstance(value, dict):
            raise ValueError(f"{key}={value}: is a block of keys; write {form.format(value)}")
    return options


def episodes_of(folder: Path, step: int | None) -> list[dict[str, Any]]:
    """Episodes of an episode log, or of the one in the folder of a run."""
    from rltf_verl.runlog.episodes import read_episodes
    from rltf_verl.runlog.files import log_folder

    episodes = read_episodes(log_folder(folder), step)
    if not episodes:
        raise ValueError(f"{folder}: no episodes{'' if step is None else f' of step {step}'} in it")
    return episodes
