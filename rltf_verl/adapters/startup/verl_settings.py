"""Settings of verl that cannot work with the rltf trainers, or that they do not read."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf
from verl.trainer.ppo import core_algos

from rltf_verl.adapters.training.registered import POLICY_LOSSES

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
MANAGER = "rltf_verl.adapters.rollout.agent_worker.RLTFAgentLoopManager"
TRAINER_MODES = ("rltf_sync", "rltf_colocate_async", "rltf_separate_async")
GRADES = "the environment grades, so nothing would read it; "

TOKEN_SUM_LOSSES = (
    "vanilla",
    "dppo_tv",
    "dppo_kl",
    "gspo",
    "gpg",
    "clip_cov",
    "kl_cov",
    "dro",
    "cispo",
    *POLICY_LOSSES,
)
"""Registered policy losses that are a sum over tokens with `loss_agg_mode=token-sum`: a row adds
its own loss.
"""

TOKEN_SUM_MARK = "rltf_token_sum"
"""A policy loss of your own says so with an attribute of this name:
`my_loss.rltf_token_sum = True`.
"""

USELESS: dict[str, str] = {
    "custom_reward_function.path": (GRADES + "add rltf/env=reward_function, which grades with it"),
    "reward.custom_reward_function.path": (
        GRADES + "add rltf/env=reward_function, which grades with it"
    ),
    "reward.custom_reward_function.module": (
        GRADES + "set it to null and write an environment (docs/environments.md)"
    ),
    "reward.reward_manager.module.path": (
        GRADES + "set it to null and write an environment (docs/environments.md)"
    ),
    "reward_model.enable": GRADES + "set it to False; for a model that grades use rltf/env=writing",
    "reward.reward_model.enable": (
        GRADES + "set it to False; for a model that grades use rltf/env=writing"
    ),
    "sandbox_fusion.url": (
        GRADES + "set it to null and use rltf.env.sandbox=sandbox_fusion with rltf.env.url"
    ),
    "reward.sandbox_fusion.url": (
        GRADES + "set it to null and use rltf.env.sandbox=sandbox_fusion with rltf.env.url"
    ),
    "critic.enable": "there is no value model, it would be trained and not used; set it to null",
    "trainer.critic_warmup": "there is no value model; set it to 0",
    "algorithm.use_pf_ppo": "rows are not resampled; set it to False",
    "distillation.enabled": "verl's teacher distillation does not know our rows; set it to False",
    "algorithm.use_kl_in_reward": f"not supported with per-turn rewards; use {ACTOR}.use_kl_loss",
    "algorithm.filter_groups.enable": (
        "verl filters by the reward of single rows; set it to False and "
        "rltf.refill_rounds to the most rounds of further problems"
    ),
    "algorithm.rollout_correction.bypass_mode": (
        "old log-probs would be the sampler's, which for distillation rows belong to another"
        " prompt; set it to False"
    ),
    f"{ACTOR}.loss_scale_factor": (
        "every role is divided by one constant, episodes x data.max_response_length; set it to null"
    ),
    f"{ROLLOUT}.ignore_eos": "no answer would ever end; set it to False",
    f"{ROLLOUT}.enable_rollout_routing_replay": (
        "the rows do not carry the experts' routes; set it to False"
    ),
    f"{ROLLOUT}.multi_turn.enable": (
        "the agent loop rltf plays its own turns; set it to False and rltf.episode.horizon"
    ),
    f"{ROLLOUT}.multi_turn.tool_config_path": "the agent loop rltf calls no tools; set it to null",
    f"{ROLLOUT}.multi_turn.function_tool_path": (
        "the agent loop rltf calls no tools; set it to null"
    ),
    f"{ROLLOUT}.agent.agent_loop_config_path": (
        "every row is played by the agent loop rltf; set it to null"
    ),
}
"""Settings that ask for something that would not happen, and what to do instead. Refused unless
empty or off.
"""

IGNORED: dict[str, tuple[tuple[Any, ...], str]] = {
    "algorithm.gamma": ((1.0,), "rltf.gamma is the discount per turn"),
    "algorithm.lam": ((1.0,), "there is no value model to bootstrap from"),
    "algorithm.norm_adv_by_std_in_grpo": (
        (False,),
        "rltf.attempt.norm_by_std divides by the standard deviation",
    ),
    "reward.reward_manager.name": (("naive",), "the environment grades"),
    "reward_model.reward_manager": ((None,), "the environment grades"),
    "reward.reward_kwargs": ((None,), "the environment grades, and rltf.reward.* shapes"),
    "data.truncation": (("error",), "a question is never cut; rltf counts what is too long"),
    "data.reward_fn_key": (("data_source",), "the environment grades"),
    f"{ROLLOUT}.agent.default_agent_loop": (
        ("rltf", "single_turn_agent"),
        "every row is played by rltf",
    ),
    f"{ROLLOUT}.multi_turn.max_assistant_turns": (
        (None,),
        "rltf.episode.horizon is the number of turns",
    ),
    f"{ROLLOUT}.multi_turn.max_user_turns": (
        (None,),
        "rltf.episode.horizon is the number of turns",
    ),
    f"{ROLLOUT}.multi_turn.num_repeat_rollouts": (
        (None,),
        f"{ROLLOUT}.n is the number of episodes",
    ),
}
"""Settings without effect here: values that nobody meant, and what is read instead."""


def verl_combinations(config: DictConfig) -> list[tuple[bool, str]]:
    """(it works, what to say when it does not) for every setting of verl that ours depend on."""
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    mode, manager = config.trainer.v1.trainer_mode, rollout.agent.get("agent_loop_manager_class")
    return [
        (
            config.trainer.use_v1,
            "trainer.use_v1=False: the rltf trainers are V1 trainers; set it to True",
        ),
        *(
            (not value, f"{key}={value}: {fix}")
            for key, fix in USELESS.items()
            for value in [_value(config, key)]
        ),
        (
            config.algorithm.adv_estimator == "rltf",
            (
                f"algorithm.adv_estimator={config.algorithm.adv_estimator}: the rltf trainers"
                " compute per-turn advantages; set it to rltf"
            ),
        ),
        (
            actor.loss_agg_mode == "token-sum",
            (
                f"{ACTOR}.loss_agg_mode={actor.loss_agg_mode}: every role is a token sum over one"
                " constant; set it to token-sum"
            ),
        ),
        _policy_loss(str(actor.policy_loss.get("loss_mode", "vanilla"))),
        (
            rollout.calculate_log_probs,
            (
                f"{ROLLOUT}.calculate_log_probs=False: the rows carry the sampler's log-probs; set"
                " it to True"
            ),
        ),
        (
            _is_trainer(str(mode)),
            (
                f"trainer.v1.trainer_mode={mode}: with an rltf: block it must be one of"
                f" {', '.join(TRAINER_MODES)}"
            ),
        ),
        (
            str(manager) == MANAGER,
            f"{ROLLOUT}.agent.agent_loop_manager_class={manager}: must be {MANAGER}",
        ),
        (
            config.data.prompt_key == "prompt",
            (
                f"data.prompt_key={config.data.prompt_key}: the rows' questions are in the column"
                " prompt; set it to prompt"
            ),
        ),
        *_lengths(config),
    ]


def _is_trainer(mode: str) -> bool:
    """One of ours, or one that extends it and is registered under such a name."""
    if mode in TRAINER_MODES:
        return True
    from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY  # seconds, for others only

    return mode.startswith("rltf_") and mode in TRAINER_REGISTRY


def ignored_settings(config: DictConfig) -> list[str]:
    """One line per setting that was changed and has no effect."""
    messages = [
        f"{key}={value}: has no effect with an rltf: block; {instead}"
        for key, (unset, instead) in IGNORED.items()
        for value in [_value(config, key)]
        if value is not None and value not in unset
    ]
    size, problems = (
        config.actor_rollout_ref.actor.ppo_mini_batch_size,
        config.data.train_batch_size,
    )
    if size != problems and not str(config.trainer.v1.trainer_mode).endswith("separate_async"):
        messages.append(
            f"{ACTOR}.ppo_mini_batch_size={size}: has no effect with an rltf: block;"
            " rltf.updates_per_batch is the number of updates per batch"
        )
    return messages


def _policy_loss(name: str) -> tuple[bool, str]:
    known = name in TOKEN_SUM_LOSSES
    own = getattr(core_algos.POLICY_LOSS_REGISTRY.get(name), TOKEN_SUM_MARK, False) is True
    return (
        known or own,
        (
            f"{ACTOR}.policy_loss.loss_mode={name}: not known to be a sum over tokens, so its"
            " weight beside other roles would depend on how rows are packed; choose one of"
            f" {', '.join(TOKEN_SUM_LOSSES)}; for a loss of your own that is one, set"
            f" {TOKEN_SUM_MARK}=True on the function"
        ),
    )


def _lengths(config: DictConfig) -> list[tuple[bool, str]]:
    """The engine must be able to hold a whole prompt and a whole answer: it cuts answers without
    saying so.
    """
    rollout = config.actor_rollout_ref.rollout
    needed = (
        int(rollout.prompt_length) + int(rollout.response_length) + (rollout.name == "sglang")
    )  # keeps one free
    limit = rollout.get("max_model_len")
    pairs = (("prompt_length", "max_prompt_length"), ("response_length", "max_response_length"))
    return [
        *(
            (
                rollout[ours] == config.data[data],
                (
                    f"{ROLLOUT}.{ours}={rollout[ours]}: must be data.{data}={config.data[data]},"
                    " which it follows by default"
                ),
            )
            for ours, data in pairs
        ),
        (
            limit is None or limit >= needed,
            (
                f"{ROLLOUT}.max_model_len={limit}: shorter than data.max_prompt_length +"
                " data.max_response_length, so answers would be cut before their limit; set it to"
                f" at least {needed}, or null"
            ),
        ),
    ]


def _value(config: DictConfig, key: str) -> Any:
    return OmegaConf.select(config, key)
