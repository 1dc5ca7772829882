"""Every private or undocumented name of verl that this package depends on, checked before Ray
starts.

Nothing of verl is edited on disk. The contract test resolves the same table.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from functools import cache, reduce
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

from rltf_verl.adapters.compat import TESTED_VERL, verl_version
from rltf_verl.findings import Finding

Kind = Literal["overridden", "patched", "used"]


class Seam(NamedTuple):
    """Names in one place of verl (or of a package that it brings)."""

    place: str
    """`module`, or `module:Class`."""
    names: tuple[str, ...]
    kind: Kind
    where: str
    """Our file, in `adapters` or next to it."""
    why: str


_V1 = "verl.trainer.ppo.v1"
_LOOPS = "verl.experimental.agent_loop.agent_loop"
_ENGINE = "verl.workers.engine.fsdp.transformer_impl"

SEAMS = (
    Seam(
        f"{_V1}.trainer_base:PPOTrainer",
        ("_init_dataloader", "_init_resource_pool_mgr", "_setup"),
        "overridden",
        "training/trainer.py",
        "check prompts, let workers keep weights, install our loss",
    ),
    Seam(
        f"{_V1}.trainer_base:PPOTrainer",
        ("_load_checkpoint", "_save_checkpoint", "fit", "_shutdown_dump_executor"),
        "overridden",
        "training/trainer.py",
        "stamp, episode log, watchdog",
    ),
    Seam(
        f"{_V1}.trainer_base:PPOTrainer",
        ("_compute_advantage", "_update_actor"),
        "overridden",
        "training/trainer.py",
        "advantages by role, one update over all rows",
    ),
    Seam(
        f"{_V1}.trainer_base:PPOTrainer",
        (
            "_next_train_batch",
            "_get_required_batch_multiple",
            "_compute_old_log_prob",
            "_compute_ref_log_prob",
        ),
        "overridden",
        "training/trainer.py",
        "numbers of draws, padding, fewer columns",
    ),
    Seam(
        f"{_V1}.trainer_base:PPOTrainer",
        ("_val_metrics_update", "_maybe_log_val_generations"),
        "overridden",
        "training/trainer.py",
        "metrics per turn, whole episodes in the table",
    ),
    Seam(
        f"{_V1}.trainer_base:PPOTrainer",
        ("on_validate_begin", "on_train_begin"),
        "overridden",
        "training/trainer.py",
        "our line a step is a backend of verl's `Tracking`",
    ),
    Seam(
        f"{_V1}.trainer_base",
        ("pprint", "tqdm"),
        "patched",
        "console.py",
        "no dict of metrics and no progress bar; `trainer.logger` without `console`",
    ),
    Seam(
        "verl.trainer.main_ppo",
        ("TaskRunnerV1", "pprint"),
        "patched",
        "driver.py",
        "the config is in `config.yaml`, not in a thousand lines of the log",
    ),
    Seam(
        f"{_V1}.trainer_base",
        ("RayWorkerGroup",),
        "patched",
        "compat.py",
        "a port for the ranks' meeting that no other process takes before they bind it",
    ),
    Seam(
        "ray._private.state",
        ("actors",),
        "used",
        "driver.py",
        "which process died, for the last line of a failed run",
    ),
    Seam(
        "ray._private.utils",
        ("get_num_cpus",),
        "used",
        "startup/machine.py",
        "how many CPUs Ray would count, in a container too",
    ),
    Seam(
        f"{_V1}.trainer_base:PPOTrainer",
        ("_add_prompts_to_generate", "_balance_batch", "role_worker_mapping"),
        "used",
        "training/trainer.py",
        "refill, spread rows over ranks, choose the worker's class",
    ),
    Seam(
        f"{_V1}.replay_buffer:ReplayBuffer",
        ("sample", "poll_interval", "_wait_for_next_poll"),
        "patched",
        "training/trainer.py",
        "`rltf.refill_rounds`, shorter polls, watchdog",
    ),
    Seam(
        "verl.single_controller.base.worker_group:WorkerGroup",
        ("_dispatch_info",),
        "used",
        "training/trainer.py",
        "number of data-parallel ranks",
    ),
    Seam(
        "verl.workers.engine_workers:ActorRolloutRefWorker",
        ("actor_worker_cls",),
        "patched",
        "training/kept_weights.py",
        "a worker that keeps weights for the teacher",
    ),
    Seam(
        "verl.workers.engine_workers:TrainingWorker",
        ("reset", "train_mini_batch", "infer_batch", "save_checkpoint", "load_checkpoint"),
        "overridden",
        "training/kept_weights.py",
        "make, move, use and save those weights",
    ),
    Seam(
        f"{_V1}.agent_loop_tq:AgentLoopWorkerTQ",
        ("generate_sequences", "_agent_loop_postprocess"),
        "overridden",
        "rollout/agent_worker.py",
        "groups that play together; fewer columns in the queue",
    ),
    Seam(
        f"{_LOOPS}:AgentLoopWorker",
        ("_run_agent_loop",),
        "overridden",
        "rollout/agent_worker.py",
        "what episodes of a worker share; lost episodes",
    ),
    Seam(
        f"{_V1}.agent_loop_tq",
        ("tq", "list_of_dict_to_tensordict"),
        "patched",
        "rollout/agent_worker.py",
        "one put for many episodes",
    ),
    Seam(
        _LOOPS,
        ("hydra", "_agent_loop_registry"),
        "patched",
        "rollout/agent_worker.py",
        "one loop per worker; the name `rltf`",
    ),
    Seam(
        "verl.experimental.agent_loop.tool_parser:ToolParser",
        ("_registry",),
        "used",
        "startup/values.py",
        "names of tool parsers",
    ),
    Seam(
        f"{_LOOPS}:AgentLoopOutput",
        ("as_dict",),
        "overridden",
        "rollout/agent_loop.py",
        "rows keep their own rewards",
    ),
    Seam(
        "verl.workers.rollout.llm_server:LLMServerClient",
        ("generate", "_acquire_server", "_release_server"),
        "overridden",
        "rollout/llm_client.py",
        "fresh random numbers after an interruption; one server is asked for once",
    ),
    Seam(
        "transfer_queue.interface",
        ("_TQ_STORAGE",),
        "used",
        "training/watchdog.py",
        "storage units that must live",
    ),
    Seam(
        "verl.utils.config",
        ("validate_config",),
        "patched",
        "hook.py",
        "the only call before `ray.init` that can refuse a config; with an `rltf:` block",
    ),
    Seam(
        "verl.workers.engine.base:EngineRegistry",
        ("_engines",),
        "used",
        "cpu/hooks.py",
        "register the CPU's engine once",
    ),
    Seam(
        f"{_ENGINE}:FSDPEngine",
        (
            "_build_module",
            "_build_model_optimizer",
            "forward_backward_batch",
            "_gradient_sync_context",
            "_autocast_dtype",
        ),
        "overridden",
        "cpu/actor/engine.py",
        "shared prefixes, no whole logits, on a CPU",
    ),
    Seam(
        "verl.workers.rollout.base",
        ("_ROLLOUT_REGISTRY",),
        "used",
        "sampler/hooks.py",
        "the trainer's side of the rollout `transformers`",
    ),
    Seam(
        "verl.workers.rollout.replica:RolloutReplica",
        ("launch_servers", "_server_handle", "_server_address"),
        "overridden",
        "sampler/adapter.py",
        "start the server of the rollout `transformers`",
    ),
    Seam(
        "verl.utils.distributed",
        ("initialize_global_process_group", "initialize_global_process_group_ray"),
        "patched",
        "cpu/hooks.py",
        "torch refuses `cpu:gloo,cpu:gloo`; on a CPU",
    ),
    Seam(
        "verl.utils.fsdp_utils",
        (
            "fsdp2_sharded_save_to_cpu",
            "fsdp2_sharded_load_from_cpu",
            "fsdp1_sharded_load_from_cpu",
            "get_torch_device",
        ),
        "patched",
        "compat.py",
        "`.cpu()` makes no copy of a weight on the CPU, offloading may not have ended, and FSDP1"
        " computes with weights that it has gathered before",
    ),
    Seam(
        "verl.utils.torch_functional",
        ("logprobs_from_logits_v2",),
        "patched",
        "compat.py",
        "without flash-attn: a loop over tokens, in the type of the logits",
    ),
)

DEFINED = re.compile(
    r"^[ \t]*(?:(?:async )?def |class |(?:self\.)?(?=\w+\s*[:=,])|(?:from .+ )?import (.*))(\w*)",
    re.MULTILINE,
)
"""`def name`, `class name`, `name = …`, `self.name: … = …`, `import … as name`, or `name,` of an
import over several lines, at the start of a line.
"""


def seam_findings() -> Iterator[Finding]:
    """A finding for each name that the installed verl lacks."""
    for seam in SEAMS:
        for name in seam.names:
            if not (_in_source(seam.place, name) or _can_be_imported(seam.place, name)):
                yield Finding(
                    "verl",
                    verl_version(),
                    f"has no {seam.place.replace(':', '.')}.{name}, which"
                    f" rltf_verl/adapters/{seam.where} needs ({seam.why})",
                    f"install verl {TESTED_VERL}, the tested versions",
                )


def _in_source(place: str, name: str) -> bool:
    """True if the module's text defines the name: importing verl's trainer takes a second."""
    package, *parts = place.partition(":")[0].split(".")
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    if not folders:
        return False
    return name in _names_in(Path(folders[0]).joinpath(*parts).with_suffix(".py"))


@cache
def _names_in(file: Path) -> set[str]:
    found = DEFINED.findall(file.read_text("utf-8")) if file.is_file() else []
    # One of each pair is empty.
    return set(re.findall(r"\w+", " ".join(map("".join, found))))


def _can_be_imported(place: str, name: str) -> bool:
    """True if the name is there after all, inherited or made at run time."""
    module, _, owner = place.partition(":")
    try:
        # module.Class.name, or module.name where no class is named.
        reduce(getattr, [*filter(None, [owner]), name], importlib.import_module(module))
    except (ImportError, AttributeError):
        return False
    return True
