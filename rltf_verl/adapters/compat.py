"""The tested range of verl, and what its private parts require of us."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from types import ModuleType
from typing import Any

import wrapt
from omegaconf import DictConfig
from packaging.specifiers import SpecifierSet

TESTED_VERL = SpecifierSet(">=0.9.1,<0.10")

ENGINES_WITH_SEEDS = ("transformers", "vllm")
"""Rollout engines whose sampling parameters take a per-request `seed`."""


def verl_version() -> str:
    """The installed verl."""
    return version("verl")


def finds_adapter_under_fsdp1() -> bool:
    """True if the installed peft finds the weights of an adapter that verl 0.9.1 sends to the
    rollout. peft 0.21 looks for them by the names of modules, which FSDP1 changes.
    """
    return version("peft") in SpecifierSet("<0.21")


def verl_is_tested() -> bool:
    """True if the installed verl lies in the tested range."""
    return verl_version() in TESTED_VERL


def actor_class(remote_class: Any) -> type:
    """The class under a `@ray.remote` decorator, so that it can be subclassed.

    verl 0.9.1 decorates `AgentLoopWorkerTQ` itself (trainer/ppo/v1/agent_loop_tq.py); Ray keeps the
    plain class in the actor's metadata, under a subclass.
    """
    plain: type = remote_class.__ray_metadata__.modified_class
    name = remote_class.__ray_metadata__.class_name.split(".")[-1]
    return next(
        base
        for base in plain.__mro__
        if base.__name__ == name and base.__module__ == plain.__module__
    )


def meet_at_free_ports(trainer_base: Any) -> None:
    """Ranks meet at a port that no other process takes before they bind it.

    verl 0.9.1 (single_controller/ray/base.py) asks the kernel for a free port, closes it, and rank
    0 binds it when its process is up, seconds later; any process may have it by then. The kernel
    gives none below 32768, Ray's workers end at 19999. The start is drawn, not seeded: verl takes
    the first free port, and two runs with one seed may start together.
    """
    start = 20_000 + secrets.randbelow(12_000)
    trainer_base.RayWorkerGroup = partial(
        trainer_base.RayWorkerGroup, master_port_range=[start, start + 700]
    )


def reshard(module: Any) -> None:
    """Free the whole weights that FSDP's root keeps after a forward pass without gradients: its
    next pass would take them, whatever was written to the shards in between.
    """
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel

    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()
        elif isinstance(part, FullyShardedDataParallel):
            handle = part._handle
            if handle is not None and handle.uses_sharded_strategy:
                handle.reshard(True)


def wrap_once(module: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """Call `wrapper(original, …)` in the place of a function; idempotent."""
    if not hasattr(getattr(module, name), "__wrapped__"):
        wrapt.wrap_function_wrapper(module, name, wrapper)


def patch_model_copies(fsdp_utils: ModuleType) -> None:
    """Save FSDP2's weights by copying them, once their transfers have ended; let both versions of
    FSDP compute with the weights that were restored; idempotent.

    verl 0.9.1 saves with `.detach().cpu()`, which of a weight on the CPU is the weight itself.
    `separate_async` with several updates per synchronisation saves the current policy, restores
    π_old, computes its log-probs and restores the current one. With `param_offload` the saved
    weights become π_old too, and the update is lost; on a CPU π_old is never restored. verl's
    function for FSDP1 copies, but the next update computes with π_old's embeddings, last norm and
    output layer (`reshard`). Offloading is asynchronous (`offload_fsdp2_model_to_cpu`), so host
    code that reads or writes the weights waits for it first.
    """

    def save(original: Any, _: Any, args: Any, kwargs: Any) -> Any:
        fsdp_utils.get_torch_device().synchronize()
        shards, spec = original(*args, **kwargs)
        weights = dict((args[0] if args else kwargs["model"]).named_parameters())
        return {
            # `.cpu()` has copied those of a GPU already.
            name: (shard.clone() if weights[name].device.type == "cpu" else shard, layout)
            for name, (shard, layout) in shards.items()
        }, spec

    def restore(original: Any, _: Any, args: Any, kwargs: Any) -> None:
        fsdp_utils.get_torch_device().synchronize()
        reshard(args[0] if args else kwargs["model"])
        original(*args, **kwargs)

    wrap_once(fsdp_utils, "fsdp2_sharded_save_to_cpu", save)
    wrap_once(fsdp_utils, "fsdp2_sharded_load_from_cpu", restore)
    wrap_once(fsdp_utils, "fsdp1_sharded_load_from_cpu", restore)


def patch_log_probs(torch_functional: ModuleType) -> None:
    """Take log-probs of packed rows a chunk at a time (`algos.log_probs`); idempotent.

    verl 0.9.1 without flash-attn takes them token by token in Python, eleven operators each, and
    rounds those of bf16 logits to bf16.
    """
    from rltf_verl.algos.log_probs import label_log_probs

    def in_chunks(original: Any, _: Any, args: Any, kwargs: Any) -> Any:
        logits = args[0] if args else kwargs["logits"]
        # Rows that are not packed: verl's loop is over rows.
        return (label_log_probs if logits.dim() == 2 else original)(*args, **kwargs)

    wrap_once(torch_functional, "logprobs_from_logits_v2", in_chunks)


def required_batch_multiple(config: DictConfig, per_update: int) -> int:
    """The number of rows must be a multiple of this for verl's workers to split it.

    verl 0.9.1: `dispatch` needs equal shares per data-parallel rank; without dynamic batching,
    `workers/engine/utils.prepare_micro_batches` asserts whole micro-batches, in the update and in
    the forward passes.

    Args:
        config: the whole trainer config.
        per_update: data-parallel size × updates per batch.
    """
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    if actor.use_dynamic_bsz:
        return per_update
    sizes = [actor.ppo_micro_batch_size_per_gpu, rollout.log_prob_micro_batch_size_per_gpu]
    if actor.use_kl_loss:
        sizes.append(config.actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu)
    return per_update * math.lcm(*(int(size) for size in sizes if size))
