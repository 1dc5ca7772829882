"""An adopted run before the start-up checks: what they refuse is dropped, what they cannot see on
this machine is said.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.adopt.settings import Settings, composed
from rltf_verl.adapters.startup import checks
from rltf_verl.adapters.startup.files import (
    DATA,
    REWARD_FUNCTION,
    check_dataset,
    resolve_files,
)
from rltf_verl.adapters.startup.machine import check_loggers
from rltf_verl.adapters.startup.rules import VERL, rule_findings
from rltf_verl.adapters.startup.values import too_few_devices
from rltf_verl.config import ConfigError
from rltf_verl.data.schema import files_of

TO_OURS = re.compile(r"; set it to [^;]*$")
"""The end of a check's message: the fix of a run that stays."""


def checked_config(settings: Settings, extra: Settings) -> DictConfig:
    """The composed run, after dropping what the start-up checks refuse or warn of.

    Raises:
        ConfigError: they refuse something that is not the run's own setting.
    """
    while True:
        config = composed("rltf", [*settings.overrides, *extra.overrides])
        seen = checkable(config)
        refused, unread = (rule_findings(seen, level, VERL) for level in ("error", "warning"))
        said = [*refused, *too_few_devices(seen), *unread]
        if not sum(_dropped(settings, str(message)) for message in said):
            break
    parts = checks.checked_parts(seen)
    for key in DATA:
        for path in files_of(OmegaConf.select(seen, key) or []):
            if Path(path).is_file():
                check_dataset(key, path, parts.env)
    return config


def checkable(config: DictConfig) -> DictConfig:
    """A copy as the start-up checks see it, without a reward function that is not here."""
    seen: Any = config.copy()
    for block in REWARD_FUNCTION:
        path = OmegaConf.select(seen, f"{block}.path")
        if path and not str(path).startswith("pkg://") and not Path(path).expanduser().is_file():
            OmegaConf.update(seen, f"{block}.path", None)
    resolve_files(seen)
    return seen


def _dropped(settings: Settings, message: str) -> bool:
    """Drop the setting that a message of the checks begins with; whether it is the run's own."""
    key, _, rest = message.partition("=")
    value, _, why = rest.partition(": ")
    return settings.drop([key], TO_OURS.sub("", why) or value)


def rows_are_here(config: DictConfig) -> bool:
    """Whether this machine has the files of the data."""
    paths = [path for key in DATA for path in files_of(OmegaConf.select(config, key) or [])]
    return bool(paths) and all(Path(path).is_file() for path in paths)


def say_who_grades(config: DictConfig, notes: list[str]) -> None:
    """Note where the grade comes from, and what the feedback is."""
    env = str(config.rltf.env.name)
    if env != "reward_function":
        notes.append(f"rltf.env.name={env}: the rows were made for it, and it grades")
        return
    for block in REWARD_FUNCTION:
        path = OmegaConf.select(config, f"{block}.path")
        if path:
            notes.append(
                f"{block}.path={path}: grades, and its `feedback` is what the verifier says"
            )
            if not str(path).startswith("pkg://") and not Path(path).expanduser().is_file():
                notes.append(f"{block}.path={path}: not on this machine, not checked")
            return
    notes.append(
        "no custom_reward_function: verl's scorer of the rows' data_source grades, and feedback is"
        " only that an answer is wrong; return a dict with `feedback`, or use --feedback judge"
    )


def say_what_a_logger_needs(config: DictConfig, notes: list[str]) -> None:
    """Note what `trainer.logger` lacks on this machine."""
    try:
        check_loggers(config, here=True)
    except ConfigError as error:
        notes.append(f"a start on this machine would be refused: {error}")
