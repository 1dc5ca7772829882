"""Hydra overrides as data, and a config of verl as overrides of verl's default one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import verl  # registers our search path with Hydra, too
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from rltf_verl.config import ConfigError
from rltf_verl.tools.compose.runs import compose_run

VERL, STOCK = "verl.trainer.config", "ppo_trainer"


@dataclass(frozen=True)
class Override:
    """One override, with Hydra's sign before it: empty, `+`, `++` or `~`."""

    sign: str
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.sign}{self.key}" + ("" if self.sign == "~" else f"={self.text}")


@dataclass
class Overrides:
    """Overrides that change, with the reasons."""

    groups: list[str]
    """Choices such as `model_engine=megatron`."""
    values: list[Override]
    changes: dict[str, str] = field(default_factory=dict)
    """Setting that changed or was dropped -> one line with the reason."""
    before: dict[str, str] = field(default_factory=dict)
    """Changed key -> the run's value, empty if it had none."""

    @property
    def overrides(self) -> list[str]:
        """All of them, as on a command line."""
        return [*self.groups, *map(str, self.values)]

    def with_others(self, others: Overrides) -> list[str]:
        """All of both; the others' values win."""
        merged = {setting.key: setting for setting in (*self.values, *others.values)}
        return [*self.groups, *others.groups, *map(str, merged.values())]

    def get(self, key: str) -> str | None:
        """The value that the last override of a key gives it."""
        return next((s.text for s in reversed(self.values) if s.key == key), None)

    def change(self, key: str, value: Any, why: str) -> None:
        """Set a key, in the place of the run's value if it has one."""
        text, old = text_of(value), self.get(key)
        if old == text:
            return
        self.values = [*(s for s in self.values if s.key != key), Override("", key, text)]
        before = self.before.setdefault(key, old or "")
        self.changes[key] = f"{key}={text}{f' (was {before})' if before else ''}: {why}"

    def drop(self, keys: Sequence[str], why: str) -> bool:
        """Remove the settings of some keys and of all below them, if there are any."""
        # the dots: `critic` is no part of `critic_warmup`
        blocks = tuple(f"{key}." for key in keys)
        drops = [setting for setting in self.values if f"{setting.key}.".startswith(blocks)]
        if drops:
            self.values = [s for s in self.values if s not in drops]
            words = " ".join(map(str, drops))
            self.changes[words] = f"{words} dropped: {why}"
        return bool(drops)

    def drop_unknown(self) -> None:
        """Drop keys that verl lacks, and correct signs: Hydra would refuse them."""
        stock = compose_run(STOCK, self.groups)
        for setting in list(self.values):
            parent, _, name = setting.key.rpartition(".")
            block = OmegaConf.select(stock, parent) if parent else stock
            is_block = isinstance(block, DictConfig)
            exists = is_block and name in list(block)  # `???` is a key too
            takes_any = is_block and OmegaConf.is_struct(block) is False
            merges = setting.text[:1] in ("{", "[")  # Hydra adds to what is there
            if setting.sign == "+" and exists and not merges:
                place = self.values.index(setting)
                self.values[place] = Override("", setting.key, setting.text)
            # an unknown key with a `+` stays: Hydra would append it, too
            elif not (setting.sign or exists or takes_any):
                self.drop([setting.key], "verl has no such key")


def parsed(words: Sequence[str]) -> Overrides:
    """Overrides as Hydra reads them. Raises ConfigError: Hydra cannot read one."""
    settings = Overrides([], [])
    for word in words:
        try:
            override = OverridesParser.create().parse_override(word)
        except HydraException as error:
            why = f"Hydra cannot read it ({_first_line(error)})"
            if "=" not in word:
                why = "is no override; name a launch: python3 -m verl.trainer.main_ppo, overrides"
            raise ConfigError(f"{word}: {why}") from error
        key = str(override.key_or_group)
        sign = word[: len(word) - len(word.lstrip("+~"))]
        if "/" in key or override.package or key == "model_engine":
            settings.groups.append(word)
        else:
            settings.values.append(Override(sign, key, word.partition("=")[2]))
    return settings


def own_config(name: str, folder: str) -> tuple[DictConfig, str]:
    """A run's primary config without overrides, and its `model_engine`.

    Args:
        name: `--config-name`.
        folder: `--config-path` or `--config-dir`; empty for verl's own configs.

    Raises:
        ConfigError: it cannot be read, or has a block `rltf`.
    """
    # in the place of the config's own, `file://verl/trainer/config` in those of verl, which holds
    # in a checkout of verl only
    path = [f"hydra.searchpath=[pkg://{VERL}]"] if folder else []
    folder = folder or str(Path(str(verl.__file__)).parents[1].joinpath(*VERL.split(".")))
    try:
        with initialize_config_dir(folder, version_base=None):
            config = compose(name, path, return_hydra_config=True)
    except (HydraException, OmegaConfBaseException) as error:
        message = f"--config-name={name}: not read in {folder} ({_first_line(error)})"
        raise ConfigError(message) from error
    if config.get("rltf") is not None:
        raise ConfigError(f"--config-name={name}: is an RLTF run already")
    engine = str(config.hydra.runtime.choices.get("model_engine", "dp"))
    with open_dict(config):
        del config.hydra
    return config, engine


def has_value_model(config: DictConfig) -> bool:
    """True if verl would train a value model. Its `need_critic` says so too, after a second of
    imports.
    """
    enabled = config.critic.enable
    return config.algorithm.adv_estimator == "gae" if enabled is None else enabled


def text_of(value: Any) -> str:
    """A value as Hydra's command line has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{text_of(v)}" for key, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(text_of(item) for item in value) + "]"
    text = str(value)
    is_plain = text and all(char.isalnum() or char in "/._-${}" for char in text)
    if is_plain or not isinstance(value, str):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def differences(usual: DictConfig, other: DictConfig) -> list[Override]:
    """The overrides that turn `usual` into `other`."""
    return list(_differences("", _plain(usual), _plain(other)))


def _differences(prefix: str, usual: Any, other: Any) -> Iterator[Override]:
    for name, value in other.items():
        key = f"{prefix}{name}"
        if name not in usual:
            yield Override("+", key, text_of(value))
        elif isinstance(value, dict) and isinstance(usual[name], dict):
            yield from _differences(f"{key}.", usual[name], value)
        elif value != usual[name]:
            yield Override("", key, text_of(value))


def _plain(config: DictConfig) -> Any:
    return OmegaConf.to_container(config, resolve=False)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
