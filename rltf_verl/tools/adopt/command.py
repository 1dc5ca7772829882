"""The launch of a verl training: what was typed, and the script that `rltf adopt` prints."""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rltf_verl.config import ConfigError
from rltf_verl.redaction import Secrets, looks_secret, secrets_here
from rltf_verl.tools.compose.overrides import STOCK

MODULE = "verl.trainer.main_ppo"
MAINS = (MODULE, "recipe.dapo.main_dapo")
"""Modules that take the config of `main_ppo`."""

TRAINER = re.compile(r"(-\w*m)?((?:verl|recipe)\.(?:\w+\.)*\w*main\w*)")
"""Word of a launch that names its program, after `-m` or with it, as in `reader.bash`."""

LONGEST = 2000
"""Characters of a comment."""


@dataclass(frozen=True)
class Launch:
    """A start of verl's training."""

    config_name: str
    folder: str
    """Folder of `--config-path` or `--config-dir`; empty if neither is given."""
    overrides: list[str]
    start: list[str]
    """Words before the overrides."""
    where: str = "."
    """Working directory."""
    exports: Mapping[str, str] = field(default_factory=dict)
    unset: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Lines on what was not read."""


@dataclass(frozen=True)
class Adopted:
    """The RLTF run."""

    launch: Launch
    overrides: list[str]
    changes: list[str]
    """One line per setting that changed or was dropped, and why."""
    notes: list[str]
    """Parts that were not read or checked, and settings that decide what the run learns from."""
    presets: list[str]
    """The presets' settings where the run leaves verl's default; a hardware preset by its name."""


def of_words(words: Sequence[str]) -> Launch:
    """The launch in the words of a command.

    Raises:
        ConfigError: it starts no training that is known.
    """
    index, name = next(
        (index, match) for index, word in enumerate(words) if (match := TRAINER.fullmatch(word))
    )
    if name[2] not in MAINS:
        raise ConfigError(
            f"{name[2]}: cannot be adopted; start {MODULE}, asynchronously with"
            " trainer.v1.trainer_mode=separate_async"
        )
    start = [*words[:index], f"{name[1] or ''}{MODULE}"]
    if "xargs" in start:
        raise ConfigError(f"xargs: overrides in a pipe are not read; write them after {MODULE}")
    flags, rest = _hydra_flags().parse_known_args(words[index + 1 :])
    if unknown := next((word for word in rest if word.startswith("-")), None):
        raise ConfigError(f"{unknown}: remove it, only overrides and --config-… can be adopted")
    folder = flags.config_dir
    if flags.config_path not in ("", "config") and not flags.config_path.startswith("pkg://"):
        folder = str(Path(flags.config_path).resolve())
    overrides = list(dict.fromkeys(reversed(rest)))[::-1]  # the last of several for a key counts
    return Launch(
        flags.config_name.removesuffix(".yaml"), folder, [*filter(None, overrides)], start
    )


def _hydra_flags() -> ArgumentParser:
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config-name", "-cn", default=STOCK)
    parser.add_argument("--config-path", "-cp", default="")
    parser.add_argument("--config-dir", "-cd", default="")
    return parser


def script_of(adopted: Adopted, folder: str = "") -> str:
    """A script that bash runs; its comments say what changed, and why. The variable RUN names
    another program for the same words, as in `RUN="rltf plan" bash run_rltf.sh`.

    Args:
        adopted: the run.
        folder: where its paths start; empty for the folder of the caller.
    """
    launch = adopted.launch
    words = [_word(word) for word in adopted.overrides]
    groups = [word for word in words if _is_group(word)]
    secrets = secrets_of(launch, adopted.overrides)
    lines = ["#!/usr/bin/env bash"]
    lines.append("# Made by `rltf adopt`; its settings passed the checks of a start.")
    lines += _comments("Changed", adopted.changes, secrets)
    lines += _comments("To know", adopted.notes, secrets)
    lines += _comments("Set by rltf, where you leave verl's default", adopted.presets, secrets)
    if folder:
        lines.append(f"cd {shlex.quote(folder)} || exit")
    lines += [f"unset {name}" for name in launch.unset]
    lines += [f"export {name}={_value(name, text, name)}" for name, text in launch.exports.items()]
    start = " ".join(map(_word, launch.start))
    lines.append(f"${{RUN:-{start}}} --config-name=rltf {' '.join(groups)} \\")
    lines += [f"    {word} \\" for word in words if not _is_group(word)]
    lines.append('    "$@"')
    return "\n".join(lines)


def secrets_of(launch: Launch, overrides: Iterable[str] = ()) -> Secrets:
    """Values of a run that no text about it may hold."""
    exports = (f"{name}={text}" for name, text in launch.exports.items())
    words = (word.partition("=") for word in (*launch.overrides, *overrides, *exports))
    return secrets_here(text for name, _, text in words if looks_secret(name, text))


def _word(override: str) -> str:
    """An override as bash reads it."""
    key, _, text = override.partition("=")
    # `….env_vars.WANDB_API_KEY=…` is read from WANDB_API_KEY, another key from all of its name
    last = key.rpartition(".")[2]
    variable = last if last.isupper() else re.sub(r"\W", "_", key.lstrip("+~")).upper()
    if looks_secret(key, text):
        return f"{shlex.quote(key)}={_value(key, text, variable)}"
    return shlex.quote(override)


def _value(name: str, text: str, variable: str) -> str:
    """A value as bash reads it; that of a secret comes from a variable."""
    if looks_secret(name, text):
        return f'"${{{variable}:?set it, no secret is printed}}"'
    return shlex.quote(text)


def _is_group(word: str) -> bool:
    return word.startswith(("rltf/", "model_engine="))


def _comments(title: str, lines: Sequence[str], secrets: Secrets) -> Iterator[str]:
    if lines:
        yield f"# {title}:"
    for line in lines:
        yield f"#   {secrets.quote(line, LONGEST)}"
