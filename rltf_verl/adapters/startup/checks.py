"""Refuse what cannot work, with the key, the value and the fix, before a worker starts or a GPU
second is spent.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.compat import ENGINES_WITH_SEEDS, TESTED_VERL, verl_is_tested, verl_version
from rltf_verl.adapters.cpu import ROLLOUT_NAME
from rltf_verl.adapters.cpu.vllm.ready import trouble_of
from rltf_verl.adapters.startup.modes import mode_combinations
from rltf_verl.adapters.startup.stamp import check_resume
from rltf_verl.adapters.startup.trust_region import trust_region_warnings
from rltf_verl.adapters.startup.verl_settings import ignored_settings, verl_combinations
from rltf_verl.config import ConfigError, RLTFConfig
from rltf_verl.data.schema import (
    FIX,
    check_parquet,
    environments_of,
    files_of,
    problem_of,
    text_of,
)
from rltf_verl.envs.base import Env, KnowsTrouble, NeedsMachine
from rltf_verl.episode.parts import Parts
from rltf_verl.objectives import objectives_of
from rltf_verl.prompts import is_file, render, template_of
from rltf_verl.types import Message, Problem

logger = logging.getLogger(__name__)

TEMPLATE_KEYS = (
    "rltf.episode.revise",
    "rltf.feedback_modeling.critic",
    "rltf.feedback.critic",
    "rltf.feedback.even.critic",
    "rltf.feedback.odd.critic",
)
"""Settings that can name a template file."""

NUM_BUDGET_PROBES = 32
"""Problems of the training set whose revise prompt is measured at start."""


def check_driver(config: DictConfig) -> None:
    """All checks that need neither Ray nor a tokenizer; run in the driver by `validate_config`."""
    resolve_files(config)
    config.trainer.experiment_name = str(
        config.trainer.experiment_name
    )  # the config's name is known here only
    parts = checked_parts(config)
    check_platform(config)
    check_machine(parts.env)
    for key in ("data.train_files", "data.val_files"):
        for path in files_of(OmegaConf.select(config, key)):
            check_dataset(key, path, parts.env)
    check_folders(parts.config)
    check_resume(config, parts.config)


def resolve_files(config: DictConfig) -> None:
    """Make `./mine.py:Class` and `./mine.j2` absolute: workers of a cluster start in folders of
    their own.
    """
    for key in TEMPLATE_KEYS:
        template = OmegaConf.select(config, key)
        if template is not None and is_file(str(template)):
            OmegaConf.update(config, key, str(Path(str(template)).expanduser().resolve()))
    take_reward_function(config)
    objectives = OmegaConf.select(config, "rltf.objectives")
    named = objectives if isinstance(objectives, Mapping | DictConfig) else ()  # refused later
    own = [f"rltf.objectives.{name}" for name in named]
    ours = ("rltf.feedback.provider", "rltf.env.name", "rltf.env.function", "rltf.distill.baseline")
    for key in (*ours, *own):
        path, separator, name = str(OmegaConf.select(config, key)).rpartition(":")
        if separator and path.endswith(".py"):
            OmegaConf.update(config, key, f"{Path(path).expanduser().resolve()}:{name}")


def take_reward_function(config: DictConfig) -> None:
    """Give the environment `reward_function` what verl's config says of it, and leave nothing to
    verl, which would load it once more to grade nothing.
    """
    if OmegaConf.select(config, "rltf.env.name") != "reward_function":
        return
    for block in ("custom_reward_function", "reward.custom_reward_function"):
        path = OmegaConf.select(config, f"{block}.path")
        if path is None:
            continue
        name = OmegaConf.select(config, f"{block}.name") or "compute_score"
        source = str(path).removeprefix("pkg://")
        if source == str(path):
            source = str(Path(source).expanduser().resolve())
        OmegaConf.update(config, "rltf.env.function", f"{source}:{name}")
        kwargs = OmegaConf.select(config, f"{block}.reward_kwargs")
        if kwargs is not None:
            OmegaConf.update(config, "rltf.env.kwargs", kwargs, force_add=True)
        OmegaConf.update(config, f"{block}.path", None)


def check_dataset(key: str, path: str, env: Env) -> None:
    """Raise ConfigError unless the file of config `key` holds rows that the environment can
    grade.
    """
    try:
        first = check_parquet(path, env)
        names = environments_of(path)
    except FileNotFoundError as error:
        raise ConfigError(f"{key}={path}: no such file, seen from {Path.cwd()}; {FIX}") from error
    except (ValueError, OSError) as error:
        raise ConfigError(f"{key}: {error}") from error
    others = sorted(names - {env.name})
    if others:
        raise ConfigError(
            f"{key}={path}: its rows were made for the environment {', '.join(others)}"
            f" (extra_info.env), and rltf.env.name is {env.name}; add rltf/env={others[0]}, or name"
            f" a file of {env.name}"
        )
    trouble = env.trouble_with(first) if isinstance(env, KnowsTrouble) else None
    if trouble is not None:
        raise ConfigError(f"{key}={path}: {trouble}")


def check_folders(rltf: RLTFConfig) -> None:
    """Raise ConfigError if a folder that the run writes to cannot be made or written."""
    feedback = {
        "record_dir": rltf.feedback.record_dir,
        "guard": {"judge": rltf.feedback.guard.judge},
        **rltf.feedback.provider.options,
    }
    blocks = {
        "episode_log": {"dir": rltf.episode_log.dir},
        "feedback": feedback,
        "env": rltf.env.options,
    }
    for key, folder in _folders("rltf", blocks):
        trouble = _write_trouble(folder)
        if trouble is not None:
            raise ConfigError(f"{key}={folder}: cannot be written ({trouble}); name another folder")


def _write_trouble(folder: str) -> str | None:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return str(error.strerror)


FOLDERS = ("dir", "record_dir", "cache_dir", "inbox")
"""Keys of the `rltf:` block, at any depth, that name a folder to write to."""


def _folders(key: str, value: Any) -> Iterator[tuple[str, str]]:
    items = (
        value.items()
        if isinstance(value, Mapping)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, inner in items:
        inner_key = f"{key}[{name}]" if isinstance(name, int) else f"{key}.{name}"
        if name in FOLDERS and isinstance(inner, str):
            yield inner_key, inner
        else:
            yield from _folders(inner_key, inner)


def check_config(config: DictConfig) -> RLTFConfig:
    """The `rltf:` block of `checked_parts`."""
    return checked_parts(config).config


def checked_parts(config: DictConfig) -> Parts:
    """What the `rltf:` block names, held against verl's settings.

    Raises:
        ConfigError: names the key, its value and what to set instead.
    """
    parts = parts_of(config)
    check_combinations(config, parts)
    return parts


def parts_of(config: DictConfig) -> Parts:
    """What the `rltf:` block names. Raises ValueError, ConfigError."""
    if config.get("rltf") is None:
        raise ConfigError(
            "no `rltf:` block in the config: start from one of ours, e.g. --config-name=rltf_sd"
        )
    block: Any = OmegaConf.to_container(config.rltf, resolve=True)
    return Parts.of(RLTFConfig.from_mapping(block))


def check_combinations(config: DictConfig, parts: Parts) -> None:
    """Raise ConfigError where verl's settings and ours do not go together; warn where they may
    not.
    """
    rltf = parts.config
    if not verl_is_tested():
        logger.warning(
            "verl %s is outside the tested range %s; run `rltf doctor`", verl_version(), TESTED_VERL
        )
    combinations = (
        verl_combinations(config) + mode_combinations(config) + _own_combinations(config, parts)
    )
    for objective in objectives_of(rltf):
        combinations += objective.refusals(partial(OmegaConf.select, config), parts.provider)
    for ok, message in combinations:
        if not ok:
            raise ConfigError(message)
    for message in ignored_settings(config) + trust_region_warnings(config, rltf):
        logger.warning(message)


def _own_combinations(config: DictConfig, parts: Parts) -> list[tuple[bool, str]]:
    """The same for settings of ours that only the whole config can judge."""
    rltf = parts.config
    rollout, episode, name = (
        config.actor_rollout_ref.rollout,
        rltf.episode,
        rltf.feedback.provider.name,
    )
    return [
        *_control_combinations(config, rltf),
        (
            episode.branch_turn is None or name not in ("policy", "paired"),
            (
                f"rltf.episode.branch_turn={episode.branch_turn}: revisions share one critique,"
                " which could not be credited with any of them; choose another"
                f" rltf.feedback.provider than {name}, or null"
            ),
        ),
        (
            not episode.pair_sessions or rollout.n % 2 == 0,
            (
                f"actor_rollout_ref.rollout.n={rollout.n}: rltf.episode.pair_sessions=true needs an"
                " even number of sessions"
            ),
        ),
        (
            not episode.pair_sessions or not str(config.trainer.v1.trainer_mode).endswith("_async"),
            (
                "rltf.episode.pair_sessions=true: with"
                f" trainer.v1.trainer_mode={config.trainer.v1.trainer_mode} an interrupted first"
                " answer goes on with new weights and need not be shared; use rltf_sync, or set it"
                " to false"
            ),
        ),
        (
            not episode.pair_sessions or rollout.name in ENGINES_WITH_SEEDS,
            (
                "rltf.episode.pair_sessions=true: two sessions share a first answer by sharing its"
                f" seed, which the engine {rollout.name} does not take; use"
                f" {' or '.join(ENGINES_WITH_SEEDS)}, or set it to false"
            ),
        ),
        *_refill_combinations(config, rltf),
    ]


def _control_combinations(config: DictConfig, rltf: RLTFConfig) -> list[tuple[bool, str]]:
    """The same for providers that speak of another problem, of those that a process plays at the
    same time.
    """
    name, branch = rltf.feedback.provider.name, rltf.episode.branch_turn
    if name not in ("shuffled", "marginal"):
        return []
    size, workers = config.data.train_batch_size, config.actor_rollout_ref.rollout.agent.num_workers
    mode = str(config.trainer.v1.trainer_mode)
    share = -(-size // workers)  # verl gives each worker that many, and the last one what is left
    return [
        (
            branch is None,
            (
                f"rltf.episode.branch_turn={branch}: sessions of provider {name} wait for each"
                " other turn by turn, and a tree has several attempts at one; set it to null"
            ),
        ),
        (
            not mode.endswith("_async"),
            (
                f"rltf.feedback.provider={name}: with trainer.v1.trainer_mode={mode} problems are"
                " played one by one; use rltf_sync"
            ),
        ),
        (
            share > 1 and size % share != 1,
            (
                f"data.train_batch_size={size}: with"
                f" actor_rollout_ref.rollout.agent.num_workers={workers} a worker plays one problem"
                f" alone, and provider {name} needs another one; set the batch to a multiple of"
                f" {2 * workers}"
            ),
        ),
        (
            not rltf.refill_rounds,
            (
                f"rltf.refill_rounds={rltf.refill_rounds}: further problems are played alone, and"
                f" provider {name} needs another one; set it to 0"
            ),
        ),
    ]


def _refill_combinations(config: DictConfig, rltf: RLTFConfig) -> list[tuple[bool, str]]:
    """The same for `rltf.refill_rounds`, which plays single further problems when all sessions have
    ended.
    """
    key, off = f"rltf.refill_rounds={rltf.refill_rounds}", "or rltf.refill_rounds=0"
    mode, size = str(config.trainer.v1.trainer_mode), config.data.get("gen_batch_size")
    return [
        (
            not rltf.refill_rounds or not mode.endswith("_async"),
            (
                f"{key}: with trainer.v1.trainer_mode={mode} a batch is what is ready, and no round"
                " ever ends; use rltf_sync, or set it to 0"
            ),
        ),
        (
            not rltf.refill_rounds or size in (None, 1),
            (
                f"data.gen_batch_size={size}: {key} plays single further problems; set it to null,"
                f" {off}"
            ),
        ),
        (
            not rltf.refill_rounds or not OmegaConf.select(config, "skip.rollout_tq.enable"),
            (
                f"skip.rollout_tq.enable=True: a batch of {key} is not what was recorded; set it to"
                f" False, {off}"
            ),
        ),
    ]


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
    if trouble is not None:
        raise ConfigError(trouble)
    if cpu_platform and config.actor_rollout_ref.actor.use_kl_loss:
        raise ConfigError(
            "actor_rollout_ref.actor.use_kl_loss=True: verl moves the reference model to pinned"
            " memory, which needs an accelerator; on a CPU set it to False"
        )
    local_cluster = not (
        os.environ.get("RAY_ADDRESS") or OmegaConf.select(config, "ray_kwargs.ray_init.address")
    )
    if not cpu_platform and local_cluster and not get_torch_device().is_available():
        raise ConfigError(
            "no accelerator on this machine and VERL_PLATFORM is not set: to train on the CPU start"
            " with VERL_PLATFORM=cpu and rltf/hardware=cpu; to join a running GPU cluster set"
            " RAY_ADDRESS"
        )


def check_machine(env: Env) -> None:
    """Raise ConfigError if the environment cannot grade on this machine (workers elsewhere are not
    asked).
    """
    trouble = env.trouble() if isinstance(env, NeedsMachine) else None
    if trouble is not None:
        raise ConfigError(trouble)


def check_prompt_budget(config: DictConfig, parts: Parts, dataset: Any, tokenizer: Any) -> None:
    """Refuse a `data.max_prompt_length` that cannot hold a second prompt even if the attempt had no
    tokens at all.

    Measures the first problems of the training set with what the environment says of an empty
    answer. A first prompt above the limit is refused too: nothing cuts it, so its answer would be
    cut by as much.
    """
    limit, rltf = int(config.data.max_prompt_length), parts.config
    options = dict(config.data.get("apply_chat_template_kwargs") or {})
    longest, worst = 0, None

    def length(messages: list[Message]) -> int:
        return len(
            tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=True, return_dict=False, **options
            )
        )

    for i in range(min(len(dataset), NUM_BUDGET_PROBES)):
        row = dataset[i]
        problem = problem_of(parts.env, row)
        question = [
            {"role": str(m["role"]), "content": text_of(m["content"])} for m in row["raw_prompt"]
        ]
        if length(question) > limit:
            raise ConfigError(
                f"data.max_prompt_length={limit}: the first prompt of problem {problem.index} has"
                f" {length(question)} tokens; raise it, or leave such problems out with"
                " data.filter_overlong_prompts=True"
            )
        if rltf.episode.horizon == 1:
            continue
        needed = length(_second_prompt(rltf, question, _sample_feedback(parts, problem)))
        if needed > longest:
            longest, worst = needed, problem.index
    if longest > limit:
        raise ConfigError(
            f"data.max_prompt_length={limit}: the revise prompt of template {rltf.episode.revise}"
            f" needs {longest} tokens for problem {worst} before any attempt is quoted; set it to"
            f" at least {longest} plus the length of an attempt"
        )


def _second_prompt(rltf: RLTFConfig, question: list[Message], feedback: str) -> list[Message]:
    """The conversation of the second turn, after an attempt without text."""
    template = template_of("revise", rltf.episode.revise or "")
    text = render(template, question=question[-1]["content"], attempt="", feedback=feedback)
    revise = {"role": "user", "content": text}
    if rltf.episode.context == "append":
        return [*question, {"role": "assistant", "content": ""}, revise]
    return [*question[:-1], revise]


def _sample_feedback(parts: Parts, problem: Problem) -> str:
    """The environment's explanation of an empty answer; a provider is not asked, it may cost money
    or be down.
    """
    env, level = parts.env, parts.config.feedback.provider.options.get("level", "verdict")
    grade = env.grade(problem, "")
    levels = [level] if isinstance(level, str) else level
    return max((env.explain(problem, "", grade, each) for each in levels), key=len)
