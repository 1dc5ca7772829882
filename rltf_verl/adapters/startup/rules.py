"""Rules about settings of verl and ours that do not go together: one row each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.compat import ENGINES_WITH_SEEDS, finds_adapter_under_fsdp1
from rltf_verl.adapters.registered import POLICY_LOSSES
from rltf_verl.config import RLTFConfig
from rltf_verl.feedback import has_trait
from rltf_verl.findings import ConfigError, Finding, Rule, findings
from rltf_verl.kinds import name_of
from rltf_verl.objectives.teacher import uses_lora

Setting = Callable[[str], Any]
"""`a.b.c` -> value in the whole config; None where a block is missing."""

ACTOR, ROLLOUT, MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "model"))
MODE, N = "trainer.v1.trainer_mode", f"{ROLLOUT}.n"
MINI_BATCH, SYNCS = f"{ACTOR}.ppo_mini_batch_size", "trainer.v1.separate_async.parameter_sync_step"
WORKERS = f"{ROLLOUT}.agent.num_workers"
MANAGER = "rltf_verl.adapters.rollout.agent_worker.RLTFAgentLoopManager"
TRAINER_MODES = ("rltf_sync", "rltf_colocate_async", "rltf_separate_async")

TOKEN_SUM_LOSSES = (
    *("vanilla", "dppo_tv", "dppo_kl", "gspo", "gpg", "clip_cov", "kl_cov", "dro", "cispo"),
    *POLICY_LOSSES,
)
"""Registered policy losses that are a sum over tokens with `loss_agg_mode=token-sum`: a row adds
its own loss.
"""

TOKEN_SUM_MARK = "rltf_token_sum"
"""Attribute of a user's policy loss that is such a sum: `my_loss.rltf_token_sum = True`."""

_GRADES = "the environment grades, so nothing would read it"
_REWARD_ENV = _GRADES, "add rltf/env=reward_function, which grades with it"
_WRITE_ENV = _GRADES, "set it to null and write an environment (docs/environments.md)"
_MODEL_ENV = _GRADES, "set it to False; for a model that grades use rltf/env=writing"
_SANDBOX = _GRADES, "set it to null and use rltf.env.sandbox=sandbox_fusion with rltf.env.url"
_NO_TOOLS = (
    "the agent loop rltf plays the tools of an environment with steps",
    "set it to null, and rltf.env.name to an environment that has `tools` and `step`",
)

USELESS: dict[str, tuple[str, str]] = {
    "custom_reward_function.path": _REWARD_ENV,
    "reward.custom_reward_function.path": _REWARD_ENV,
    "reward.custom_reward_function.module": _WRITE_ENV,
    "reward.reward_manager.module.path": _WRITE_ENV,
    "reward_model.enable": _MODEL_ENV,
    "reward.reward_model.enable": _MODEL_ENV,
    "sandbox_fusion.url": _SANDBOX,
    "reward.sandbox_fusion.url": _SANDBOX,
    "critic.enable": ("a value model would be trained and not used", "set it to False"),
    "trainer.critic_warmup": ("there is no value model", "set it to 0"),
    "algorithm.use_pf_ppo": ("rows are not resampled", "set it to False"),
    "distillation.enabled": (
        "verl's teacher distillation does not know our rows",
        "set it to False",
    ),
    "algorithm.use_kl_in_reward": (
        "not supported with per-turn rewards",
        f"use {ACTOR}.use_kl_loss",
    ),
    "algorithm.filter_groups.enable": (
        "verl filters by the reward of single rows, and groups that GRPO learns nothing from may"
        " train other objectives",
        "set it to False and rltf.refill_rounds to the most rounds of further problems",
    ),
    "algorithm.rollout_correction.bypass_mode": (
        "old log-probs would be the sampler's, which for distillation rows belong to another"
        " prompt",
        "set it to False",
    ),
    f"{ACTOR}.loss_scale_factor": (
        "every role is divided by one constant, episodes x data.max_response_length",
        "set it to null",
    ),
    f"{ROLLOUT}.ignore_eos": ("no answer would ever end", "set it to False"),
    f"{ROLLOUT}.enable_rollout_routing_replay": (
        "the rows do not carry the experts' routes",
        "set it to False",
    ),
    f"{ROLLOUT}.multi_turn.enable": (
        "the agent loop rltf plays its own turns",
        "set it to False and rltf.episode.horizon",
    ),
    f"{ROLLOUT}.multi_turn.tool_config_path": _NO_TOOLS,
    f"{ROLLOUT}.multi_turn.function_tool_path": _NO_TOOLS,
    f"{ROLLOUT}.agent.agent_loop_config_path": (
        "every row is played by the agent loop rltf",
        "set it to null",
    ),
}
"""Settings of verl that ask for something that would not happen: why, and the fix. Refused unless
empty or off.
"""

