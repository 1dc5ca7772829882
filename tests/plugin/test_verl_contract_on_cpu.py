"""Every private or undocumented thing of verl that we lean on. A failure here means: verl has
changed.
"""

import importlib
import inspect
import json
import socket
from functools import reduce
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import pytest
import verl.trainer.ppo.v1  # noqa: F401  # imports our trainers when it is done
from omegaconf import OmegaConf
from verl.single_controller.ray.base import RayWorkerGroup, get_master_addr_port
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.trainer.ppo.v1.trainer_base import PPOTrainer, get_trainer_cls
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from rltf_verl.adapters import seams
from rltf_verl.adapters.compat import TESTED_VERL, meet_at_free_ports
from rltf_verl.adapters.seams import SEAMS, seam_findings
from rltf_verl.adapters.startup.checks import start_findings
from rltf_verl.adapters.startup.values import KNOWN, _registered
from rltf_verl.adapters.training.step import EVICTED_GROUPS
from rltf_verl.adapters.training.trainer import RLTFTrainerMixin
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.jsonl import read_lines
from rltf_verl.sampler import ROLLOUT_NAME
from rltf_verl.tools.compose.overrides import has_value_model
from tests.support.configs import composed

ADAPTERS = Path(seams.__file__).parent

# Parameters of what we call, override or replace; None: only the name matters.
PARAMETERS = {
    "verl.checkpoint_engine.base": {
        "CheckpointEngine.build_topology": "actor_wg_world_size rollout_world_size metadata",
        "CheckpointEngine.receive_weights": "self global_steps",
        "CheckpointEngine.send_weights": "self weights global_steps",
        "CheckpointEngineRegistry.register": "backend",
        "CheckpointEngineWorker.execute_checkpoint_engine": None,
    },
    "verl.experimental.agent_loop.agent_loop": {
        "AgentLoopOutput.as_dict": "self",
        "AgentLoopWorker._run_agent_loop": (
            "self sampling_params trajectory agent_name trace kwargs"
        ),
    },
    "verl.plugin.platform.platform_manager": {
        "PlatformRegistry.get": "name",
        "PlatformRegistry.register": "platform",
    },
    "verl.trainer.ppo.core_algos": {
        "agg_loss": None,
        "register_adv_est": "name_or_enum",
        "register_policy_loss": "name",
    },
    "verl.trainer.ppo.v1": {"register_trainer": "name"},
    "verl.trainer.ppo.v1.agent_loop_tq": {"AgentLoopWorkerTQ.generate_sequences": "self batch"},
    "verl.trainer.ppo.v1.replay_buffer": {
        "ReplayBuffer._wait_for_next_poll": "self partition_id last_debug_time",
        "ReplayBuffer.sample": "self global_steps partition_id batch_size",
    },
    "verl.trainer.ppo.v1.trainer_base": {"PPOTrainer._add_prompts_to_generate": "self num_prompts"},
    "ray._private.state": {"actors": "actor_id job_id actor_state_name"},
    "ray._private.utils": {"get_num_cpus": None},
    "verl.utils.tracking": {"Tracking.log": "self data step backend"},
    "verl.utils.config": {"validate_config": "config use_reference_policy use_critic"},
    "verl.utils.distributed": {
        "initialize_global_process_group": "timeout_second",
        "initialize_global_process_group_ray": "timeout_second backend",
    },
    "verl.utils.fsdp_utils": {
        "fsdp2_sharded_save_to_cpu": "model",
        "fsdp2_sharded_load_from_cpu": "model cpu_sharded_state target_spec",
        "fsdp1_sharded_load_from_cpu": "model cpu_sharded_state",
        "get_torch_device": "",
    },
    "verl.workers.config.rollout": {"AgentLoopConfig.agent_loop_manager_class": None},
    "verl.workers.engine.base": {"EngineRegistry.register": "model_type backend device vendor"},
    "verl.workers.engine.fsdp.transformer_impl": {
        "FSDPEngineWithLMHead._build_module": "self",
        "FSDPEngineWithLMHead._build_model_optimizer": "self",
        "FSDPEngineWithLMHead._gradient_sync_context": "self is_last_micro_batch",
        "FSDPEngineWithLMHead.forward_backward_batch": "self data loss_function forward_only",
    },
    "verl.workers.engine_workers": {
        "TrainingWorker.reset": "self",
        "TrainingWorker.train_mini_batch": "self data",
        "TrainingWorker.infer_batch": "self data",
    },
    "verl.workers.rollout.llm_server": {
        "FullyAsyncLLMServerClient": None,
        "LLMServerClient._acquire_server": "self request_id extra",
        "LLMServerClient._release_server": "self server_id request_id",
        "LLMServerManager.get_client": "self client_cls kwargs",
    },
    "verl.workers.rollout.replica": {
        "RolloutReplica.launch_servers": "self",
        "RolloutReplicaRegistry.register": "name loader",
    },
    "verl.workers.rollout.utils": {"ensure_async_iterator": "iterable"},
}

