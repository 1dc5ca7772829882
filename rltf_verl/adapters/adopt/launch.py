"""The launch of a verl training: its module, its config and its overrides."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rltf_verl.adapters.adopt.expand import MARK, Unread
from rltf_verl.adapters.adopt.script import LAUNCH, Command, Reading, read_script
from rltf_verl.config import ConfigError

CONFIGS = {
    "verl.trainer.main_ppo": ("verl.trainer.config", "ppo_trainer"),
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
"""Module that is started -> where its configs are, and the one that it takes by itself."""

MAINS = ("verl.trainer.main_ppo", "recipe.dapo.main_dapo")
"""Those that take the config of `main_ppo`."""

FLAGS = {
    "--config-name": "name",
    "-cn": "name",
    "--config-path": "path",
    "-cp": "path",
    "--config-dir": "dir",
    "-cd": "dir",
}
RENAMED = re.compile(r"trainer\.(project_name|experiment_name|\w*_dir)=")
"""Names and folders of a run: the adopted one has its own."""

SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.I)


@dataclass(frozen=True)
class Launch:
    """What starts the training, as it is written."""

    module: str
    package: str
    """Python package of its configs; empty if they are in `folder`."""
    config_name: str
    folder: str
    """Of `--config-path` or `--config-dir`; empty if neither is given."""
    overrides: list[str]
    exports: dict[str, str] = field(default_factory=dict)
    change_to: str = ""
    """Folder that the script changes to; empty if it does not."""
    notes: list[str] = field(default_factory=list)
    """What was not read, one line each."""


def of_script(
    path: Path,
    arguments: Sequence[str],
    environ: Mapping[str, str],
    told: Mapping[str, str],
) -> Launch:
    """The one launch of a script.

    Args:
        path: the script.
        arguments: its arguments.
        environ: environment variables that it sees.
        told: values of variables that the user tells (`--var`).

    Raises:
        ConfigError: there is none, there are several, or an override is not known without running
            the script.
    """
    reading = read_script(path, environ, arguments, told)
    found = reading.launches
    if len(found) != 1:
        raise ConfigError(f"{path}: {_not_one(reading)}")
    launch = of_command(found[0])
    notes = [*launch.notes, *(f"{skipped}: not read" for skipped in reading.skipped)]
    overrides = []
    for word in launch.overrides:
        causes = reading.variables.causes(word)
        if not causes:
            overrides.append(word)
            continue
        plain = MARK.sub("…", word)
        if not RENAMED.match(word):
            raise ConfigError(f"{path}: {plain} is not known: {_cause(causes[0])}")
        notes.append(f"{plain}: not kept, {_reason(causes[0])}")
    exports = {
        k: v for k, v in launch.exports.items() if not SECRET.search(k) and not MARK.search(v)
    }
    left_out = ", ".join(sorted(launch.exports.keys() - exports.keys()))
    if left_out:
        notes.append(f"export of {left_out}: not repeated, set it yourself")
    return Launch(**{**vars(launch), "overrides": overrides, "exports": exports, "notes": notes})


def of_command(command: Command) -> Launch:
    """The parts of a command. Raises ConfigError: it starts no training that is known."""
    words = command.words
    place = next((k for k, word in enumerate(words) if LAUNCH.search(word)), None)
    if place is None:
        raise ConfigError(
            f"{' '.join(words[:6])}: no `python -m verl.trainer.main_ppo` in it; write"
            " `rltf adopt run.sh`, or `rltf adopt -- python -m verl.trainer.main_ppo …`"
        )
    module = words[place].removesuffix(".py").replace("/", ".").lstrip(".")
    if module not in CONFIGS:
        raise ConfigError(f"{words[place]}: not known; known: {', '.join(CONFIGS)}")
    package, name = CONFIGS[module]
    given, overrides = _flags(words[place + 1 :])
    notes = []
    if words[:place] not in ([], ["python", "-m"], ["python3", "-m"]):
        notes.append(
            f"`{' '.join(words[:place])}`: started by plain python3 below; what starts it must have"
            " this package installed"
        )
    folder = given.get("dir", "")
    path = given.get("path", "")
    if path and not (Path(path) == Path("config") or path.startswith("pkg://")):
        folder, package = str(Path(command.folder, path).resolve()), ""
    name = given.get("name", name).removesuffix(".yaml")
    return Launch(module, package, name, folder, overrides, command.exports, command.folder, notes)


def _flags(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Hydra's flags that name a config, and the overrides."""
    given, overrides, rest = dict[str, str](), list[str](), list(words)
    while rest:
        word = rest.pop(0)
        flag, separator, text = word.partition("=")
        if flag in FLAGS:
            given[FLAGS[flag]] = text if separator else rest.pop(0) if rest else ""
        elif word.startswith("-"):
            raise ConfigError(f"{word}: only overrides and --config-… can be adopted; take it out")
        elif word:
            overrides.append(word)
    return given, overrides


def _not_one(reading: Reading) -> str:
    if reading.launches:
        lines = ", ".join(str(command.line) for command in reading.launches)
        return f"starts trainings in lines {lines}; keep one in a copy, or write it out: {WRITE}"
    asked = [unread for unread in reading.variables.unread if unread.variable]
    if not reading.hidden:
        return f"no `python -m verl.trainer.main_ppo` in it; write the command out: {WRITE}"
    why = f" ({_reason(asked[0])}; tell it: --var {asked[0].variable}=VALUE)" if asked else ""
    return (
        f"whether {', '.join(reading.hidden)} starts the training is known only when it runs{why},"
        f" or write the command out: {WRITE}"
    )


WRITE = "rltf adopt -- python -m verl.trainer.main_ppo …"


def _reason(unread: Unread) -> str:
    return f"line {unread.line} runs {unread.text}"


def _cause(unread: Unread) -> str:
    name = unread.variable or "NAME"
    what = "is set under a condition that" if unread.decides else "is what a program prints that"
    return (
        f"line {unread.line}, {unread.text}, {what} adopt does not run; tell it: --var {name}=VALUE"
    )
