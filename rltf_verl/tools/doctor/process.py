"""Checks of one process, this driver or a Ray worker of verl.

verl is checked as `import verl` left it. Our plugin is loaded only afterwards, to show an error
that verl hides.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Any, Literal

from rltf_verl.adapters.compat import TESTED_VERL, verl_is_tested
from rltf_verl.hardware import on_cpu_platform
from rltf_verl.registry import described
from rltf_verl.sampler import ROLLOUT_NAME

PLUGIN = "rltf_verl.plugin"


PACKAGES = (
    "rltf-verl",
    "verl",
    "torch",
    "ray",
    "transformers",
    "TransferQueue",
    "tensordict",
    "hydra-core",
)

Status = Literal["ok", "note", "failed"]
"""A note is worth reading but stops nothing."""


@dataclass(frozen=True)
class Check:
    """One line of the doctor's report."""

    name: str
    status: Status
    detail: str
    fix: str = ""
    """The fix, for lines that are not ok."""
    where: str = "driver"


@dataclass(frozen=True)
class ProcessProbe:
    """A trace that one of our hooks leaves in a module of verl (or of what verl needs)."""

    name: str
    module: str
    holds: Callable[[Any], object]


def _has_search_path(plugins: Any) -> bool:
    from hydra.plugins.search_path_plugin import SearchPathPlugin

    from rltf_verl.searchpath import RLTFSearchPath

    return RLTFSearchPath in plugins.Plugins.instance().discover(SearchPathPlugin)


PROBES = (
    ProcessProbe("TransferQueue", "transfer_queue", lambda m: m.kv_batch_put),
    ProcessProbe(
        "advantage estimator rltf",
        "verl.trainer.ppo.core_algos",
        lambda m: m.get_adv_estimator_fn("rltf"),
    ),
    ProcessProbe(
        "policy loss rltf_ppo",
        "verl.trainer.ppo.core_algos",
        lambda m: m.get_policy_loss_fn("rltf_ppo"),
    ),
    ProcessProbe(
        "agent loop rltf",
        "verl.experimental.agent_loop.agent_loop",
        lambda m: (
            importlib.import_module("rltf_verl.adapters.rollout.agent_loop")
            and "rltf" in m._agent_loop_registry
        ),
    ),
    ProcessProbe(
        "trainer rltf_sync", "verl.trainer.ppo.v1", lambda m: m.get_trainer_cls("rltf_sync")
    ),
    ProcessProbe(
        "checks before start",
        "verl.utils.config",
        lambda m: hasattr(m.validate_config, "__wrapped__"),
    ),
    ProcessProbe("config search path", "hydra.core.plugins", _has_search_path),
    ProcessProbe(
        f"rollout replica {ROLLOUT_NAME}",
        "verl.workers.rollout.replica",
        lambda m: m.RolloutReplicaRegistry.get(ROLLOUT_NAME),
    ),
    ProcessProbe(
        f"rollout adapter {ROLLOUT_NAME}",
        "verl.workers.rollout.base",
        lambda m: m.get_rollout_class(ROLLOUT_NAME, "async"),
    ),
)
CPU_PROBES = (
    ProcessProbe(
        "platform cpu",
        "verl.plugin.platform.platform_manager",
        lambda m: m.PlatformRegistry.get("cpu"),
    ),
    ProcessProbe(
        "FSDP2 engine on cpu",
        "verl.workers.engine.fsdp.transformer_impl",
        lambda m: "cpu" in m.EngineRegistry._engines["language_model"]["fsdp2"],
    ),
    ProcessProbe(
        "process group on cpu",
        "verl.utils.distributed",
        lambda m: hasattr(m.initialize_global_process_group_ray, "__wrapped__"),
    ),
)
"""On the CPU platform."""


def look_around(where: str) -> list[Check]:
    """All checks of this process.

    Args:
        where: name of the process in the report.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # verl names every engine that is not installed
        importlib.import_module("verl")
        loaded = PLUGIN in sys.modules
        probes = (*PROBES, *CPU_PROBES) if on_cpu_platform() else PROBES
        checks = [_versions(), *map(_try, probes)]
        # second in the report, but after the probes: it may load the plugin, which they look for
        checks.insert(1, _plugin(loaded))
    return [replace(check, where=where) for check in checks]


def _versions() -> Check:
    versions = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    if verl_is_tested():
        return Check("versions", "ok", f"{versions} (tested: verl {TESTED_VERL})")
    fix = f'tested with verl {TESTED_VERL}: pip install "verl[verl-core]{TESTED_VERL}"'
    return Check("versions", "failed", versions, fix)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def _plugin(loaded: bool) -> Check:
    """Check that verl loaded the plugin."""
    policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto")
    setting = f"VERL_USE_EXTERNAL_PLUGINS={policy}"
    if loaded:
        return Check("plugin", "ok", f"loaded by verl ({setting})")
    points = [e for e in entry_points(group="verl.plugins") if e.value == PLUGIN]
    if not points:
        return Check(
            "plugin",
            "failed",
            "no entry point in the group verl.plugins",
            "pip install rltf-verl here, or set VERL_USE_EXTERNAL_MODULES=rltf_verl.plugin",
        )
    allowed = {word.strip() for word in policy.strip().lower().split(",")}
    if "auto" not in allowed and points[0].name not in allowed:
        return Check(
            "plugin",
            "failed",
            f"{setting} keeps verl from loading us",
            f"unset VERL_USE_EXTERNAL_PLUGINS, or add {points[0].name} to it",
        )
    try:
        points[0].load()
    except Exception as error:  # whatever it is, verl hides it
        return Check(
            "plugin", "failed", f"verl could not load it: {described(error)}", "fix that error"
        )
    return Check(
        "plugin",
        "failed",
        "installed, but verl did not load it",
        "start a new process after installing",
    )


def _try(probe: ProcessProbe) -> Check:
    fix = "see the lines `plugin` and `versions`"
    try:
        holds = probe.holds(importlib.import_module(probe.module))
    except Exception as error:  # registries raise what they like
        return Check(probe.name, "failed", described(error), fix)
    if not holds:
        return Check(probe.name, "failed", f"not in {probe.module}", fix)
    return Check(probe.name, "ok", "")
