"""Every private or undocumented thing of verl that we lean on. A failure here means: verl has changed."""

import importlib
import inspect

import pytest
from omegaconf import OmegaConf

# module, dotted attribute, parameter names (None: not a function that we call or override)
SEAMS = [
    ("verl.experimental.agent_loop.agent_loop", "_agent_loop_registry", None),
    ("verl.experimental.agent_loop.agent_loop", "AgentLoopOutput.as_dict", ["self"]),
    ("verl.plugin.platform.platform_manager", "PlatformRegistry.get", ["name"]),
    ("verl.plugin.platform.platform_manager", "PlatformRegistry.register", ["platform"]),
    ("verl.trainer.ppo.core_algos", "agg_loss", None),
    ("verl.trainer.ppo.core_algos", "register_adv_est", ["name_or_enum"]),
    ("verl.trainer.ppo.core_algos", "register_policy_loss", ["name"]),
    ("verl.trainer.ppo.v1", "register_trainer", ["name"]),
    ("verl.utils.config", "validate_config", ["config", "use_reference_policy", "use_critic"]),
    ("verl.utils.distributed", "initialize_global_process_group_ray", ["timeout_second", "backend"]),
    ("verl.workers.engine.base", "EngineRegistry._engines", None),
    ("verl.workers.engine.base", "EngineRegistry.register", ["model_type", "backend", "device", "vendor"]),
    ("verl.workers.engine.fsdp.transformer_impl", "FSDPEngineWithLMHead", None),
    ("verl.workers.rollout.base", "_ROLLOUT_REGISTRY", None),
    ("verl.workers.rollout.replica", "RolloutReplicaRegistry.register", ["name", "loader"]),
    ("verl.workers.rollout.replica", "RolloutReplica.launch_servers", ["self"]),
    ("verl.workers.rollout.replica", "RolloutMode.STANDALONE", None),
]

# Methods of verl's sync trainer that our mixin overrides.
OVERRIDDEN = {
    "_init_dataloader": ["self"],
    "_setup": ["self"],
    "_load_checkpoint": ["self"],
    "_get_required_batch_multiple": ["self", "dp_size"],
    "_compute_old_log_prob": ["self", "batch", "metrics"],
    "_compute_advantage": ["self", "batch", "metrics"],
    "_update_actor": ["self", "batch", "metrics"],
}

# Keys of verl's own config that our checks and our trainer read.
KEYS = [
    "algorithm.adv_estimator", "algorithm.filter_groups.enable", "algorithm.rollout_correction.bypass_mode",
    "algorithm.use_kl_in_reward", "data.max_prompt_length", "data.max_response_length", "data.train_batch_size",
    "data.train_files", "data.val_files", "trainer.critic_warmup", "trainer.default_local_dir", "trainer.device",
    "trainer.use_v1", "trainer.v1.trainer_mode", "transfer_queue.backend.SimpleStorage.num_data_storage_units",
    *(f"actor_rollout_ref.actor.{key}" for key in (
        "calculate_entropy", "data_loader_seed", "entropy_coeff", "loss_agg_mode", "policy_loss.loss_mode",
        "ppo_epochs", "ppo_micro_batch_size_per_gpu", "shuffle", "use_dynamic_bsz", "use_kl_loss")),
    *(f"actor_rollout_ref.rollout.{key}" for key in (
        "agent.default_agent_loop", "calculate_log_probs",
        "checkpoint_engine.update_weights_bucket_megabytes", "log_prob_micro_batch_size_per_gpu", "name",
        "prompt_length", "temperature")),
]  # fmt: skip


def resolve(module: str, path: str):
    found = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


@pytest.mark.parametrize(("module", "path", "parameters"), SEAMS, ids=lambda v: v if isinstance(v, str) else "")
def test_seam(module: str, path: str, parameters: list[str] | None) -> None:
    found = resolve(module, path)
    if parameters is not None:
        assert list(inspect.signature(found).parameters) == parameters


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_the_trainer_has_the_methods_that_we_override(name: str) -> None:
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    from rltf_verl.adapters.trainer import RLTFTrainerMixin

    assert list(inspect.signature(getattr(PPOTrainerSync, name)).parameters) == OVERRIDDEN[name]
    assert name in vars(RLTFTrainerMixin)


def test_the_list_of_overrides_is_whole() -> None:
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    from rltf_verl.adapters.trainer import RLTFTrainerMixin

    ours = {n for n, f in vars(RLTFTrainerMixin).items() if inspect.isfunction(f) and hasattr(PPOTrainerSync, n)}
    assert ours - {"__init__"} == set(OVERRIDDEN)


def test_the_worker_class_under_the_ray_decorator() -> None:
    from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ
    from verl.workers.config.rollout import AgentLoopConfig

    from rltf_verl.adapters.compat import actor_class

    plain = actor_class(AgentLoopWorkerTQ)
    assert plain.__name__ == "AgentLoopWorkerTQ"
    assert plain.__module__ == "verl.trainer.ppo.v1.agent_loop_tq"
    run = [name for name in inspect.signature(plain._run_agent_loop).parameters if not name.startswith("_ray")]
    assert run == ["self", "sampling_params", "trajectory", "agent_name", "trace", "kwargs"]
    assert hasattr(AgentLoopConfig, "agent_loop_manager_class")
    assert "self.agent_loop_workers_class = AgentLoopWorkerTQ" in inspect.getsource(AgentLoopManagerTQ.__init__)


def test_verl_still_sleeps_between_looks_at_the_replay_buffer() -> None:
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

    assert inspect.signature(ReplayBuffer.__init__).parameters["poll_interval"].default == 2.0
    assert "time.sleep(self.poll_interval)" in inspect.getsource(ReplayBuffer)


def test_verl_still_has_the_config_keys_that_we_read() -> None:
    from hydra import compose, initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer")
    absent = object()
    lost = []
    for key in KEYS:
        parent, _, name = key.rpartition(".")
        block = OmegaConf.select(config, parent, default=absent)
        if block is absent or name not in block.keys():  # noqa: SIM118  (a mandatory value is not "in" its block)
            lost.append(key)
    assert lost == []