TRAINER = "verl.trainer.ppo.v1.trainer_base:PPOTrainer"

# Methods of verl's trainers that our mixin overrides.
OVERRIDDEN = {
    "_init_dataloader": "self",
    "_init_resource_pool_mgr": "self",
    "_next_train_batch": "self num_prompts",
    "_setup": "self",
    "_load_checkpoint": "self",
    "_save_checkpoint": "self",
    "fit": "self agent_loop_manager",
    "on_validate_begin": "self",
    "on_train_begin": "self",
    "_get_required_batch_multiple": "self dp_size",
    "_compute_old_log_prob": "self batch metrics",
    "_compute_ref_log_prob": "self batch metrics",
    "_compute_advantage": "self batch metrics",
    "_update_actor": "self batch metrics",
    "_shutdown_dump_executor": "self",
    "_maybe_log_val_generations": "self inputs outputs scores",
    "_val_metrics_update": (
        "self data_sources sample_uids reward_extra_infos_dict sample_turns expected_acc_counts"
    ),
}

# Keys of verl's own config that our checks and our trainer read.
KEYS = [
    "algorithm.adv_estimator",
    "algorithm.filter_groups.enable",
    "algorithm.rollout_correction.bypass_mode",
    "algorithm.use_kl_in_reward",
    "data.max_prompt_length",
    "data.max_response_length",
    "data.train_batch_size",
    "skip.rollout_tq.enable",
    "data.train_files",
    "data.val_files",
    "trainer.critic_warmup",
    "trainer.default_local_dir",
    "trainer.device",
    "trainer.experiment_name",
    "trainer.log_val_generations",
    "trainer.logger",
    "trainer.project_name",
    "trainer.test_freq",
    "trainer.total_training_steps",
    "trainer.val_only",
    "actor_rollout_ref.rollout.full_determinism",
    "trainer.resume_from_path",
    "trainer.resume_mode",
    "data.prompt_key",
    "data.seed",
    "trainer.use_v1",
    "trainer.v1.trainer_mode",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units",
    *(
        f"actor_rollout_ref.actor.{key}"
        for key in (
            "calculate_entropy",
            "data_loader_seed",
            "entropy_coeff",
            "fsdp_config.pad_to_length",
            "fsdp_config.ulysses_sequence_parallel_size",
            "loss_agg_mode",
            "policy_loss.loss_mode",
            "ppo_epochs",
            "ppo_micro_batch_size_per_gpu",
            "ppo_mini_batch_size",
            "shuffle",
            "strategy",
            "ulysses_sequence_parallel_size",
            "use_dynamic_bsz",
            "use_fused_kernels",
            "use_kl_loss",
        )
    ),
    "trainer.v1.separate_async.parameter_sync_step",
    *(
        f"actor_rollout_ref.model.{key}"
        for key in (
            "lora.merge",
            "lora.rank",
            "lora_adapter_path",
            "lora_rank",
            "use_fused_kernels",
        )
    ),
    *(
        f"actor_rollout_ref.rollout.{key}"
        for key in (
            "agent.default_agent_loop",
            "calculate_log_probs",
            "checkpoint_engine.backend",
            "checkpoint_engine.update_weights_bucket_megabytes",
            "log_prob_micro_batch_size_per_gpu",
            "n_gpus_per_node",
            "name",
            "nnodes",
            "prompt_length",
            "temperature",
        )
    ),
]


_V1, _ENGINES = "verl.trainer.ppo.v1", "verl.workers.engine_workers:ActorRolloutRefWorker"
_INFER = "verl.workers.engine_workers:TrainingWorker.infer_batch"
_FSDP = "verl.workers.engine.fsdp.transformer_impl:FSDPEngineWithLMHead"
_BUFFER = f"{_V1}.replay_buffer"
_LOGITS = "logits_processor_func(student_logits=logits_rmpad.unsqueeze(0), data=micro_batch)"
_CLIENT = "get_client(client_cls=FullyAsyncLLMServerClient)"

