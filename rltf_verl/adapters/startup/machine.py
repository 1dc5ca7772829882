"""Needs of a run that this machine must meet: devices, packages, an environment's programs."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

from omegaconf import DictConfig, OmegaConf
from ray._private.utils import get_num_cpus

from rltf_verl.adapters.compat import verl_version
from rltf_verl.findings import Finding
from rltf_verl.hardware import cpu_services

ENGINES = ("vllm", "sglang")
"""Rollout engines of verl that are packages of the same name."""
FLASH = ("flash_attn", "kernels")
"""Packages with FlashAttention 2: its own, or the one that fetches it from the hub."""
PRECISIONS = (
    "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype",
    "actor_rollout_ref.rollout.dtype",
)
"""Formats of numbers in the update and in the rollout; verl takes bf16 where none is named."""
LOGGER = "trainer.logger"
PACKAGES = {
    "wandb": "wandb",
    "tracking": "wandb",
    "trackio": "trackio",
    "mlflow": "mlflow",
    "swanlab": "swanlab",
    "clearml": "clearml",
    "tensorboard": "tensorboard",
}
"""Logger -> the package that it needs."""


def is_here(config: DictConfig) -> bool:
    """True if the run's processes start on this machine, False if a running cluster starts them."""
    cluster = os.environ.get("RAY_ADDRESS") or OmegaConf.select(
        config, "ray_kwargs.ray_init.address"
    )
    return not cluster


def lacks_accelerator(config: DictConfig) -> bool:
    """True if the run's processes would start on this machine and want an accelerator, which it has
    not.
    """
    from verl.utils.device import get_device_name, get_torch_device

    wanted = is_here(config) and get_device_name() != "cpu" and config.trainer.device != "cpu"
    return wanted and not get_torch_device().is_available()


def check_platform(config: DictConfig) -> Iterator[Finding]:
    """VERL_PLATFORM=cpu without the hardware group `cpu`, or the other way round; neither, and no
    accelerator.
    """
    from verl.utils.device import get_device_name

    # main_ppo may already have replaced trainer.device by the platform's; the backend stays.
    backend = config.actor_rollout_ref.rollout.checkpoint_engine.backend
    cpu_config = "cpu" in (config.trainer.device, backend)
    cpu_platform, platform = get_device_name() == "cpu", os.environ.get("VERL_PLATFORM", "")
    if cpu_config and not cpu_platform:
        why, fix = "verl would look for a GPU", "start with VERL_PLATFORM=cpu in the environment"
        yield Finding("rltf/hardware", "cpu", f"VERL_PLATFORM={platform!r}: {why}", fix)
    if cpu_platform and not cpu_config:
        yield Finding(
            "trainer.device",
            config.trainer.device,
            "VERL_PLATFORM=cpu",
            "add rltf/hardware=cpu to the command line",
        )
    startup = cpu_services() if cpu_platform else None
    trouble = startup.trouble_of(config.actor_rollout_ref.rollout) if startup else None
    if trouble is not None:
        yield Finding("", None, trouble, "")
    if lacks_accelerator(config):
        yield Finding(
            "VERL_PLATFORM",
            platform,
            "no accelerator on this machine",
            "to train on the CPU start with VERL_PLATFORM=cpu and rltf/hardware=cpu; to join a"
            " running GPU cluster set RAY_ADDRESS=auto",
        )


def check_devices(config: DictConfig) -> Iterator[Finding]:
    """Devices, the engine or FlashAttention that this machine lacks: Ray would notice late."""
    from verl.utils.device import get_device_name, get_torch_device

    if not is_here(config) or get_device_name() == "cpu" or not get_torch_device().is_available():
        return
    wanted, num = int(config.trainer.n_gpus_per_node), int(get_torch_device().device_count())
    if config.trainer.nnodes == 1 and wanted > num:
        yield Finding(
            "trainer.n_gpus_per_node",
            wanted,
            f"this machine has {num}",
            f"set it to {num}, or set RAY_ADDRESS to join a running cluster",
        )
    name = str(config.actor_rollout_ref.rollout.name)
    if name in ENGINES and importlib.util.find_spec(name) is None:
        yield Finding(
            "actor_rollout_ref.rollout.name",
            name,
            f"{name} is not installed",
            f"pip install 'verl[{name}]=={verl_version()}', or choose another of"
            f" {', '.join(ENGINES)}",
        )
    if get_device_name() == "cuda":
        yield from _lacks_flash_attention(config.actor_rollout_ref)
        yield from _lacks_bf16(config)


