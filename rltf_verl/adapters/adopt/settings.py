"""The settings of a run of verl, and the same run's as it becomes an RLTF run."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import verl  # registers our search path with Hydra, too
from hydra import compose, initialize_config_dir, initialize_config_module
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from rltf_verl.adapters.adopt.launch import MAINS, Launch
from rltf_verl.config import ConfigError

VERL = "verl.trainer.config"
STOCK = "ppo_trainer"
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


@dataclass(frozen=True)
class Setting:
    """One override, with Hydra's sign before it: empty, `+`, `++` or `~`."""

    sign: str
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.sign}{self.key}" + ("" if self.sign == "~" else f"={self.text}")


@dataclass
class Settings:
    """Overrides that become others, with the reasons."""

    groups: list[str]
    """Choices such as `model_engine=megatron`."""
    values: list[Setting]
    changes: list[str] = field(default_factory=list)
    """One line per setting that changed or was dropped, and why."""
    was: dict[str, str] = field(default_factory=dict)
    """What was changed -> the run's own value, empty if it had none."""

    @property
    def overrides(self) -> list[str]:
        """All of them, as on a command line."""
        return [*self.groups, *map(str, self.values)]

    def with_others(self, others: Settings) -> list[str]:
        """All of both, with the others' values in the place of one's own."""
        chosen = {setting.key: setting for setting in others.values}
        merged = {setting.key: setting for setting in self.values} | chosen
        return [*self.groups, *others.groups, *map(str, merged.values())]

    def get(self, key: str) -> Setting | None:
        """The override of a key; the last one counts."""
        return next((s for s in reversed(self.values) if s.key == key), None)

    def change(self, key: str, value: Any, why: str) -> None:
        """Set a key, in the place of the run's own value if it has one."""
        text, old = text_of(value), self.get(key)
        new = Setting("", key, text)
        kept = [new if s is old else s for s in self.values if s is old or s.key != key]
        self.values = kept if old else [*kept, new]
        if old is None or old.text != text:
            if old and key in self.was:  # one line per setting
                before = (f"{key}={old.text}: ", f"{key}={old.text} (was ")
                self.changes = [line for line in self.changes if not line.startswith(before)]
            was = self.was.setdefault(key, old.text if old else "")
            self.changes.append(f"{key}={text}{f' (was {was})' if was else ''}: {why}")

    def drop(self, keys: Sequence[str], why: str) -> bool:
        """Leave out the settings of some keys and of all below them; whether there were any."""
        found = [s for s in self.values if any(f"{s.key}.".startswith(f"{k}.") for k in keys)]
        if found:
            self.values = [s for s in self.values if s not in found]
            self.changes.append(f"{' '.join(map(str, found))} dropped: {why}")
        return bool(found)


def parsed(words: Sequence[str]) -> Settings:
    """Overrides as Hydra reads them. Raises ConfigError: one is none."""
    found = Settings([], [])
    for word in words:
        try:
            override = OverridesParser.create().parse_override(word)
        except HydraException as error:
            raise ConfigError(f"{word}: Hydra cannot read it ({_line(error)})") from error
        key = str(override.key_or_group)
        sign = word[: len(word) - len(word.lstrip("+~"))]
        if "/" in key or override.package or key == "model_engine":
            found.groups.append(word)
        else:
            found.values.append(Setting(sign, key, word.partition("=")[2]))
    return found


def settings_of(launch: Launch) -> Settings:
    """All settings of a run as overrides of verl's own config, those of its config file first.

    Raises:
        ConfigError: its config cannot be read.
    """
    own = parsed(launch.overrides)
    if launch.package == VERL and launch.config_name == STOCK and not launch.folder:
        return own
    config, choices = _primary(launch)
    if config.get("rltf") is not None:
        raise ConfigError(f"--config-name={launch.config_name}: is an RLTF run already")
    engine = choices.get("model_engine", "dp")
    if engine != "dp" and not any(word.startswith("model_engine=") for word in own.groups):
        own.groups.append(f"model_engine={engine}")
    if launch.module not in MAINS:
        return own  # what it sets is for another main
    stock = composed(STOCK, [g for g in own.groups if g.startswith("model_engine=")])
    own.values = [*_differences("", _plain(stock), _plain(config)), *own.values]
    return own


