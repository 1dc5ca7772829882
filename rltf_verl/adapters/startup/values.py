"""Values of verl's settings that no run can mean: kinds, choices, paths, counts. verl reads most of
them in a worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import yaml
from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.startup.rules import ACTOR, MODE, ROLLOUT
from rltf_verl.findings import Finding
from rltf_verl.kinds import Within, trouble
from rltf_verl.sampler import ROLLOUT_NAME

KNOWN = {
    "trainer.resume_mode": ("auto", "disable", "resume_path"),
    # But for FSDP, verl registers an engine only where its package is, which may be on the cluster.
    f"{ACTOR}.strategy": ("fsdp", "fsdp2", "megatron", "veomni", "torchtitan", "automodel"),
    f"{ROLLOUT}.name": ("vllm", "sglang", ROLLOUT_NAME),  # `check_platform`
    f"{ROLLOUT}.multi_turn.format": ("hermes",),
}
"""Key -> choices that need no registry."""

COUNT = Annotated[int, Within(1)]
COUNTS = (
    *(f"data.{name}" for name in ("train_batch_size", "max_prompt_length", "max_response_length")),
    *(
        f"trainer.{n}"
        for n in ("total_epochs", "total_training_steps", "nnodes", "n_gpus_per_node")
    ),
    *(f"{ROLLOUT}.{name}" for name in ("n", "val_kwargs.n", "tensor_model_parallel_size")),
    f"{ACTOR}.ppo_epochs",
)
"""verl's keys that the checks and `rltf plan` count with: at least 1, or null. Ranges of its other
numbers are left to verl.
"""


def wrong_values(config: DictConfig) -> Iterator[Finding]:
    """Values that verl would fail on later, or take silently."""
    kinds: dict[str, Any] = dict(_kinds("", _defaults())) | dict.fromkeys(COUNTS, COUNT)
    for key, kind in kinds.items():
        value = OmegaConf.select(config, key)
        fix = None if value is None else trouble(value, kind)
        if fix is not None:
            yield Finding(key, value, "", fix)
    for key, known in KNOWN.items():
        value = OmegaConf.select(config, key)
        if value is None or str(value) in known:
            continue
        choices = {*known, *_registered().get(key, ())}
        if str(value) not in choices:
            yield Finding(
                key, value, "not known here", f"choose one of {', '.join(sorted(choices))}"
            )
    yield from _wrong_paths(config)
    yield from too_few_devices(config)


def _wrong_paths(config: DictConfig) -> Iterator[Finding]:
    key = "data.custom_cls.path"
    path = OmegaConf.select(config, key)
    if path and "://" not in str(path) and not Path(str(path)).expanduser().is_file():
        yield Finding(key, path, f"no such file, seen from {Path.cwd()}", "correct the path")
    if OmegaConf.select(config, "trainer.resume_mode") != "resume_path":
        return
    key = "trainer.resume_from_path"
    folder = OmegaConf.select(config, key)
    if "global_step_" not in str(folder) or not Path(str(folder)).is_dir():
        yield Finding(
            key,
            folder,
            f"no folder of a checkpoint, seen from {Path.cwd()}",
            "name one global_step_…, or set trainer.resume_mode=auto",
        )


def too_few_devices(config: DictConfig) -> Iterator[Finding]:
    """verl starts devices // tensor_model_parallel_size replicas: none, and waits for them."""
    apart = str(OmegaConf.select(config, MODE)).endswith("separate_async")
    block, key = ROLLOUT if apart else "trainer", f"{ROLLOUT}.tensor_model_parallel_size"
    keys = (f"{block}.nnodes", f"{block}.n_gpus_per_node", key)
    nodes, devices, size = (OmegaConf.select(config, name) for name in keys)
    if any(trouble(number, COUNT) for number in (nodes, devices, size)):
        return
    # more devices a replica than there are leave a remainder too
    if nodes * devices % size:
        yield Finding(
            key,
            size,
            f"does not divide the run's number of devices, {nodes * devices} ({block}.nnodes x"
            " n_gpus_per_node)",
            "set it to 1, or to a divisor",
        )


@cache
def _defaults() -> Any:
    """verl's own flattened config, which shows the kind of each key's value."""
    text = files("verl.trainer.config").joinpath("_generated_ppo_trainer.yaml").read_text()
    # An interpolation stays a text, and `_kinds` leaves texts open. OmegaConf reads in Python, ten
    # times slower than libyaml.
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _kinds(block: str, defaults: Mapping[str, Any]) -> Iterator[tuple[str, type]]:
    """Keys of verl's switches and numbers, and their kinds. Null and text are open."""
    for name, value in defaults.items():
        key = f"{block}{name}"
        if isinstance(value, Mapping):
            yield from _kinds(f"{key}.", value)
        elif isinstance(value, bool | int | float):
            yield key, bool if isinstance(value, bool) else float


def _registered() -> dict[str, Iterable[str]]:
    """Choices of verl and of other plugins; the modules that register them take a second."""
    from verl.experimental.agent_loop.tool_parser import ToolParser
    from verl.workers.engine import EngineRegistry
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    return {
        f"{ACTOR}.strategy": EngineRegistry._engines["language_model"],
        f"{ROLLOUT}.name": RolloutReplicaRegistry._registry,
        f"{ROLLOUT}.multi_turn.format": ToolParser._registry,
    }