def check_cpus(config: DictConfig) -> Iterator[Finding]:
    """Fewer CPUs than Ray would wait for without end (verl #7656).

    A unit of the queue and its controller claim one each, a GPU of verl's pools
    `max_colocate_count`. All other actors claim one only while they start.
    """
    key, rollout = "ray_kwargs.ray_init.num_cpus", config.actor_rollout_ref.rollout
    needed = config.transfer_queue.backend.SimpleStorage.num_data_storage_units + 1
    # verl's count is 3 for the trainer's pools (single_controller/ray/base.py), 2 for a replica's
    # own (replica.py); any other actor needs one while it starts
    needed += 3 * config.trainer.nnodes * config.trainer.n_gpus_per_node + 1
    if str(config.trainer.v1.trainer_mode).endswith("separate_async"):
        needed += 2 * rollout.nnodes * rollout.n_gpus_per_node
    there = OmegaConf.select(config, key) or get_num_cpus()
    if is_here(config) and there < needed:
        yield Finding(
            key,
            OmegaConf.select(config, key),
            f"actors claim {needed} CPUs, Ray counts {there}, and the run would wait for ever",
            f"set it to {needed}: a number of places, which may be more than there are CPUs",
        )


def _lacks_flash_attention(config: DictConfig) -> Iterator[Finding]:
    """verl's FSDP engine loads models with it, unless the config names another attention."""
    key = "model.override_config.attn_implementation"
    if not str(config.actor.strategy).startswith("fsdp"):
        return
    if OmegaConf.select(config, key, default="flash_attention_2") != "flash_attention_2":
        return
    if not any(importlib.util.find_spec(name) for name in FLASH):
        yield Finding(
            f"actor_rollout_ref.{key}",
            "flash_attention_2",
            "flash-attn is not installed",
            f"pip install --no-build-isolation 'verl[fsdp]', or set +actor_rollout_ref.{key}=sdpa",
        )


def _lacks_bf16(config: DictConfig) -> Iterator[Finding]:
    """A card before Ampere computes bf16 by detours, many times slower."""
    from verl.utils.device import get_torch_device

    card = get_torch_device()
    if card.is_bf16_supported(including_emulation=False):
        return
    for key in PRECISIONS:
        value = OmegaConf.select(config, key) or "bf16"
        if value in ("bf16", "bfloat16"):
            yield Finding(
                key,
                value,
                f"{card.get_device_name()} has no bf16",
                "add rltf/hardware=gpu_small_fp16",
            )


def loggers_of(config: DictConfig) -> list[str]:
    """Names in `trainer.logger`, a name or a list."""
    named = config.trainer.logger
    return [named] if isinstance(named, str) else [str(name) for name in named]


def check_loggers(config: DictConfig) -> Iterator[Finding]:
    """Loggers that are unknown or not installed: verl opens them in Ray, after the model is loaded.
    Packages are not looked for where the run's processes are another machine's.
    """
    from verl.utils.tracking import Tracking

    names = loggers_of(config)
    value, other = f"[{','.join(names)}]", f"set {LOGGER}=[console,file]"
    choices = [*Tracking.supported_backend, "tracking"]
    for name in names:
        if name not in choices:
            yield Finding(
                LOGGER, value, f"verl has no logger {name}", f"choose of {', '.join(choices)}"
            )
        package = PACKAGES.get(name)
        if is_here(config) and package and importlib.util.find_spec(package) is None:
            yield Finding(
                LOGGER,
                value,
                f"the package {package} is not installed",
                f"pip install {package}, or {other}",
            )