# Lines of verl that we rely on, in this order: where, what.
SOURCES = [
    # our stamp lies in the checkpoint; a resumed run goes on with the problems after further ones
    (
        f"{TRAINER}._save_checkpoint",
        'self.config.trainer.default_local_dir, f"global_step_{self.global_steps}"',
    ),
    (f"{TRAINER}._save_checkpoint", "self.train_dataloader.state_dict()"),
    # rows are spread over as many ranks as we count
    (
        f"{TRAINER}._balance_batch",
        "(self, batch: KVBatchMeta, metrics",
        'role, worker_group = "actor", self.actor_rollout_wg',
        "worker_group._dispatch_info[role] = dp_rank_mapping",
    ),
    (
        f"{TRAINER}._balance_batch",
        "dp_size = max(dp_rank_mapping) + 1",
        "self._get_required_batch_multiple(dp_size)",
    ),
    # workers read the columns that a batch names
    (
        "verl.utils.transferqueue_utils:async_kv_batch_meta2batch_meta",
        "fields = meta.fields",
        "batch_meta.select_fields(fields)",
    ),
    (
        f"{_V1}.agent_loop_tq:AgentLoopManagerTQ.__init__",
        "self.agent_loop_workers_class = AgentLoopWorkerTQ",
    ),
    # every request of an engine has an id of its own
    (
        "verl.workers.rollout.llm_server:LLMServerClient._vllm_request_id",
        '"full_determinism", False): return request_id return uuid4().hex',
    ),
    # a worker makes our loop once
    (
        "verl.experimental.agent_loop.agent_loop:AgentLoopWorker._run_agent_loop",
        "agent_loop_config = _agent_loop_registry[agent_name]",
        "hydra.utils.instantiate( config=agent_loop_config,",
    ),
    # CPUs that a run claims, calls of a replica (`startup/machine.py`, `startup/rules.py`)
    (
        "verl.single_controller.ray.base:RayResourcePool",
        'bundle = {"CPU": self.max_colocate_count}',
    ),
    ("verl.single_controller.ray.base:ResourcePoolManager", "max_colocate_count: int = 3"),
    ("verl.workers.rollout.replica:RolloutReplica.init_standalone", "max_colocate_count=2"),
    (
        "verl.workers.rollout.replica:RolloutReplica",
        "max(1000, self.config.max_num_seqs + CONTROL_METHOD_CONCURRENCY)",
    ),
    # torch refuses `cpu:gloo,cpu:gloo`; when this fails, drop or adapt `hooks.patch_process_group`
    (
        "verl.utils.distributed:initialize_global_process_group_ray",
        'backend = backend or f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"',
    ),
    (
        "verl.utils.distributed:initialize_global_process_group",
        'backend = f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"',
        "return local_rank, rank, world_size",
    ),
    # `step.poll_interval`; the watchdog polls these actors before each pause
    (f"{_BUFFER}:ReplayBuffer", "poll_interval: float = 2.0", "time.sleep(self.poll_interval)"),
    (f"{_BUFFER}:ReplayBuffer.sample", "self._wait_for_next_poll("),
    (f"{_BUFFER}:ReplayBufferAsync.wait_for_sampleable", "self._wait_for_next_poll("),
    (
        "verl.experimental.agent_loop.agent_loop:AgentLoopManager",
        "self.agent_loop_workers = []",
    ),
    ("transfer_queue.interface:close", 'key == "SimpleStorage"'),
    # `adapters.training.live_groups` plays further problems while the replicas are awake
    (f"{TRAINER}._step_once", "self.replay_buffer.sample(", "self.on_sample_end()"),
    (f"{_BUFFER}:ReplayBuffer.sample", "raise RuntimeError(message)"),
    (
        f"{_BUFFER}:ReplayBuffer._evict_terminal_groups",
        EVICTED_GROUPS.removeprefix("training"),
    ),
    (f"{TRAINER}._init_dataloader", 'self.config.data.get("gen_batch_size", None)'),
    # the loss function gets logits, packed and padded, then the outputs that it adds to
    (f"{_FSDP}.prepare_model_outputs", _LOGITS, _LOGITS),
    (
        f"{_FSDP}.forward_step",
        "logits_processor_func=loss_function",
        "model_output=model_output, data=micro_batch, dp_group",
        "detach_tree(model_output)",
    ),
    # forward passes of the teacher
    (_INFER, 'key="compute_loss", default=True'),
    (_INFER, 'key="disable_auto_offload", default=False'),
    (_INFER, 'key="no_lora_adapter", default=False'),
    # kept weights
    (
        f"{_ENGINES}.init_model",
        "self.actor = self.actor_worker_cls(config=actor_training_config)",
    ),
    (f"{_ENGINES}.init_model", "self.actor.reset()", "self.actor.set_loss_fn("),
    (
        f"{TRAINER}._init_resource_pool_mgr",
        "self.role_worker_mapping[role] = ray.remote(ActorRolloutRefWorker)",
    ),
    (f"{_ENGINES}.save_checkpoint", "self.actor.save_checkpoint(local_path, hdfs_path"),
    (f"{_ENGINES}.load_checkpoint", "self.actor.load_checkpoint(local_path, hdfs_path"),
    # an adapter reaches the rollout after its base; with replicas of their own its config is lost
    (
        f"{_ENGINES}.update_weights",
        "per_tensor_param, _ = self.actor.engine.get_per_tensor_param()",
    ),
    (
        f"{_ENGINES}.update_weights",
        "per_tensor_param_base, peft_config=_base_peft_config, base_sync_done=False",
        "per_tensor_param, peft_config=peft_config, base_sync_done=True",
    ),
    # imported when it is called, after our hook
    (
        "verl.experimental.separation.engine_workers:DetachActorWorker._get_strategy_handlers",
        "from verl.utils.fsdp_utils import",
        "fsdp2_sharded_load_from_cpu",
        "fsdp2_sharded_save_to_cpu",
    ),
    # offloaded weights are saved as they are, maybe before they have arrived
    ("verl.utils.fsdp_utils:fsdp2_sharded_save_to_cpu", "local_gpu_tensor.detach().cpu()"),
    ("verl.utils.fsdp_utils:offload_fsdp2_model_to_cpu", 'model.to("cpu", non_blocking=True)'),
    # log-probs without flash-attn: token by token where rows are packed
    (
        "verl.utils.torch_functional:logprobs_from_logits_v2",
        "for row_logits, row_labels in zip(logits, labels, strict=True)",
    ),
    ("verl.utils.torch_functional:logprobs_from_logits", "logprobs_from_logits_v2(logits, labels)"),
    # π_old between the updates of a cycle
    (
        f"{_V1}.trainer_separate_async:PPOTrainerSeparateAsync._compute_old_log_prob",
        "save_model_to_cpu(self.local_trigger_step)",
        "restore_model_from_cpu(0)",
        "restore_model_from_cpu(self.local_trigger_step)",
    ),
    # the clients of the asynchronous modes
    (
        f"{_V1}.trainer_colocate_async:PPOTrainerColocateAsync.get_llm_client",
        f"self.llm_server_manager.{_CLIENT}",
    ),
    (
        f"{_V1}.trainer_separate_async:PPOTrainerSeparateAsync.get_llm_client",
        f"self.standalone_server_manager.{_CLIENT}",
    ),
    (
        "verl.workers.rollout.llm_server:FullyAsyncLLMServerClient.generate",
        "output = await super().generate(",
    ),
    # metrics: opened in `fit`, after the checkpoint is loaded, and erased
    (f"{TRAINER}._setup", "self._load_checkpoint()"),
    (f"{TRAINER}.fit", "self.logger = Tracking("),
    ("verl.utils.tracking:FileLogger.__init__", 'open(self.filepath, "wb"'),
]


