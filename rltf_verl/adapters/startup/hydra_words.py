"""Hydra's errors in one line, with what to do: in `rltf plan` and in a start of verl."""

from __future__ import annotations

import difflib
import functools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from types import ModuleType
from typing import Any

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rltf_verl.config.methods import method_titles

VERLS, OURS = "ppo_trainer", "rltf"
NO_KEY = re.compile(r"Key '([\w/]+)' is not in struct\s+full_key: ([\w./]+)")
SWEEP = re.compile(r"Ambiguous value for argument '([^=]+)=(.*?)'\s", re.S)


def say_in_one_line(hydra_module: ModuleType) -> None:
    """Let a command line of an RLTF run that cannot be composed end in one line.

    Hydra 1.3 has no hook there, and it advises `+key=value` for every misspelt key. Runs of verl
    without us keep Hydra's words, and so does HYDRA_FULL_ERROR=1.
    """
    own = hydra_module.Hydra
    original = own.compose_config
    if getattr(original, "rltf_words", False):
        return

    @functools.wraps(original)
    def compose_config(
        self: Any, config_name: str | None, overrides: list[str], *args: Any, **options: Any
    ) -> DictConfig:
        try:
            return original(self, config_name, overrides, *args, **options)
        except (HydraException, OmegaConfBaseException) as error:
            # `hydra.compose` of a program says False; its errors are the program's
            by_a_user = options.get("from_shell", True) and not os.environ.get("HYDRA_FULL_ERROR")
            if by_a_user and _is_ours(config_name or "", overrides):
                said = in_one_line(error, self, config_name or "", overrides)
                raise SystemExit(f"rltf: {said}") from None
            raise

    compose_config.rltf_words = True  # type: ignore[attr-defined]
    own.compose_config = compose_config


def _is_ours(name: str, overrides: Sequence[str]) -> bool:
    """Whether the run has our block, or asks for it."""
    return name.startswith(OURS) or any(OURS in word.partition("=")[0] for word in overrides)


def loaded(hydra: Any, name: str, overrides: Sequence[str]) -> DictConfig:
    """The config of a command line, with the block `hydra`. Raises what Hydra raises."""
    config: DictConfig = hydra.config_loader.load_configuration(
        config_name=name, overrides=list(overrides), run_mode=RunMode.RUN, from_shell=True
    )
    return config


def in_one_line(error: Exception, hydra: Any, name: str, overrides: Sequence[str]) -> str:
    """Hydra's error in one line, with a better hint where it knows none.

    Args:
        error: what `loaded` raised.
        hydra: the `Hydra` that it was raised by.
        name: `--config-name`.
        overrides: of the command line.
    """
    text = str(error)
    causes = f"{text} {error.__cause__}"
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _missing(error.missing_cfg_file, list(error.options or ()))
    if isinstance(error, OverrideParseException):
        return _unreadable(str(error.override))
    found = SWEEP.search(causes)
    if found is not None:
        key, value = found[1], found[2]
        return f"{key}={value}: a list needs brackets and quotes: '{key}=[{value}]'"
    found = NO_KEY.search(causes)
    if found is not None:
        return _no_key(found[1], found[2], hydra, name, overrides)
    if "No match in the defaults list" in text and name == VERLS:
        return (
            f"--config-name={name}: verl's own config has no rltf/… groups; start from"
            " --config-name=rltf"
        )
    return " ".join(causes.removesuffix(" None").split())


def _unreadable(word: str) -> str:
    if word.startswith("-"):
        return f"{word}: write {word.lstrip('-')}, without dashes"
    if "=" not in word:
        return f"{word}: no value; write {word}=VALUE, without spaces around ="
    return (
        f"{word}: cannot be read; write key=value, and in quotes what has special characters:"
        " 'key=\"~/x\"'"
    )


