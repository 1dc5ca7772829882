"""The launch of a verl training: what was typed, and the script that `rltf adopt` prints."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rltf_verl.config import ConfigError
from rltf_verl.redaction import Secrets, looks_secret, secrets_here
from rltf_verl.tools.compose.overrides import STOCK

MODULE = "verl.trainer.main_ppo"
MAINS = (MODULE, "recipe.dapo.main_dapo")
"""Modules that take the config of `main_ppo`."""

# `fully_async_main` is matched too, so that it is refused by its name
MAIN = re.compile(r"python3? -m \S*(main_ppo|main_dapo|fully_async_main)")

FLAGS = {
    "--config-name": "name",
    "-cn": "name",
    "--config-path": "path",
    "-cp": "path",
    "--config-dir": "dir",
    "-cd": "dir",
}
LONGEST = 2000
"""Characters of a comment."""

SHELL_VARIABLES = {"_", "SHLVL", "PWD", "OLDPWD", "RUN", "LINES", "COLUMNS"}
"""Variables that differ between a shell and its programs, or that name this program."""


@dataclass(frozen=True)
class Launch:
    """A start of verl's training."""

    config_name: str
    folder: str
    """Folder of `--config-path` or `--config-dir`; empty if neither is given."""
    overrides: list[str]
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
    checked: list[str]
    """Parts that passed the start-up checks."""


def of_words(
    words: Sequence[str], before: Mapping[str, str] | None, environ: Mapping[str, str]
) -> Launch:
    """The launch whose words bash has expanded, with what the calling script exports.

    Args:
        words: as a program gets them.
        before: variables with which the script was started; None if they are unknown.
        environ: variables of the launch.

    Raises:
        ConfigError: it starts no training that is known.
    """
    launch = _launch(words)
    if before is None:
        note = "exports of your script are not repeated: bash did not start this command"
        return replace(launch, notes=[note])
    exports = {
        name: value
        for name, value in environ.items()
        if name.isidentifier() and before.get(name) != value and name not in SHELL_VARIABLES
    }
    return replace(launch, exports=exports, unset=sorted(before.keys() - environ - SHELL_VARIABLES))


def environment_at_start() -> dict[str, str]:
    """Variables with which this process was started: torch and Ray set more when imported."""
    try:
        return _environment_of("self")
    except (OSError, ValueError):  # not Linux
        return dict(os.environ)


def environment_of_calling_script() -> dict[str, str] | None:
    """Variables with which the shell that runs the calling script was started; those of this
    process where a person typed the command; None if another program started it.
    """
    parent = os.getppid()
    try:
        command = Path(f"/proc/{parent}/cmdline").read_bytes()
        before = _environment_of(parent)
    except (OSError, ValueError):  # not Linux, or a process of another user
        return None
    # each word ends with a zero byte, so the part after the last one is empty
    shell, *arguments = os.fsdecode(command).split("\0")[:-1]
    # a login shell is called `-bash`
    if Path(shell).name.lstrip("-") not in ("bash", "sh"):
        return None
    if all(argument.startswith("-") for argument in arguments):  # an interactive shell
        return environment_at_start()
    return before


def _environment_of(process: int | str) -> dict[str, str]:
    items = os.fsdecode(Path(f"/proc/{process}/environ").read_bytes()).split("\0")[:-1]
    return dict(item.split("=", 1) for item in items if "=" in item)


def _launch(words: Sequence[str]) -> Launch:
    module, rest = MODULE, list(words)
    # without these three words, all are flags and overrides of `main_ppo`
    if MAIN.fullmatch(" ".join(rest[:3])):
        module, rest = rest[2], rest[3:]
    if module not in MAINS:
        raise ConfigError(
            f"{module}: cannot be adopted; start {MODULE}, asynchronously with"
            " trainer.v1.trainer_mode=separate_async"
        )
    flags, overrides = _flags(rest)
    folder, path = flags.get("dir", ""), flags.get("path", "")
    if path and not (Path(path) == Path("config") or path.startswith("pkg://")):
        folder = str(Path(path).resolve())
    return Launch(flags.get("name", STOCK).removesuffix(".yaml"), folder, overrides)


def _flags(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Hydra's flags that name a config, and the overrides."""
    flags, overrides, rest = dict[str, str](), dict[str, None](), list(words)
    while rest:
        word = rest.pop(0)
        flag, separator, text = word.partition("=")
        if flag in FLAGS:
            if rest and not separator:  # `--config-name x`, not `--config-name=x`
                text = rest.pop(0)
            flags[FLAGS[flag]] = text
        elif word.startswith("-"):
            raise ConfigError(f"{flag}: remove it, only overrides and --config-… can be adopted")
        elif word:
            overrides.pop(word, None)  # the last of several words for a key counts
            overrides[word] = None
    return flags, list(overrides)


def script_of(adopted: Adopted, folder: str = "") -> str:
    """A script that bash runs; what changed, and why, stands in it as comments. The variable RUN
    names another program for the same words, as in `RUN="rltf plan" bash run_rltf.sh`.

    Args:
        adopted: the run.
        folder: where its paths start; empty for the folder of the caller.
    """
    launch = adopted.launch
    words = [_word(word) for word in adopted.overrides]
    groups = [word for word in words if _is_group(word)]
    secrets = secrets_of(launch, adopted.overrides)
    lines = ["#!/usr/bin/env bash"]
    lines.append(f"# Made by `rltf adopt`; it composes. Checked: {', '.join(adopted.checked)}.")
    lines += _comments("Changed", adopted.changes, secrets)
    lines += _comments("To know", adopted.notes, secrets)
    lines += _comments("Set by rltf, where you leave verl's default", adopted.presets, secrets)
    if folder:
        lines.append(f"cd {shlex.quote(folder)} || exit")
    lines += [f"unset {name}" for name in launch.unset]
    lines += [f"export {name}={_value(name, text, name)}" for name, text in launch.exports.items()]
    lines.append(f"${{RUN:-python3 -m {MODULE}}} --config-name=rltf {' '.join(groups)} \\")
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
