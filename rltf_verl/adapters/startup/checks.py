"""Refuse what cannot work, with the key, the value and the fix, before a worker starts or a GPU
second is spent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.compat import TESTED_VERL, verl_is_tested, verl_version
from rltf_verl.adapters.seams import seam_findings
from rltf_verl.adapters.startup.budget import Tell, check_budget
from rltf_verl.adapters.startup.combinations import own_combinations
from rltf_verl.adapters.startup.endpoints import check_endpoints
from rltf_verl.adapters.startup.files import (
    check_datasets,
    check_folders,
    files_made_otherwise,
    files_of_one_index,
    resolve_files,
)
from rltf_verl.adapters.startup.logger import check_loggers
from rltf_verl.adapters.startup.machine import (
    check_devices,
    check_judges,
    check_machine,
    check_platform,
    is_here,
)
from rltf_verl.adapters.startup.model import (
    check_attention,
    check_context,
    is_elsewhere,
    load_model,
)
from rltf_verl.adapters.startup.modes import mode_combinations
from rltf_verl.adapters.startup.own import check_own_rows
from rltf_verl.adapters.startup.stamp import check_resume
from rltf_verl.adapters.startup.values import wrong_values
from rltf_verl.adapters.startup.verl_settings import ignored_settings, verl_combinations
from rltf_verl.config import ConfigError, RLTFConfig
from rltf_verl.envs.trials import Trials
from rltf_verl.episode.parts import Parts
from rltf_verl.objectives import objectives_of
from rltf_verl.objectives import warnings_of as objective_warnings
from rltf_verl.objectives.dry_run import own_failures

logger = logging.getLogger(__name__)


def check_driver(config: DictConfig) -> None:
    """All checks that need no Ray; run in the driver by `validate_config`.

    Raises:
        ConfigError: the first of `refusals`.
    """
    trials = Trials()
    for message in refusals(config, logger.warning, ask_judges=True, trials=trials):
        raise ConfigError(message)
    for message in [*warnings_of(config, rltf_of(config)), *trials.lines()]:
        logger.warning(message)


def refusals(
    config: DictConfig,
    warn: Tell | None = None,
    *,
    ask_judges: bool = False,
    trials: Trials | None = None,
) -> Iterator[str]:
    """A line for everything that cannot work, in the order in which to change it.

    Makes the paths of the config absolute. Nothing is looked at before it is asked for; what cannot
    be looked at, because something that it needs was refused, is left out.

    Args:
        config: of the run.
        warn: is told what may go well.
        ask_judges: in the end, each endpoint once, where the run's processes are this machine's.
        trials: counts the time for grades.
    """
    trials = trials or Trials()
    yield from map(str, seam_findings())
    yield from wrong_values(config)
    unresolved = [*_told(resolve_files, config)]
    yield from unresolved
    config.trainer.experiment_name = str(
        config.trainer.experiment_name
    )  # the config's name is known here only
    parts = None
    try:
        parts = None if unresolved else parts_of(config)
    except ValueError as error:
        yield _line(error)
    if parts is not None:
        yield from refused_combinations(config, parts)
    yield from _told(check_platform, config)
    yield from _told(check_devices, config)
    unusable = False
    if parts is not None:
        yield from _told(check_machine, parts.env)
        if is_here(config):
            yield from _told(check_judges, parts.judges)
        for message in check_datasets(config, parts.env, trials):
            unusable = True
            yield message
        yield from _told(check_folders, parts.config)
        yield from _told(check_resume, config, parts.config)
    yield from _told(check_loggers, config, here=is_here(config))
    yield from refused_model(config, None if unusable else parts, trials, warn)
    if ask_judges and parts is not None and is_here(config):
        yield from _told(check_endpoints, parts.judges)


def refused_model(
    config: DictConfig, parts: Parts | None, trials: Trials, warn: Tell | None = None
) -> Iterator[str]:
    """Of the model, and of the prompts under its tokenizer. What lies on other machines only is not
    looked at.
    """
    if is_elsewhere(str(config.actor_rollout_ref.model.path)):
        return
    try:
        model = load_model(config)
    except ValueError as error:
        if is_here(config):
            yield _line(error)
        return
    yield from _told(check_context, config, model)
    yield from _told(check_attention, config, model)
    if parts is not None:
        yield from _told(check_budget, config, parts, model.tokenizer, warn, trials=trials)
        yield from _told(check_own_rows, config, parts, model, trials)


def _told(check: Callable[..., None], *args: Any, **options: Any) -> Iterator[str]:
    try:
        check(*args, **options)
    except ValueError as error:  # ConfigError is one
        yield _line(error)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def check_config(config: DictConfig) -> RLTFConfig:
    """The `rltf:` block of `checked_parts`."""
    return checked_parts(config).config


def checked_parts(config: DictConfig) -> Parts:
    """What the `rltf:` block names, held against verl's settings.

    Raises:
        ConfigError: names the key, its value and what to set instead.
    """
    parts = parts_of(config)
    check_combinations(config, parts)
    return parts


def parts_of(config: DictConfig) -> Parts:
    """What the `rltf:` block names. Raises ValueError, ConfigError."""
    return Parts.of(rltf_of(config))


def rltf_of(config: DictConfig) -> RLTFConfig:
    """The `rltf:` block as it is written. Raises ConfigError."""
    if config.get("rltf") is None:
        raise ConfigError(
            "no `rltf:` block in the config: start from a config of this package, e.g."
            " --config-name=rltf_sd"
        )
    block: Any = OmegaConf.to_container(config.rltf, resolve=True)
    return RLTFConfig.from_mapping(block)


def check_combinations(config: DictConfig, parts: Parts) -> None:
    """Raise ConfigError where verl's settings and ours do not go together; warn where they may
    not.
    """
    for message in refused_combinations(config, parts):
        raise ConfigError(message)
    for message in warnings_of(config, parts.config):
        logger.warning(message)


def refused_combinations(config: DictConfig, parts: Parts) -> Iterator[str]:
    """A line for all of verl's settings and ours that do not go together."""
    combinations = (
        verl_combinations(config) + mode_combinations(config) + own_combinations(config, parts)
    )
    group_size = int(config.actor_rollout_ref.rollout.n)
    combinations += [(False, line) for line in own_failures(parts.config, group_size)]
    for objective in objectives_of(parts.config):
        combinations += objective.refusals(partial(OmegaConf.select, config), parts.provider)
    return (message for ok, message in combinations if not ok)


def warnings_of(config: DictConfig, rltf: RLTFConfig) -> list[str]:
    """Settings that have no effect, or not the one that was meant."""
    untested = (
        []
        if verl_is_tested()
        else [f"verl {verl_version()} is outside the tested range {TESTED_VERL}; run `rltf doctor`"]
    )
    setting = partial(OmegaConf.select, config)
    return (
        untested
        + ignored_settings(config)
        + files_made_otherwise(config)
        + files_of_one_index(config)
        + [*objective_warnings(rltf, setting)]
    )
