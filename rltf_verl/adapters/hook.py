"""Our checks inside verl's `validate_config`: verl has no hook there."""

from __future__ import annotations

import contextlib
import functools
import io
import signal
import warnings
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from rltf_verl.adapters.console import mark_log_lines
from rltf_verl.adapters.platform import cpu_startup
from rltf_verl.findings import Finding


def check_before_start(verl_config: Any) -> None:
    """Let `validate_config` refuse a wrong `rltf:` block in the driver, before Ray and any worker
    start.

    verl 0.9.1 (`utils/config.py`, called by `main_ppo.main` ahead of `ray.init`) has no hook there.
    Configs without an `rltf:` block pass through untouched. Our trainers check again, for callers
    that skip `validate_config`.
    """
    mark_log_lines()
    original = verl_config.validate_config
    if getattr(original, "rltf_checked", False):
        return

    @functools.wraps(original)
    def validate_config(config: DictConfig, *args: Any, **kwargs: Any) -> None:
        if config.get("rltf") is not None:
            by_a_user = HydraConfig.initialized()
            if by_a_user:
                mark_log_lines()  # Hydra has set up its own handlers
                if startup := cpu_startup():
                    startup.prepare(config)  # before the checks, which take as long as its imports
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # verl names each engine that is not installed
                    # here, because they load verl
                    from rltf_verl.adapters.driver import begin_run
                    from rltf_verl.adapters.startup.checks import check_driver

                    check_driver(config)
                original(config, *args, **kwargs)
                if by_a_user:
                    begin_run(config)
                return
            except KeyboardInterrupt:
                raise SystemExit(128 + signal.SIGINT) from None
            except (ValueError, AssertionError) as error:  # ConfigError; verl's own refusals
                if by_a_user:  # Hydra would print where it was raised
                    raise SystemExit(" ".join(f"rltf: {error}".split())) from None
                raise
        original(config, *args, **kwargs)

    validate_config.rltf_checked = True  # type: ignore[attr-defined]
    verl_config.validate_config = validate_config


def refused_by_verl(config: DictConfig) -> list[Finding]:
    """The first refusal of verl's own validation."""
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    validate = getattr(validate_config, "__wrapped__", validate_config)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            validate(config, need_reference_policy(config), need_critic(config))
    except Exception as error:  # assertions, and what dataclasses raise
        return [Finding("", None, f"verl: {error}", "")]
    return []
