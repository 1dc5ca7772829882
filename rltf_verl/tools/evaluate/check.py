"""`rltf feedback check`: from the words of the command line to what is wrong with feedback."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltf_verl.envs import make_env
from rltf_verl.envs.base import NeedsMachine
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.envs.waiting import acting_env
from rltf_verl.feedback import make_provider
from rltf_verl.feedback.base import tells_answer_of
from rltf_verl.findings import ConfigError, Finding
from rltf_verl.judge.gateway import judges_of
from rltf_verl.tools.evaluate.endpoint_policy import CHARACTERS
from rltf_verl.tools.evaluate.probe import TREE, split_sizes, training_run
from rltf_verl.tools.evaluate.settings import (
    ENDPOINT_BLOCKS,
    EPISODE_BLOCKS,
    questions_of,
    rltf_block,
    training_blocks,
)
from rltf_verl.tools.feedback.collect import Caller, CheckedFunction, collect
from rltf_verl.tools.feedback.verdicts import CheckedFeedback

IN_A_RUN = ("marginal", "paired", "policy", "replay", "shuffled", "siblings")
"""Providers whose texts are made of what a run plays."""


def checked_feedback(
    overrides: Mapping[str, Any], file: Path, num: int, config: Path | None, time: DryRun
) -> CheckedFeedback:
    """What a feedback function says of attempts at the first rows of a dataset.

    Args:
        overrides: nested options of the command line, as of `probe.Played`.
        file: dataset.
        num: its first rows.
        config: YAML of a training run, for what the command line leaves out.
        time: counts the time of the calls.

    Raises:
        ConfigError: feedback that only a run has.
        ValueError: a bad key or value; names it and the fix.
    """
    sizes, overrides = split_sizes(overrides, (*ENDPOINT_BLOCKS, *EPISODE_BLOCKS))
    room = CHARACTERS * training_run(sizes, config).prompt_tokens
    questions, named = questions_of(file, num, overrides, config)
    rltf = rltf_block(overrides, training_blocks(config), named, {**TREE, "horizon": 2})
    env = make_env(rltf.env.name, **rltf.env.options)
    if rltf.env.name == "reward_function":
        env = CheckedFunction(**rltf.env.options)
    block = rltf.feedback.provider
    provider = make_provider(block.name, **block.options)
    if acting_env(env) or judges_of(env) or judges_of(provider) or block.name in IN_A_RUN:
        key, value = ("rltf.feedback.provider", block.name)
        if acting_env(env) or judges_of(env):
            key, value = "rltf.env.name", rltf.env.name
        why, fix = "its feedback is made in a run only", "read that of a run: --log RUN"
        raise ConfigError(Finding(key, value, why, fix))
    trouble = env.trouble() if isinstance(env, NeedsMachine) else None
    if trouble is not None:
        raise ValueError(trouble)
    caller = Caller(env, provider)
    return CheckedFeedback(
        caller.bounded,
        collect(caller, questions, time),
        room,
        tells_answer_of(provider),
        provider.constant,
    )