_TURNS = "rltf.episode.horizon is the number of turns"
IGNORED: dict[str, tuple[tuple[Any, ...], str]] = {
    "algorithm.gamma": ((1.0,), "rltf.gamma is the discount per turn"),
    "algorithm.lam": ((1.0,), "there is no value model to bootstrap from"),
    "algorithm.norm_adv_by_std_in_grpo": (
        (False,),
        "rltf.attempt.norm_by_std divides by the standard deviation",
    ),
    "reward.reward_manager.name": (("naive",), "the environment grades"),
    "reward_model.reward_manager": ((), "the environment grades"),
    "reward.reward_kwargs": ((), "the environment grades, and rltf.reward.* shapes"),
    "data.truncation": (("error",), "a question is never cut; rltf counts what is too long"),
    "data.reward_fn_key": (("data_source",), "the environment grades"),
    f"{ROLLOUT}.agent.default_agent_loop": (
        ("rltf", "single_turn_agent"),
        "every row is played by rltf",
    ),
    f"{ACTOR}.fsdp_config.dtype": (
        ("bfloat16",),
        "verl's FSDP engine computes in fsdp_config.mixed_precision.param_dtype",
    ),
    f"{ROLLOUT}.multi_turn.max_assistant_turns": ((), _TURNS),
    f"{ROLLOUT}.multi_turn.max_user_turns": ((), _TURNS),
    f"{ROLLOUT}.multi_turn.num_repeat_rollouts": ((), f"{N} is the number of episodes"),
}
"""Settings of verl without effect here: usual values, and the setting that counts."""


def _useless(key: str, why: str, fix: str) -> Rule[Setting]:
    return Rule(key, lambda get: get(key), why, fix)


def _ignored_setting(key: str, usual: tuple[Any, ...], instead: str) -> Rule[Setting]:
    why = "has no effect with an rltf: block"
    return Rule(key, lambda get: get(key) not in (None, *usual), why, instead, "warning")


def _asynchronous(get: Setting) -> bool:
    return str(get(MODE)).endswith("_async")


def _separate(get: Setting) -> bool:
    return str(get(MODE)).endswith("separate_async")