@pytest.mark.parametrize("row", SOURCES, ids=lambda row: f"{row[0].rpartition(':')[2]} {row[1]}")
def test_verl_does_what_we_rely_on(row: tuple[str, ...]) -> None:
    where, *lines = row
    source = " ".join(inspect.getsource(inspect.unwrap(resolve(*where.split(":")))).split())
    for line in lines:
        assert line in source
        source = source.partition(line)[2]


def resolve(module: str, path: str):
    return reduce(getattr, path.split("."), importlib.import_module(module))


def parameters_of(function) -> str:
    """Without those that Ray adds to an actor's methods."""
    names = inspect.signature(inspect.unwrap(function)).parameters
    return " ".join(name for name in names if not name.startswith("_ray"))


@pytest.mark.parametrize("module", PARAMETERS)
def test_functions_that_we_call_or_replace_have_their_parameters(module: str) -> None:
    for path, parameters in PARAMETERS[module].items():
        there = resolve(module, path)
        assert parameters is None or parameters_of(there) == parameters, path


def test_every_seam_is_there() -> None:
    assert list(seam_findings()) == []
    folders = (ADAPTERS, ADAPTERS.parent)
    assert all(any((at / seam.where).is_file() for at in folders) for seam in SEAMS)


def test_every_seam_is_in_a_source_so_that_a_plan_imports_none() -> None:
    names = [(seam.place, name) for seam in SEAMS for name in seam.names]
    assert [each for each in names if not seams._in_source(*each)] == []


