"""An adopted run before the start-up checks: what they refuse is dropped, what they cannot see on
this machine is noted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.plan.overrides import Settings, composed
from rltf_verl.adapters.startup import checks
from rltf_verl.adapters.startup.files import (
    DATA,
    REWARD_FUNCTION,
    check_dataset,
    resolve_files,
)
from rltf_verl.adapters.startup.logger import check_loggers
from rltf_verl.adapters.startup.machine import cpu_combinations
from rltf_verl.adapters.startup.modes import mode_combinations
from rltf_verl.adapters.startup.values import too_few_devices
from rltf_verl.adapters.startup.verl_settings import ignored_settings, verl_combinations
from rltf_verl.config import ConfigError
from rltf_verl.data.schema import files_of

# The end of a check's message is the fix of a run that stays as it is.
TO_OURS = re.compile(r"; set it to [^;]*$")


def checked_config(settings: Settings, extra: Settings) -> DictConfig:
    """The composed run, after dropping what the start-up checks refuse or warn of.

    Raises:
        ConfigError: they refuse something that the run does not set.
    """
    while True:
        config = composed("rltf", [*settings.overrides, *extra.overrides])
        seen = checkable(config)
        if not sum(settings.drop([key], why) for key, why in _complaints(seen)):
            break
    parts = checks.checked_parts(seen)
    for key, path in _data_files(seen):
        if path.is_file():
            check_dataset(key, str(path), parts.env)
    return config


def _complaints(config: DictConfig) -> Iterator[tuple[str, str]]:
    """Key and reason of what the checks refuse or warn of."""
    combinations = verl_combinations(config) + mode_combinations(config) + cpu_combinations(config)
    refusals = [message for holds, message in combinations if not holds]
    for message in (*refusals, *too_few_devices(config), *ignored_settings(config)):
        key, _, rest = message.partition("=")
        value, _, why = rest.partition(": ")
        yield key, TO_OURS.sub("", why) or value


def checkable(config: DictConfig) -> DictConfig:
    """A copy as the start-up checks see it, without a reward function that is not here."""
    seen: Any = config.copy()
    for block in REWARD_FUNCTION:
        path = OmegaConf.select(seen, f"{block}.path")
        if path and not _exists(str(path)):
            OmegaConf.update(seen, f"{block}.path", None)
    resolve_files(seen)
    return seen


def rows_exist(config: DictConfig) -> bool:
    """Whether this machine has the files of the data."""
    paths = [path for _, path in _data_files(config)]
    return bool(paths) and all(path.is_file() for path in paths)


def grading_notes(config: DictConfig) -> Iterator[str]:
    """Where the grade comes from, and what the feedback is."""
    env = str(config.rltf.env.name)
    if env != "reward_function":
        yield f"rltf.env.name={env}: the environment of the rows grades"
        return
    paths = {block: OmegaConf.select(config, f"{block}.path") for block in REWARD_FUNCTION}
    for block, path in paths.items():
        if path:
            yield f"{block}.path={path}: grades, and its `feedback` is the feedback"
            if not _exists(str(path)):
                yield f"{block}.path={path}: not on this machine, not checked"
            return
    yield (
        "no custom_reward_function: verl's scorer of the rows' data_source grades, and feedback is"
        " only that an answer is wrong; return a dict with `feedback`, or use --feedback judge"
    )


def logger_notes(config: DictConfig) -> Iterator[str]:
    """What `trainer.logger` lacks on this machine."""
    try:
        check_loggers(config, here=True)
    except ConfigError as error:
        yield f"{REFUSED}: {error}"


REFUSED = "a start on this machine would be refused"


def _data_files(config: DictConfig) -> list[tuple[str, Path]]:
    return [
        (key, Path(path)) for key in DATA for path in files_of(OmegaConf.select(config, key) or [])
    ]


def _exists(path: str) -> bool:
    return path.startswith("pkg://") or Path(path).expanduser().is_file()