def _deadlocks(get: Setting) -> Any:
    """verl #7990, #7587: all calls of a replica share one pool, those that pause and resume it too
    (`RolloutReplica.max_concurrency`). A separate trainer continues with a batch more than the one
    that it trains on.
    """
    block, mode = ROLLOUT if _separate(get) else "trainer", str(get(MODE)).removeprefix("rltf_")
    gpus = (get(f"{block}.nnodes") or 0) * (get(f"{block}.n_gpus_per_node") or 0)
    pools = max(1, gpus // get(f"{ROLLOUT}.tensor_model_parallel_size"))
    pools *= max(1000, get(f"{ROLLOUT}.max_num_seqs") + 16)
    batches = (get(f"trainer.v1.{mode}.num_warmup_batches") or 0) + _separate(get)
    return batches * get("data.train_batch_size") * get(N) >= pools


def _is_trainer(mode: str) -> bool:
    """One of our trainers, or a subclass registered as `rltf_…`."""
    if mode in TRAINER_MODES:
        return True
    from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY  # takes seconds

    return mode.startswith("rltf_") and mode in TRAINER_REGISTRY


def _is_token_sum(name: str) -> bool:
    if name in TOKEN_SUM_LOSSES:
        return True
    from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY  # takes a second

    return getattr(POLICY_LOSS_REGISTRY.get(name), TOKEN_SUM_MARK, False) is True


def _too_short(get: Setting) -> bool:
    """The engine cuts answers silently; sglang keeps one token free."""
    needed = get(f"{ROLLOUT}.prompt_length") + get(f"{ROLLOUT}.response_length")
    limit = get(f"{ROLLOUT}.max_model_len")
    return limit is not None and limit < needed + (get(f"{ROLLOUT}.name") == "sglang")


def _plays_alone(get: Setting) -> bool:
    """True if a worker plays one problem: verl gives each the same share, the last one the rest."""
    size = get("data.train_batch_size")
    # Rounded up, as by `TensorDict.chunk`, by which verl hands problems to workers.
    share = -(-size // get(WORKERS))
    return share == 1 or size % share == 1


def _quotes_other_problems(get: Setting) -> bool:
    """A provider or the teacher reads texts of problems that are played at the same time."""
    teacher = (
        get("rltf.teacher.shuffled") or name_of(get("rltf.teacher.against")) == "other_problem"
    )
    return bool(teacher and get("rltf.logit_distill.weight")) or has_trait(
        "quotes_other_problems", get("rltf.feedback")
    )


QUOTES = (
    "rltf.feedback.provider={rltf.feedback.provider} or rltf.teacher needs the texts of another one"
)

VERL: tuple[Rule[Setting], ...] = (
    Rule(
        "trainer.use_v1",
        lambda get: not get("trainer.use_v1"),
        "the rltf trainers are V1 trainers",
        "set it to True",
    ),
    *(_useless(key, *row) for key, row in USELESS.items()),
    Rule(
        "algorithm.adv_estimator",
        lambda get: get("algorithm.adv_estimator") != "rltf",
        "the rltf trainers compute per-turn advantages",
        "set it to rltf",
    ),
    Rule(
        f"{ACTOR}.loss_agg_mode",
        lambda get: get(f"{ACTOR}.loss_agg_mode") != "token-sum",
        "every role is a token sum over one constant",
        "set it to token-sum",
    ),
    Rule(
        f"{ACTOR}.policy_loss.loss_mode",
        lambda get: not _is_token_sum(get(f"{ACTOR}.policy_loss.loss_mode") or "vanilla"),
        "not known to be a sum over tokens, so its weight next to other roles would depend on how"
        " rows are packed",
        f"choose one of {', '.join(TOKEN_SUM_LOSSES)}; for your own loss that is such a sum, set"
        f" {TOKEN_SUM_MARK}=True on the function",
    ),
    Rule(
        f"{ROLLOUT}.calculate_log_probs",
        lambda get: not get(f"{ROLLOUT}.calculate_log_probs"),
        "the rows carry the sampler's log-probs",
        "set it to True",
    ),
    Rule(
        MODE,
        lambda get: not _is_trainer(str(get(MODE))),
        "an rltf: block needs a trainer of ours",
        f"set it to one of {', '.join(TRAINER_MODES)}",
    ),
    Rule(
        f"{ROLLOUT}.agent.agent_loop_manager_class",
        lambda get: get(f"{ROLLOUT}.agent.agent_loop_manager_class") != MANAGER,
        "verl's workers do not play our episodes",
        f"set it to {MANAGER}",
    ),
    Rule(
        "data.prompt_key",
        lambda get: get("data.prompt_key") != "prompt",
        "the rows' questions are in the column prompt",
        "set it to prompt",
    ),
    Rule(
        f"{ROLLOUT}.prompt_length",
        lambda get: get(f"{ROLLOUT}.prompt_length") != get("data.max_prompt_length"),
        "differs from data.max_prompt_length",
        "set it to {data.max_prompt_length}",
    ),
    Rule(
        f"{ROLLOUT}.response_length",
        lambda get: get(f"{ROLLOUT}.response_length") != get("data.max_response_length"),
        "differs from data.max_response_length",
        "set it to {data.max_response_length}",
    ),
    Rule(
        f"{ROLLOUT}.max_model_len",
        _too_short,
        "shorter than data.max_prompt_length={data.max_prompt_length} +"
        " data.max_response_length={data.max_response_length}, so answers would be cut before their"
        " limit",
        "set it to null, or at least to prompt plus response length (sglang: one more)",
    ),
    Rule(
        f"{ROLLOUT}.nnodes",
        lambda get: (
            _separate(get) and not (get(f"{ROLLOUT}.nnodes") and get(f"{ROLLOUT}.n_gpus_per_node"))
        ),
        f"{MODE}={{{MODE}}} plays on its own devices",
        f"set it and {ROLLOUT}.n_gpus_per_node to at least 1",
    ),
    Rule(
        f"{ROLLOUT}.checkpoint_engine.backend",
        lambda get: _separate(get) and get(f"{ROLLOUT}.checkpoint_engine.backend") == "naive",
        f"cannot reach replicas in other processes, as {MODE}={{{MODE}}} needs",
        "set it to nccl, or to cpu with rltf/hardware=cpu",
    ),
    Rule(
        MINI_BATCH,
        lambda get: _separate(get) and get("data.train_batch_size") != get(SYNCS) * get(MINI_BATCH),
        f"{MODE}={{{MODE}}} makes {SYNCS}={{{SYNCS}}} updates of as many problems between two"
        " synchronisations",
        "set it to data.train_batch_size={data.train_batch_size} / parameter_sync_step",
    ),
    Rule(
        f"{ROLLOUT}.max_num_seqs",
        lambda get: _asynchronous(get) and _deadlocks(get),
        f"with {MODE}={{{MODE}}} and data.train_batch_size={{data.train_batch_size}} x {N}={{{N}}}"
        " episodes a replica has more than 1000 calls at once, and verl's call that pauses it would"
        " wait for ever",
        "set it to their number, or lower data.train_batch_size, or take more replicas",
    ),
    Rule(
        f"{MODEL}.lora.merge",
        lambda get: _separate(get) and uses_lora(get) and not get(f"{MODEL}.lora.merge"),
        f"with {MODE}={{{MODE}}} verl sends replicas the base weights without the adapter",
        "set it to True",
    ),
    Rule(
        f"{ACTOR}.strategy",
        lambda get: (
            get(f"{ACTOR}.strategy") == "fsdp"
            and uses_lora(get)
            and not get(f"{MODEL}.lora.merge")
            and not finds_adapter_under_fsdp1()
        ),
        "from version 0.21 on peft finds no adapter in a model under FSDP1, so the rollout would"
        " keep the first weights",
        "set it to fsdp2, or install 'peft<0.21'",
    ),
    Rule(
        f"{ACTOR}.use_kl_loss",
        lambda get: (
            get("trainer.device") == "cpu" and get(f"{ACTOR}.use_kl_loss") and not uses_lora(get)
        ),
        "verl moves the reference model to pinned memory, which needs an accelerator",
        "on a CPU set it to False, or train a LoRA adapter, whose reference is the model without"
        " it",
    ),
    *(_ignored_setting(key, *row) for key, row in IGNORED.items()),
    Rule(
        MINI_BATCH,
        lambda get: not _separate(get) and get(MINI_BATCH) != get("data.train_batch_size"),
        "has no effect with an rltf: block",
        "rltf.updates_per_batch is the number of updates per batch",
        "warning",
    ),
)
"""Settings of verl."""

RLTF: tuple[Rule[Setting], ...] = (
    Rule(
        MODE,
        lambda get: _quotes_other_problems(get) and _asynchronous(get),
        f"problems are played one by one, and {QUOTES}",
        "use rltf_sync",
    ),
    Rule(
        "data.train_batch_size",
        lambda get: _quotes_other_problems(get) and _plays_alone(get),
        f"with {WORKERS}={{{WORKERS}}} a worker plays one problem alone, and {QUOTES}",
        "set the batch to a multiple of twice the workers",
    ),
    Rule(
        "rltf.keep_best",
        lambda get: (
            get("rltf.keep_best")
            and not (
                get("trainer.test_freq") > 0
                and get("trainer.save_freq") > 0
                and get("trainer.test_freq") % get("trainer.save_freq") == 0
            )
        ),
        "a step can be kept if it is validated and saved, and trainer.test_freq={trainer.test_freq}"
        " is no multiple of trainer.save_freq={trainer.save_freq}",
        "set both to the same number of steps, or test_freq to a multiple of save_freq",
    ),
    Rule(
        f"{ACTOR}.checkpoint.async_save",
        lambda get: get("rltf.keep_best") and get(f"{ACTOR}.checkpoint.async_save"),
        "rltf.keep_best={rltf.keep_best} needs a checkpoint that is whole when its step is"
        " validated",
        "set it to False",
    ),
    Rule(
        "rltf.refill_rounds",
        lambda get: _quotes_other_problems(get) and get("rltf.refill_rounds"),
        f"further problems are played alone, and {QUOTES}",
        "set it to 0",
    ),
    Rule(
        N,
        lambda get: get("rltf.episode.pair_sessions") and get(N) % 2,
        "rltf.episode.pair_sessions=true needs an even number of episodes",
        "set it to an even number",
    ),
    Rule(
        "rltf.episode.pair_sessions",
        lambda get: get("rltf.episode.pair_sessions") and _asynchronous(get),
        f"with {MODE}={{{MODE}}} an interrupted first answer continues with new weights and need"
        " not be shared",
        "use rltf_sync, or set it to false",
    ),
    Rule(
        "rltf.episode.pair_sessions",
        lambda get: (
            get("rltf.episode.pair_sessions") and get(f"{ROLLOUT}.name") not in ENGINES_WITH_SEEDS
        ),
        "two episodes share a first answer by sharing its seed, which the engine"
        f" {{{ROLLOUT}.name}} does not take",
        f"use {' or '.join(ENGINES_WITH_SEEDS)}, or set it to false",
    ),
    Rule(
        "rltf.refill_rounds",
        lambda get: get("rltf.refill_rounds") and _asynchronous(get),
        f"with {MODE}={{{MODE}}} a batch is what is ready, and no round ever ends",
        "use rltf_sync, or set it to 0",
    ),
    Rule(
        "data.gen_batch_size",
        lambda get: get("rltf.refill_rounds") and get("data.gen_batch_size") not in (None, 1),
        "rltf.refill_rounds={rltf.refill_rounds} plays single further problems",
        "set it to null, or rltf.refill_rounds=0",
    ),
    Rule(
        "skip.rollout_tq.enable",
        lambda get: get("rltf.refill_rounds") and get("skip.rollout_tq.enable"),
        "a batch of rltf.refill_rounds={rltf.refill_rounds} is not what was recorded",
        "set it to False, or rltf.refill_rounds=0",
    ),
)
"""Settings of ours that only the whole config can judge."""


def rule_findings(
    config: DictConfig, level: str, rules: tuple[Rule[Setting], ...] = (*VERL, *RLTF)
) -> Iterator[Finding]:
    """The rows of a level that hold of a config."""
    setting: Setting = partial(OmegaConf.select, config)
    return findings((rule for rule in rules if rule.level == level), setting, config)


def rltf_of(config: DictConfig) -> RLTFConfig:
    """The `rltf:` block as it is written. Raises ConfigError."""
    if config.get("rltf") is None:
        raise ConfigError(
            "no `rltf:` block in the config: start from a config of this package, e.g."
            " --config-name=rltf_sd"
        )
    block: Any = OmegaConf.to_container(config.rltf, resolve=True)
    return RLTFConfig.from_mapping(block)
