"""Our checks inside verl's `validate_config`: verl has no hook there."""

from __future__ import annotations

import contextlib
import functools
import io
import signal
import warnings
from copy import deepcopy
from functools import partial
from importlib.util import find_spec
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.console import mark_log_lines
from rltf_verl.findings import Finding
from rltf_verl.hardware import cpu_services
from rltf_verl.stuck import end_process


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
                if startup := cpu_services():
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
            except (KeyboardInterrupt, ValueError, AssertionError) as error:  # ConfigError; verl's
                if not by_a_user:
                    raise
                stopped = isinstance(error, KeyboardInterrupt)
                # Hydra would print where it was raised
                end_process(128 + signal.SIGINT if stopped else " ".join(f"rltf: {error}".split()))
        original(config, *args, **kwargs)

    validate_config.rltf_checked = True  # type: ignore[attr-defined]
    verl_config.validate_config = validate_config


def refused_by_verl(config: DictConfig) -> list[Finding]:
    """The first refusal of verl's own validation; a warning of what it cannot check here."""
    from verl.utils.config import validate_config

    from rltf_verl.objectives.teacher import uses_lora

    validate = getattr(validate_config, "__wrapped__", validate_config)
    key, found = "actor_rollout_ref.rollout.name", list[Finding]()
    if OmegaConf.select(config, key) == "vllm" and find_spec("vllm") is None:
        # It asks the engine for one thing, LoRA's highest rank, and imports it for that.
        if uses_lora(partial(OmegaConf.select, config)):
            why = "its limit of LoRA's rank is not checked here: vLLM is not installed"
            found.append(Finding(key, "vllm", why, "", "warning"))
        config = deepcopy(config)
        OmegaConf.update(config, key, "transformers")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            # `need_reference_policy` and `need_critic` say so too of a run that is not refused, but
            # their module takes a second to load.
            validate(config, config.actor_rollout_ref.actor.use_kl_loss, config.critic.enable)
    except Exception as error:  # assertions, and what dataclasses raise
        found.append(Finding("", None, f"verl: {error}", ""))
    return found