def test_choices_that_need_no_registry_are_registered() -> None:
    registered, optional = _registered(), {"megatron", "veomni", "torchtitan", "automodel"}
    for key, names in registered.items():
        assert set(KNOWN[key]) - optional - {ROLLOUT_NAME} <= set(names), key
    assert registered.keys() < KNOWN.keys()


@pytest.mark.parametrize("estimator", ["gae", "grpo"])
@pytest.mark.parametrize("enabled", [None, True, False])
def test_a_run_of_verl_has_a_value_model_where_verl_says_so(estimator, enabled) -> None:
    theirs = {"critic": {"enable": enabled}, "algorithm": {"adv_estimator": estimator}}
    config = OmegaConf.create(theirs)
    assert has_value_model(config) == need_critic(config)


@pytest.mark.parametrize("kl", ["true", "false"])
def test_a_run_of_ours_has_the_models_that_its_plan_lets_verl_check(kl) -> None:
    config = composed("rltf_sd", f"actor_rollout_ref.actor.use_kl_loss={kl}")
    assert need_critic(config) is config.critic.enable is False
    assert need_reference_policy(config) is config.actor_rollout_ref.actor.use_kl_loss


def test_every_override_of_the_trainer_is_a_seam() -> None:
    ours = {
        name
        for name, function in vars(RLTFTrainerMixin).items()
        if inspect.isfunction(function) and hasattr(PPOTrainerSync, name)
    }
    listed = [s.names for s in SEAMS if (s.place, s.kind) == (TRAINER, "overridden")]
    assert ours - {"__init__"} == set(OVERRIDDEN) == set(chain.from_iterable(listed))


def test_a_method_that_verl_renamed_refuses_the_run_before_ray(monkeypatch) -> None:
    """The first of the refusals, which a run and `rltf plan` read alike."""
    monkeypatch.setattr(seams, "_in_source", lambda _, name: name != "_compute_advantage")
    monkeypatch.delattr(PPOTrainer, "_compute_advantage")
    (finding,) = seam_findings()
    assert (finding.key, finding.value) == ("verl", version("verl"))
    assert "PPOTrainer._compute_advantage" in finding.why
    assert str(TESTED_VERL) in finding.fix
    assert str(next(start_findings(composed("rltf_sd"), DryRun()))) == str(finding)


def test_the_queue_ignores_a_column_that_no_row_has() -> None:
    """A run without a reference has none of it."""
    from transfer_queue.metadata import BatchMeta

    row = BatchMeta(global_indexes=[0], partition_ids=["train"], field_schema={"a": {}, "b": {}})
    assert row.select_fields(["a", "ref_log_prob"]).field_names == ["a"]


def test_verl_still_reduces_metrics_by_a_substring_of_their_name() -> None:
    """Hence the rule of `adapters.metrics` about names."""
    from verl.trainer.ppo.v1.utils import MetricsAggregator
    from verl.utils.metric import reduce_metrics

    assert reduce_metrics({"a/early_termination": [1.0, 0.0, 1.0]}) == {"a/early_termination": 0.0}
    assert MetricsAggregator()._get_aggregation_type("a/assumed_ok") == "sum"


def test_a_forward_pass_takes_a_batch_that_is_not_in_the_transfer_queue() -> None:
    """`adapters.training.teacher` hands its rows to `compute_log_prob` directly."""
    from tensordict import TensorDict
    from verl.protocol import BatchData

    assert TensorDict in BatchData._CHUNKABLE_TYPES
    assert TensorDict in BatchData._CONCATABLE_TYPES