def _no_key(word: str, key: str, hydra: Any, name: str, overrides: Sequence[str]) -> str:
    where = next((o for o in overrides if f"{word}=" in o or f"{word}." in o), key)
    if word in ("config", "config_name"):
        return f"{where}: write --config-name={where.partition('=')[2]}"
    ours = key.partition(".")[0] == OURS
    if ours and name == VERLS:
        return f"{where}: verl's own config has no rltf: block; start from --config-name=rltf"
    group = key.replace(".", "/")
    if ours and group in _groups():
        return f"{where}: write {group}={where.partition('=')[2]}, with /"
    try:
        known = [k for k in _keys("", loaded(hydra, name, [])) if not k.startswith("hydra")]
    except (HydraException, OmegaConfBaseException):
        known = []
    whole = where.partition("=")[0].lstrip("+~")
    near = _closest(whole if "." not in key else key, _groups() if "/" in key else known)
    return f"{where}: there is no key {word}" + (f"; did you mean {near}?" if near else "")


def _groups() -> list[str]:
    """Ours: `rltf/method` and the like."""
    folder = files("hydra_configs.rltf_verl").joinpath(OURS)
    return [f"{OURS}/{f.name}" for f in folder.iterdir() if f.is_dir()]


def _missing(file: str, options: list[str]) -> str:
    """A primary config, or a choice of a group, that is not there."""
    group, _, choice = file.rpartition("/")
    if group.startswith(f"{OURS}/method"):
        group, choice = f"{OURS}/method", file.removeprefix(f"{OURS}/method/")
        options = [*method_titles()]
    if not group:
        folder = files("hydra_configs.rltf_verl").iterdir()
        options = [f.name.removesuffix(".yaml") for f in folder if f.name.endswith(".yaml")]
        if f"{OURS}_{choice}" in options:
            return f"--config-name={choice}: write --config-name={OURS}_{choice}"
    if group.startswith(f"{OURS}/env") and ".py:" in choice:
        path = file.removeprefix(f"{OURS}/env/")
        return f"{OURS}/env={path}: write {OURS}/env=own {OURS}.env.name={path}"
    named = f"{group}={choice}" if group else f"--config-name={choice}"
    ends = {o.rpartition("/")[2]: o for o in sorted(options, key=lambda o: "/" not in o)}
    ends |= {option: option for option in options}
    bare = choice.removeprefix(f"{OURS}_")
    if group and bare in ends:
        return f"{group}={choice}: write {group}={ends[bare]}"
    near = [word for word in _swaps(choice) if word in ends]
    near = near or difflib.get_close_matches(choice, ends, n=1)
    hint = f"; did you mean {ends[near[0]]}?" if near else ""
    return f"{named}: there is no {choice}{hint}; known: {', '.join(sorted(options))}"


def _swaps(word: str) -> list[str]:
    """The word with two letters beside each other in the other order."""
    return [f"{word[:i]}{word[i + 1]}{word[i]}{word[i + 2 :]}" for i in range(len(word) - 1)]


def _keys(block: str, config: Mapping[Any, Any]) -> Iterator[str]:
    """All keys, those of blocks too, from the outside in order of the config."""
    for name in config:
        key = f"{block}.{name}" if block else str(name)
        yield key
        if not OmegaConf.is_missing(config, name) and not OmegaConf.is_interpolation(config, name):
            inner = config[name]
            if isinstance(inner, Mapping | DictConfig):
                yield from _keys(key, inner)


def _closest(key: str, known: Sequence[str]) -> str | None:
    """The key that was meant: in another block, in ours before others; else the most similar one
    beside it.
    """
    block, _, word = key.rpartition(".")
    top = block.partition(".")[0] or OURS
    for end in (key, word):
        found = [other for other in known if other.endswith(f".{end}")]
        if found:
            return min(found, key=lambda other: other.partition(".")[0] != top)
    beside = [other for other in known if other.rpartition(".")[0] == block]
    near: list[str] = []
    if not block:
        beside += [other for other in known if re.fullmatch(rf"{OURS}\.\w+", other)]
        near = difflib.get_close_matches(f"{OURS}.{key}", beside, n=1, cutoff=0.8)
    near = near or difflib.get_close_matches(key, beside, n=1)
    return near[0] if near else None
