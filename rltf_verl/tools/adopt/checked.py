"""An adopted run before the start-up checks: what they refuse is dropped, prompts get room, what
they cannot see on this machine is noted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.startup import checks
from rltf_verl.adapters.startup.files import (
    DATA,
    REWARD_FUNCTION,
    check_dataset,
    resolve_files,
)
from rltf_verl.adapters.startup.rules import ACTOR, ROLLOUT, VERL, rule_findings
from rltf_verl.adapters.startup.values import too_few_devices
from rltf_verl.data.schema import files_of
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.tools.compose.overrides import Overrides
from rltf_verl.tools.compose.runs import compose_run

STAY = (
    "data.train_batch_size",
    "data.max_response_length",
    f"{ROLLOUT}.val_kwargs.do_sample",
    f"{ROLLOUT}.val_kwargs.temperature",
)
"""Settings that keep verl's default, which is not ours, where the run leaves them to it."""

TOKEN_LIMITS = (
    f"{ACTOR}.ppo_max_token_len_per_gpu",
    f"{ROLLOUT}.log_prob_max_token_len_per_gpu",
    "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu",
)
PROMPT = "data.max_prompt_length"


def checked_config(settings: Overrides, extra: Overrides) -> DictConfig:
    """The composed run, after dropping what the start-up checks refuse or warn of.

    Raises:
        ConfigError: they refuse something that the run does not set.
    """
    # until nothing is dropped: what one drop leaves may be refused for another reason
    while True:
        config = compose_run("rltf", [*settings.overrides, *extra.overrides])
        seen = checkable(config)
        if not sum(settings.drop([key], why) for key, why in _complaints(seen)):
            break
    parts = checks.checked_parts(seen)
    for key, path in _data_files(seen):
        if path.is_file():
            checks.require(check_dataset(key, str(path), parts.env, DryRun()))
    return config


def _complaints(config: DictConfig) -> Iterator[tuple[str, str]]:
    """Key and reason of what the checks refuse or warn of."""
    refused, unread = (rule_findings(config, level, VERL) for level in ("error", "warning"))
    for finding in (*refused, *too_few_devices(config), *unread):
        # The fix of a run that stays as it is ends in "set it to …"; here the setting is dropped.
        keeps = finding.fix.startswith("set it to ")
        yield finding.key, finding.why if keeps else f"{finding.why}; {finding.fix}"


def checkable(config: DictConfig) -> DictConfig:
    """A copy as the start-up checks see it, without a reward function that is not here."""
    seen: DictConfig = config.copy()
    for block in REWARD_FUNCTION:
        path = OmegaConf.select(seen, f"{block}.path")
        if path and not _exists(str(path)):
            OmegaConf.update(seen, f"{block}.path", None)
    resolve_files(seen)
    return seen


def grading_notes(config: DictConfig) -> Iterator[str]:
    """Lines on the source of grade and feedback."""
    env = str(config.rltf.env.name)
    if env != "reward_function":
        yield f"rltf.env.name={env}: the environment of the rows grades"
        return
    for block in REWARD_FUNCTION:
        path = OmegaConf.select(config, f"{block}.path")
        if path:
            yield f"{block}.path={path}: grades, and its `feedback` is the feedback"
            if not _exists(str(path)):
                yield f"{block}.path={path}: not on this machine, not checked"
            return
    yield (
        "no custom_reward_function: verl's scorer of the rows' data_source grades, and feedback is"
        " only that an answer is wrong; return a dict with `feedback`, or use --feedback judge"
    )


def apply_refusals(settings: Overrides, theirs: DictConfig, extra: Overrides) -> None:
    """Keep the sizes that the run leaves to verl, and make room for the second prompt."""
    ours = compose_run("rltf", [*settings.groups, *extra.groups])
    devices = [] if ours.trainer.device == "cpu" else [f"{ROLLOUT}.tensor_model_parallel_size"]
    if any(too_few_devices(theirs)):
        devices = []
    for key in (*STAY, *devices):
        value = OmegaConf.select(theirs, key)
        if settings.get(key) is None and value != OmegaConf.select(ours, key):
            settings.change(key, value, "the run's value, verl's default")
    horizon = extra.get("rltf.episode.horizon")
    prompt, answer = int(theirs.data.max_prompt_length), int(theirs.data.max_response_length)
    if int(horizon or ours.rltf.episode.horizon) > 1:
        if extra.get(PROMPT) is None:
            why = "the second prompt quotes the question, the first answer and the feedback"
            settings.change(PROMPT, prompt + answer, why)
        prompt += answer
    packs = theirs.actor_rollout_ref.actor.use_dynamic_bsz
    if settings.get(f"{ACTOR}.use_dynamic_bsz") is None and not packs:
        settings.drop(
            [f"{ACTOR}.ppo_micro_batch_size", f"{ACTOR}.ppo_micro_batch_size_per_gpu"],
            f"rows differ in length, so {ACTOR}.ppo_max_token_len_per_gpu packs them by tokens",
        )
    _widen(settings, theirs, prompt + answer)


def _widen(settings: Overrides, theirs: DictConfig, needed: int) -> None:
    """Limits of tokens that one row must fit."""
    ranks = max(
        int(OmegaConf.select(theirs, f"{ACTOR}.{key}") or 1)
        for key in ("ulysses_sequence_parallel_size", "fsdp_config.ulysses_sequence_parallel_size")
    )
    for key in TOKEN_LIMITS:
        limit = OmegaConf.select(theirs, key)
        if limit is not None and int(limit) * ranks < needed:
            why = "a row must fit: data.max_prompt_length + data.max_response_length"
            settings.change(key, -(-needed // ranks), why)


def _data_files(config: DictConfig) -> list[tuple[str, Path]]:
    return [
        (key, Path(path)) for key in DATA for path in files_of(OmegaConf.select(config, key) or [])
    ]


def _exists(path: str) -> bool:
    return path.startswith("pkg://") or Path(path).expanduser().is_file()