def test_ranks_meet_at_a_port_that_the_kernel_gives_to_nobody() -> None:
    module = SimpleNamespace(RayWorkerGroup=RayWorkerGroup)
    meet_at_free_ports(module)
    ports = module.RayWorkerGroup(worker_names=[], worker_handles=[])._ray_master_port_range
    look = get_master_addr_port._function
    with socket.socket() as taken:
        taken.bind(("", ports[0]))
        _, port = look(ports)
    assert 20_000 <= ports[0] < int(port) < ports[1] < 32_768


def test_verl_still_has_the_config_keys_that_we_read() -> None:
    """One that is gone is a KeyError."""
    config = OmegaConf.to_container(composed("ppo_trainer"))
    for key in KEYS:
        reduce(dict.__getitem__, key.split("."), config)


@pytest.mark.parametrize("mode", ["sync", "colocate_async", "separate_async"])
def test_every_mode_of_verl_has_our_mixin_in_front(mode: str) -> None:
    theirs, ours = get_trainer_cls(mode), get_trainer_cls(f"rltf_{mode}")
    assert ours.__bases__ == (RLTFTrainerMixin, theirs)
    assert ours.verl_mode == mode
    for method, parameters in OVERRIDDEN.items():
        assert parameters_of(getattr(theirs, method)) == parameters


@pytest.mark.parametrize(
    "variables", [{}, {"VERL_FILE_LOGGER_ROOT": "logs"}, {"VERL_FILE_LOGGER_PATH": "metrics.jsonl"}]
)
def test_the_file_of_a_resumed_run_has_each_step_once(variables, tmp_path, monkeypatch) -> None:
    """Four processes: one is killed in step 4, before the metrics of step 3 were logged; one before
    it logs anything; one resumes at step 3 and validates; one validates the checkpoint of step 2.
    """
    from verl.utils.tracking import Tracking

    from rltf_verl.adapters.training.run_files import (
        METRICS,
        continue_metrics,
        keep_earlier_metrics,
    )

    monkeypatch.chdir(tmp_path)
    for name in ("ROOT", "PATH"):
        monkeypatch.delenv(f"VERL_FILE_LOGGER_{name}", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (tmp_path / METRICS).write_text(json.dumps({"trained": 3.0}))
    trainer = {"logger": ["file"], "project_name": "sums", "experiment_name": "sd"}
    resumed = {"resume_from_path": str(tmp_path), "val_only": False}
    config = OmegaConf.create({"trainer": trainer | resumed})

    def process(resumed_at: int, **logged: dict[str, float]) -> Path:
        if resumed_at:
            keep_earlier_metrics(config)
        tracking = Tracking("sums", "sd", default_backend="file")
        for step, data in logged.items():
            for _ in range(2):  # verl's hooks of validation and training
                continue_metrics(config, tracking.logger, resumed_at)
            tracking.log(data, int(step[1:]))
        tracking.logger["file"].finish()
        return next(p for p in tmp_path.rglob("*.jsonl") if p.name in ("sd.jsonl", "metrics.jsonl"))

    process(0, _0={"val": 0.0}, _1={"trained": 1.0}, _2={"trained": 2.0})
    process(3)
    path = process(3, _3={"val": 0.5}, _4={"trained": 4.0}, _5={"trained": 5.0})
    whole = [
        {"step": 0, "data": {"val": 0.0}},
        {"step": 1, "data": {"trained": 1.0}},
        {"step": 2, "data": {"trained": 2.0}},
        {"step": 3, "data": {"trained": 3.0, "val": 0.5}},
        {"step": 4, "data": {"trained": 4.0}},
        {"step": 5, "data": {"trained": 5.0}},
    ]
    assert list(read_lines(path)) == whole
    config.trainer.val_only = True
    process(2, _2={"val": 0.25})
    whole.append({"step": 2, "data": {"val": 0.25}})
    assert list(read_lines(path)) == whole, "it took nothing back"
    assert [p.name for p in path.parent.iterdir() if "earlier" in p.name] == []


@pytest.mark.parametrize(
    "module", ["transfer_queue.controller", "transfer_queue.storage.simple_storage"]
)
def test_actors_of_the_queue_claim_a_cpu(module: str) -> None:
    """`startup/machine.py` counts them."""
    assert inspect.getsource(importlib.import_module(module)).count("@ray.remote(num_cpus=1)") == 1
