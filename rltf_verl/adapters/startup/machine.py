"""Whether this machine can do what the config asks of it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from functools import partial

from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.cpu import ROLLOUT_NAME, bf16
from rltf_verl.adapters.cpu.vllm import trouble_of
from rltf_verl.config import ConfigError
from rltf_verl.envs.base import Env, NeedsMachine
from rltf_verl.judge.client import require_packages
from rltf_verl.judge.gateway import Judge
from rltf_verl.judge.settings import SettingError
from rltf_verl.objectives.teacher import uses_lora

ENGINES = ("vllm", "sglang")
"""Rollout engines of verl that are packages of their own, of that name."""
FLASH = ("flash_attn", "kernels")
"""Packages with FlashAttention 2: its own, or the one that fetches it from the hub."""


def is_here(config: DictConfig) -> bool:
    """Whether the run's processes will be this machine's, and not those of a cluster that runs."""
    cluster = os.environ.get("RAY_ADDRESS") or OmegaConf.select(
        config, "ray_kwargs.ray_init.address"
    )
    return not cluster


def check_platform(config: DictConfig) -> None:
    """Without an accelerator both VERL_PLATFORM=cpu and the hardware group `cpu` are needed; say
    which is missing.
    """
    from verl.utils.device import get_device_name, get_torch_device

    # main_ppo may already have replaced trainer.device by the platform's; the rollout's name stays.
    cpu_config = (
        config.trainer.device == "cpu" or config.actor_rollout_ref.rollout.name == ROLLOUT_NAME
    )
    cpu_platform = get_device_name() == "cpu"
    if cpu_config and not cpu_platform:
        raise ConfigError(
            f"rltf/hardware=cpu but VERL_PLATFORM={os.environ.get('VERL_PLATFORM', '')!r}: verl"
            " would look for a GPU; start with VERL_PLATFORM=cpu in the environment"
        )
    if cpu_platform and not cpu_config:
        raise ConfigError(
            f"VERL_PLATFORM=cpu but trainer.device={config.trainer.device}: add rltf/hardware=cpu"
            " to the command line"
        )
    trouble = trouble_of(config.actor_rollout_ref.rollout) if cpu_platform else None
    if cpu_platform and trouble is None:
        trouble = bf16.trouble_of(config)
    if trouble is not None:
        raise ConfigError(trouble)
    for works, message in cpu_combinations(config) if cpu_platform else []:
        if not works:
            raise ConfigError(message)
    if not cpu_platform and is_here(config) and not get_torch_device().is_available():
        raise ConfigError(
            "no accelerator on this machine and VERL_PLATFORM is not set: to train on the CPU start"
            " with VERL_PLATFORM=cpu and rltf/hardware=cpu; to join a running GPU cluster set"
            " RAY_ADDRESS"
        )


def cpu_combinations(config: DictConfig) -> list[tuple[bool, str]]:
    """(it works, what to say when it does not) for settings that need an accelerator."""
    on_cpu = config.trainer.device == "cpu"
    lora = uses_lora(partial(OmegaConf.select, config))
    return [
        (
            not on_cpu or not config.actor_rollout_ref.actor.use_kl_loss or lora,
            (
                "actor_rollout_ref.actor.use_kl_loss=True: verl moves the reference model to pinned"
                " memory, which needs an accelerator; on a CPU set it to False, or train a LoRA"
                " adapter, whose reference is the model without it"
            ),
        )
    ]


def check_devices(config: DictConfig) -> None:
    """Raise ConfigError if this machine lacks devices, the engine or FlashAttention, which Ray
    would notice late.
    """
    from verl.utils.device import get_device_name, get_torch_device

    if not is_here(config) or get_device_name() == "cpu" or not get_torch_device().is_available():
        return
    wanted, found = int(config.trainer.n_gpus_per_node), int(get_torch_device().device_count())
    if config.trainer.nnodes == 1 and wanted > found:
        raise ConfigError(
            f"trainer.n_gpus_per_node={wanted}: this machine has {found}; set it to {found}, or set"
            " RAY_ADDRESS to join a running cluster"
        )
    name = str(config.actor_rollout_ref.rollout.name)
    if name in ENGINES and importlib.util.find_spec(name) is None:
        raise ConfigError(
            f"actor_rollout_ref.rollout.name={name}: {name} is not installed; pip install {name},"
            f" or choose another of {', '.join(ENGINES)}"
        )
    if get_device_name() == "cuda":
        _require_flash_attention(config.actor_rollout_ref)


def _require_flash_attention(config: DictConfig) -> None:
    """verl's FSDP engine loads models with it, unless the config names another attention."""
    key = "model.override_config.attn_implementation"
    if not str(config.actor.strategy).startswith("fsdp"):
        return
    if OmegaConf.select(config, key, default="flash_attention_2") != "flash_attention_2":
        return
    if not any(importlib.util.find_spec(name) for name in FLASH):
        raise ConfigError(
            "flash-attn is not installed, with which verl loads the model; pip install"
            f" --no-build-isolation 'verl[fsdp]', or set +actor_rollout_ref.{key}=sdpa"
        )


def check_machine(env: Env) -> None:
    """Raise ConfigError if the environment cannot grade on this machine (workers elsewhere are not
    asked).
    """
    trouble = env.trouble() if isinstance(env, NeedsMachine) else None
    if trouble is not None:
        raise ConfigError(trouble)


def check_judges(judges: Sequence[Judge]) -> None:
    """Raise ConfigError if a judge's key or the packages that ask it are missing here, where the
    trainer runs.
    """
    if judges:
        require_packages()
    for judge in judges:
        _require_key(judge)


def _require_key(judge: Judge) -> None:
    try:
        judge.settings.endpoint.api_key()
    except SettingError as error:
        raise ConfigError(str(error.under(judge.block))) from None
