"""Values of verl's settings that no run can mean; verl reads most of them in a worker."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
VERLS_DEFAULTS = "_generated_ppo_trainer.yaml"
"""verl's own flattened config; says of each key what kind of value it takes."""

OPTIONAL_ENGINES = ("megatron", "veomni", "torchtitan", "automodel")
"""verl registers them only where their packages are, which may be on the cluster only."""

COUNTS = (
    "data.train_batch_size",
    "data.gen_batch_size",
    "data.val_batch_size",
    "data.max_prompt_length",
    "data.max_response_length",
    f"{ROLLOUT}.n",
    f"{ROLLOUT}.val_kwargs.n",
    f"{ROLLOUT}.tensor_model_parallel_size",
    f"{ACTOR}.ppo_epochs",
    f"{ACTOR}.ppo_max_token_len_per_gpu",
    "trainer.total_epochs",
    "trainer.total_training_steps",
    "trainer.nnodes",
    "trainer.n_gpus_per_node",
)
"""Whole numbers from 1 on; null where verl's default is null."""

RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "actor_rollout_ref.model.lora_rank": (lambda x: x >= 0, "at least 0"),
    f"{ACTOR}.optim.lr": (lambda x: 0 <= x < float("inf"), "a finite number, at least 0"),
    f"{ACTOR}.grad_clip": (lambda x: x > 0, "above 0, or every gradient becomes 0"),
    f"{ACTOR}.clip_ratio": (lambda x: x >= 0, "at least 0"),
    f"{ROLLOUT}.temperature": (lambda x: 0 <= x < float("inf"), "a finite number, at least 0"),
    f"{ROLLOUT}.top_p": (lambda x: 0 < x <= 1, "above 0 and at most 1"),
    f"{ROLLOUT}.val_kwargs.top_p": (lambda x: 0 < x <= 1, "above 0 and at most 1"),
}
"""Key -> what its number must be."""


def wrong_values(config: DictConfig) -> Iterator[str]:
    """A line for every value that verl would choke on later, or take without a word."""
    wrong = set()
    for key, kind, value in _given("", config, _kinds()):
        if not _is(kind, value):
            wrong.add(key)
            yield f"{key}={value}: must be {kind}"
    for key in COUNTS:
        value = OmegaConf.select(config, key)
        if key not in wrong and value is not None and not (_whole(value) and value >= 1):
            yield f"{key}={value}: must be a whole number, at least 1"
    for key, (holds, what) in RANGES.items():
        value = OmegaConf.select(config, key)
        if key not in wrong and value is not None and not (_is(NUMBER, value) and holds(value)):
            yield f"{key}={value}: must be {what}"
    for key, known in _choices().items():
        value = OmegaConf.select(config, key)
        if value is not None and str(value) not in known:
            yield f"{key}={value}: not known here; choose one of {', '.join(sorted(known))}"
    yield from _wrong_paths(config)
    yield from too_few_devices(config)


def _wrong_paths(config: DictConfig) -> Iterator[str]:
    path = OmegaConf.select(config, "data.custom_cls.path")
    if path and "://" not in str(path) and not Path(str(path)).expanduser().is_file():
        yield f"data.custom_cls.path={path}: no such file, seen from {Path.cwd()}"
    if OmegaConf.select(config, "trainer.resume_mode") != "resume_path":
        return
    folder = OmegaConf.select(config, "trainer.resume_from_path")
    if "global_step_" not in str(folder) or not Path(str(folder)).is_dir():
        yield (
            f"trainer.resume_from_path={folder}: no folder of a checkpoint, seen from {Path.cwd()};"
            " name one global_step_…, or set trainer.resume_mode=auto"
        )


def too_few_devices(config: DictConfig) -> Iterator[str]:
    """verl starts devices // devices of a replica replicas: none, and waits for them."""
    apart = str(config.trainer.v1.trainer_mode).endswith("separate_async")
    block = "actor_rollout_ref.rollout" if apart else "trainer"
    sizes = [OmegaConf.select(config, f"{block}.{key}") for key in ("nnodes", "n_gpus_per_node")]
    tensor = OmegaConf.select(config, f"{ROLLOUT}.tensor_model_parallel_size")
    if all(_whole(size) and size >= 1 for size in (*sizes, tensor)):
        devices = sizes[0] * sizes[1]
        if devices % tensor:
            yield (
                f"{ROLLOUT}.tensor_model_parallel_size={tensor} does not divide the run's number"
                f" of devices, {devices} ({block}.nnodes x n_gpus_per_node); set it to 1, or to a"
                " divisor"
            )


SWITCH, NUMBER = "true or false", "a number"


def _is(kind: str, value: Any) -> bool:
    if kind == SWITCH:
        return isinstance(value, bool)
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@cache
def _kinds() -> Mapping[str, Any]:
    """Block -> key -> kind, of verl's switches and numbers; what it leaves open (null, text) is
    left out.
    """
    tree = OmegaConf.create(files("verl.trainer.config").joinpath(VERLS_DEFAULTS).read_text())
    kinds: Mapping[str, Any] = _kind(OmegaConf.to_container(tree, resolve=False))
    return kinds


def _kind(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): kind for name, inner in value.items() if (kind := _kind(inner))}
    if isinstance(value, bool):
        return SWITCH
    return NUMBER if isinstance(value, (int, float)) else None


def _given(
    prefix: str, block: DictConfig, kinds: Mapping[str, Any]
) -> Iterator[tuple[str, str, Any]]:
    """(key, kind, value) of what the config sets."""
    for name, kind in kinds.items():
        value = block.get(name)
        if not isinstance(kind, str):
            if isinstance(value, DictConfig):
                yield from _given(f"{prefix}{name}.", value, kind)
        elif value is not None:
            yield f"{prefix}{name}", kind, value


def _choices() -> dict[str, set[str]]:
    """Key -> what may be chosen, our own and other plugins' registrations included."""
    from verl.workers.engine import EngineRegistry
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    return {
        "trainer.resume_mode": {"auto", "disable", "resume_path"},
        f"{ACTOR}.strategy": {*EngineRegistry._engines["language_model"], *OPTIONAL_ENGINES},
        f"{ROLLOUT}.name": set(RolloutReplicaRegistry._registry),
    }
