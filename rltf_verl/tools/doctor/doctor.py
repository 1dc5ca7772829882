"""`rltf doctor`: checks of an installation, for the driver and for a real Ray worker."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rltf_verl.episode.parts import Parts
from rltf_verl.hardware import cpu_services, on_cpu_platform
from rltf_verl.registry import described
from rltf_verl.tools.doctor.process import Check, Status, look_around

WORKER_TIMEOUT_S = 300
NO_ACCELERATOR = "no accelerator on this machine"
CPU_FIX = "to train on the CPU, start with VERL_PLATFORM=cpu and rltf/hardware=cpu"
COMPOSE_FIX = (
    "`python -m verl.trainer.main_ppo --config-name=rltf_sd --cfg job` prints the keys that"
    " there are"
)


def examine(
    config_name: str, overrides: Sequence[str], path: str | None = None, folder: Path | None = None
) -> list[Check]:
    """All checks, in the order in which they should be read.

    Args:
        config_name: primary config, as for `main_ppo --config-name`.
        overrides: Hydra overrides of it.
        path: as for `--config-path`.
        folder: as for `--config-dir`.
    """
    driver = look_around("driver")
    run = _run_checks(config_name, overrides, path, folder)
    return [*driver, *run, *_worker_checks(driver)]


def _worker_checks(driver: Sequence[Check]) -> list[Check]:
    import ray
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    cluster: dict[str, Any] = {"address": "local", "num_cpus": 1, "include_dashboard": False}
    if os.environ.get("RAY_ADDRESS"):
        cluster = {}  # Ray joins the cluster that it names
    try:
        ray.init(
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env=get_ppo_ray_runtime_env(),
            **cluster,
        )
        worker = ray.get(
            ray.remote(look_around).options(num_cpus=1).remote("worker"), timeout=WORKER_TIMEOUT_S
        )
    except Exception as error:  # a broken cluster raises anything
        return [
            Check(
                "ray",
                "failed",
                described(error),
                "start Ray by hand (`ray start --head`) to see why",
                "worker",
            )
        ]
    finally:
        ray.shutdown()
    return _compare_versions(driver, worker)


def _compare_versions(driver: Sequence[Check], worker: Sequence[Check]) -> list[Check]:
    """The worker's checks; its versions must be the driver's."""
    versions = {check.name: check.detail for check in driver}["versions"]
    fix = "install the same packages on every node of the cluster"
    checks = list(worker)
    for k, check in enumerate(worker):
        if check.name == "versions" and check.detail != versions:
            checks[k] = replace(check, status="failed", fix=fix)
    return checks


def _run_checks(
    config_name: str, overrides: Sequence[str], path: str | None = None, folder: Path | None = None
) -> list[Check]:
    """Checks of what a run with this config needs."""
    from rltf_verl.tools.compose.runs import compose_run

    added = _cpu_overrides(overrides)
    try:
        config = compose_run(config_name, [*overrides, *added], path, folder)
    except Exception as error:  # Hydra and OmegaConf have a dozen
        return [Check("config", "failed", f"{config_name}: {described(error)}", COMPOSE_FIX)]
    platform = _platform(config)
    words = " ".join(
        [config_name, *overrides, *(f"{word} (because VERL_PLATFORM=cpu)" for word in added)]
    )
    settings, judge = _settings(config, words)
    return [settings, platform, _rollout(config, platform.status == "note"), judge]


def _cpu_overrides(overrides: Sequence[str]) -> list[str]:
    chosen = any(word.lstrip("+").startswith("rltf/hardware=") for word in overrides)
    return ["rltf/hardware=cpu"] if on_cpu_platform() and not chosen else []


def _settings(config: DictConfig, words: str) -> tuple[Check, Check]:
    """Checks of the whole config, and of the judges that it names."""
    from rltf_verl.adapters.startup.checks import checked_parts, parts_of
    from rltf_verl.adapters.startup.files import resolve_files

    judge = Check("judge", "note", "not looked at", "correct the config first")
    try:
        resolve_files(config)
        judge = judge_check(parts_of(config))
        checked_parts(config)
    except Exception as error:  # also what OmegaConf raises for a broken interpolation
        return Check("config", "failed", words, str(error)), judge
    return Check("config", "ok", words), judge


def judge_check(parts: Parts) -> Check:
    """Check that the judges of provider, leak guard and environment answer. Costs one
    short reply of each.
    """
    from rltf_verl.adapters.startup.judges import check_endpoints, check_judges

    provider = f"rltf.feedback.provider={parts.config.feedback.provider.name}"
    judges = {judge.settings: judge for judge in parts.judges}.values()
    if not judges:
        return Check("judge", "ok", f"none configured ({provider} asks no model)")
    if unusable := [*check_judges(parts.judges)]:
        return Check("judge", "failed", provider, str(unusable[0]))
    if silent := [*check_endpoints(parts.judges)]:
        fix = "start it, or correct the block endpoint (base_url, model, api_key_env)"
        return Check("judge", "failed", "; ".join(map(str, silent)), fix)
    named = (judge.settings.endpoint for judge in judges)
    return Check("judge", "ok", "; ".join(f"{e.model} at {e.base_url}: answers" for e in named))


def _platform(config: DictConfig) -> Check:
    from verl.utils.device import get_device_name, get_torch_device

    from rltf_verl.adapters.startup.checks import require
    from rltf_verl.adapters.startup.machine import check_platform

    chosen = os.environ.get("VERL_PLATFORM", "")
    try:
        available = get_torch_device().is_available()
        detail = f"VERL_PLATFORM={chosen!r}, device {get_device_name()}" + (
            "" if available else f", {NO_ACCELERATOR}"
        )
        if not (available or chosen or config.trainer.device == "cpu"):
            return Check("platform", "note", detail, CPU_FIX)
        require(check_platform(config))
    except Exception as error:  # an unknown platform name, or a device library that does not load
        return Check("platform", "failed", f"VERL_PLATFORM={chosen!r}", str(error))
    return Check("platform", "ok", detail)


def _rollout(config: DictConfig, not_run_here: bool) -> Check:
    """Check that the engine can be imported, as verl does; a note where no run would start."""
    name = OmegaConf.select(config, "actor_rollout_ref.rollout.name")
    try:
        if startup := cpu_services():
            startup.check_media()
        from verl.workers.rollout.replica import get_rollout_replica_class

        get_rollout_replica_class(name)
    except Exception as error:  # verl raises ValueError or ImportError, engines anything
        fix = f"install {name}, or choose another actor_rollout_ref.rollout.name"
        status: Status = "note" if not_run_here else "failed"
        return Check("rollout engine", status, f"{name}: {described(error)}", fix)
    return Check("rollout engine", "ok", name)