def composed(name: str, overrides: Sequence[str]) -> DictConfig:
    """A config of verl or of ours. Raises ConfigError: it does not compose."""
    try:
        with initialize_config_module(VERL, version_base=None):
            return compose(name, list(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(f"--config-name={name}: {_line(error)}") from error


def without_unknown(settings: Settings) -> None:
    """Drop what verl has no key for, and correct signs: it would refuse them itself."""
    stock = composed(STOCK, settings.groups)
    for setting in list(settings.values):
        parent, _, name = setting.key.rpartition(".")
        block = OmegaConf.select(stock, parent) if parent else stock
        there = isinstance(block, DictConfig) and name in list(block)  # `???` is a key too
        if setting.sign == "+" and there:
            place = settings.values.index(setting)
            settings.values[place] = Setting("", setting.key, setting.text)
        elif not setting.sign and not there and not _open(block):
            names = [str(key) for key in block] if isinstance(block, DictConfig) else []
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {parent}.{near[0]}?" if near else ""
            settings.drop([setting.key], f"verl has no such key{hint}")


def text_of(value: Any) -> str:
    """A value as Hydra's command line has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{text_of(v)}" for key, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(text_of(item) for item in value) + "]"
    text = str(value)
    plain = not isinstance(value, str) or (
        text and all(c.isalnum() or c in "/._-${}" for c in text)
    )
    return text if plain else "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _open(block: Any) -> bool:
    return isinstance(block, DictConfig) and OmegaConf.is_struct(block) is False


def _primary(launch: Launch) -> tuple[DictConfig, Mapping[str, str]]:
    """The config that a run names, without its overrides, and the choices in it."""
    root = Path(str(verl.__file__)).parents[1]
    folder = launch.folder or str(root.joinpath(*launch.package.split(".")))
    start = initialize_config_dir(folder, version_base=None)
    path = [f"hydra.searchpath=[pkg://{VERL}]"] if launch.package != VERL else []
    try:
        with start:
            config = compose(launch.config_name, path, return_hydra_config=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(
            f"--config-name={launch.config_name}: not read in {folder} ({_line(error)})"
        ) from error
    choices = dict(config.hydra.runtime.choices)
    with open_dict(config):
        del config.hydra
    return config, choices


def _plain(config: DictConfig) -> Any:
    return OmegaConf.to_container(config, resolve=False)


def _differences(prefix: str, stock: Any, own: Any) -> Iterator[Setting]:
    """What a config sets otherwise than verl's, as overrides."""
    for name, value in own.items():
        key = f"{prefix}{name}"
        if name not in stock:
            yield Setting("+", key, text_of(value))
        elif isinstance(value, dict) and isinstance(stock[name], dict):
            yield from _differences(f"{key}.", stock[name], value)
        elif value != stock[name]:
            yield Setting("", key, text_of(value))


def _line(error: Exception) -> str:
    """The first line of what Hydra says, and its last one where that names the key."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def differences(theirs: DictConfig, ours: DictConfig, known: Sequence[str]) -> list[str]:
    """What our config sets otherwise than verl's, where the run leaves it to verl; a line each.

    Args:
        theirs: the run as it was.
        ours: the run as it is.
        known: keys that the run sets itself, before or now.
    """
    return [
        f"{setting.key}={setting.text}: set by rltf, verl's default is {_at(theirs, setting.key)}"
        for setting in _differences("", _plain(theirs), _plain(ours))
        if not any(f"{setting.key}.".startswith(f"{key}.") for key in (*known, "rltf"))
    ]


def differing(usual: DictConfig, other: DictConfig) -> list[str]:
    """Keys that one config sets otherwise than another."""
    return [setting.key for setting in _differences("", _plain(usual), _plain(other))]


def _at(config: DictConfig, key: str) -> str:
    parent, _, name = key.rpartition(".")
    block = OmegaConf.select(config, parent) if parent else config
    return "???" if OmegaConf.is_missing(block, name) else text_of(OmegaConf.select(config, key))
