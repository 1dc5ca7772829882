"""The launch of a verl training: what was typed, and the script that `rltf adopt` prints."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rltf_verl.config import ConfigError
from rltf_verl.redaction import looks_secret
from rltf_verl.tools.adopt.script import MAIN, Word, literal, read_script

MODULE = "verl.trainer.main_ppo"
MAINS = (MODULE, "recipe.dapo.main_dapo")
"""Modules that take the config of `main_ppo`."""

CONFIGS = {
    MODULE: ("verl.trainer.config", "ppo_trainer"),
    "recipe.dapo.main_dapo": ("verl.trainer.config", "ppo_trainer"),
    "verl.experimental.fully_async_policy.fully_async_main": (
        "verl.experimental.fully_async_policy.config",
        "fully_async_ppo_trainer",
    ),
    "verl.experimental.one_step_off_policy.main_ppo": (
        "verl.experimental.one_step_off_policy.config",
        "one_step_off_ppo_trainer",
    ),
}
"""Module that is started -> the package of its configs, and its default config."""

FLAGS = {
    "--config-name": "name",
    "-cn": "name",
    "--config-path": "path",
    "-cp": "path",
    "--config-dir": "dir",
    "-cd": "dir",
}
OF_THE_SHELL = {"_", "SHLVL", "PWD", "OLDPWD", "RUN", "LINES", "COLUMNS"}
"""Variables that differ between a shell and its programs, or that name this program."""


@dataclass(frozen=True)
class Launch:
    """What starts the training."""

    module: str
    package: str
    """Python package of its configs; empty if they are in `folder`."""
    config_name: str
    folder: str
    """Folder of `--config-path` or `--config-dir`; empty if neither is given."""
    overrides: list[str]
    words: dict[str, str]
    """Override -> the same for double quotes, with variables of the environment."""
    exports: dict[str, Word] = field(default_factory=dict)
    unset: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What was not read, one line each."""


def of_script(path: Path, environ: Mapping[str, str]) -> Launch:
    """The launch in a script of the common form. Raises ConfigError: it has another form."""
    script = read_script(path, environ)
    return _launch(script.words, exports=script.exports)


def of_words(words: Sequence[str]) -> Launch:
    """The launch whose words bash has expanded, with what the calling script exports.

    Raises:
        ConfigError: it starts no training that is known.
    """
    before = _environment_of_calling_script()
    if before is None:
        note = "exports of your script are not repeated: this command was not started by bash"
        return _launch([literal(word) for word in words], notes=[note])
    changed = {
        name: literal(value)
        for name, value in os.environ.items()
        if name.isidentifier() and before.get(name) != value and name not in OF_THE_SHELL
    }
    unset = sorted(before.keys() - os.environ.keys() - OF_THE_SHELL)
    return _launch([literal(word) for word in words], exports=changed, unset=unset)


def _environment_of_calling_script() -> dict[str, str] | None:
    """Variables with which the shell that runs the calling script was started; those of this
    process where a person typed the command; None if another program started it.
    """
    parent = Path(f"/proc/{os.getppid()}")
    try:
        shell, *arguments = parent.joinpath("cmdline").read_bytes().split(b"\0")[:-1]
        items = os.fsdecode(parent.joinpath("environ").read_bytes()).split("\0")[:-1]
    except (OSError, ValueError):  # not Linux, or a process of another user
        return None
    if Path(os.fsdecode(shell)).name.lstrip("-") not in ("bash", "sh", "dash", "zsh"):
        return None
    if all(argument.startswith(b"-") for argument in arguments):
        return dict(os.environ)  # an interactive shell
    return {name: value for name, _, value in (item.partition("=") for item in items)}


def _launch(
    words: Sequence[Word],
    exports: Mapping[str, Word] | None = None,
    unset: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Launch:
    module, rest = MODULE, list(words)
    if MAIN.fullmatch(" ".join(word.text for word in rest[:3])):
        module, rest = rest[2].text, rest[3:]
    if module not in CONFIGS:
        raise ConfigError(f"{module}: this module is unknown; use one of {', '.join(CONFIGS)}")
    package, name = CONFIGS[module]
    given, overrides = _flags(rest)
    folder, path = given.get("dir", ""), given.get("path", "")
    if path and not (Path(path) == Path("config") or path.startswith("pkg://")):
        folder, package = str(Path(path).resolve()), ""
    return Launch(
        module,
        package,
        given.get("name", name).removesuffix(".yaml"),
        folder,
        [word.text for word in overrides],
        {word.text: word.shell for word in overrides},
        dict(exports or {}),
        list(unset),
        list(notes),
    )


def _flags(words: Sequence[Word]) -> tuple[dict[str, str], list[Word]]:
    """Hydra's flags that name a config, and the overrides."""
    given, overrides, rest = dict[str, str](), list[Word](), list(words)
    while rest:
        word = rest.pop(0)
        flag, separator, text = word.text.partition("=")
        if flag in FLAGS:
            given[FLAGS[flag]] = text if separator else rest.pop(0).text if rest else ""
        elif word.text.startswith("-"):
            raise ConfigError(f"{flag}: remove it, only overrides and --config-… can be adopted")
        elif word.text:
            overrides.append(word)
    return given, overrides
