"""The launch of a verl training: what was typed, and the script that `rltf adopt` prints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rltf_verl.config import ConfigError
from rltf_verl.redaction import Secrets, looks_secret, secrets_here
from rltf_verl.tools.compose.overrides import STOCK

MODULE = "verl.trainer.main_ppo"
MAINS = (MODULE, "recipe.dapo.main_dapo")
"""Modules that take the config of `main_ppo`."""

TRAINER = re.compile(
    r"(?P<flag>-\w*m)?(?P<module>(verl|recipe)(\.\w+)+)|(?P<path>(.*/)?main_(ppo|dapo))\.py"
)
"""Word of a launch that names its program, as in `reader.bash`."""

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


@dataclass(frozen=True)
class Launch:
    """A start of verl's training."""

    config_name: str
    folder: str
    """Folder of `--config-path` or `--config-dir`; empty if neither is given."""
    overrides: list[str]
    start: list[str] = field(default_factory=lambda: ["python3", "-m", MODULE])
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
    checked: list[str]
    """Parts that passed the start-up checks."""


def has_trainer(words: Sequence[str]) -> bool:
    """True if a word names a program of verl or of its recipes."""
    return any(map(TRAINER.fullmatch, words))


def is_known(words: Sequence[str]) -> bool:
    """True if the words start a training that can be adopted."""
    return _split(words)[0] in MAINS


def of_words(words: Sequence[str]) -> Launch:
    """The launch in the words of a command. Words without a program are those of `main_ppo`.

    Raises:
        ConfigError: it starts no training that is known.
    """
    module, start, rest = _split(words)
    if module not in MAINS:
        raise ConfigError(
            f"{module}: cannot be adopted; start {MODULE}, asynchronously with"
            " trainer.v1.trainer_mode=separate_async"
        )
    if "xargs" in start:
        raise ConfigError(f"xargs: overrides in a pipe are not read; write them after {MODULE}")
    flags, overrides = _flags(rest)
    folder, path = flags.get("dir", ""), flags.get("path", "")
    if path and not (Path(path) == Path("config") or path.startswith("pkg://")):
        folder = str(Path(path).resolve())
    config = flags.get("name", STOCK).removesuffix(".yaml")
    return Launch(config, folder, overrides, *([start] if start else []))


def _split(words: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """The module, the words that start it with `MODULE` in its place, and those after it."""
    for index, word in enumerate(words):
        if match := TRAINER.fullmatch(word):
            before, rest = list(words[:index]), list(words[index + 1 :])
            if match["path"]:
                module = match["path"].replace("/", ".")
                known = next((main for main in MAINS if f".{module}".endswith(f".{main}")), module)
                return known, [*before, "-m", MODULE], rest
            return match["module"], [*before, f"{match['flag'] or ''}{MODULE}"], rest
    return MODULE, [], list(words)


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
