"""`rltf feedback check`: a feedback function on attempts that are made up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltf_verl.envs import make_env
from rltf_verl.envs.calls import bounded
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.feedback import make_provider
from rltf_verl.judge.gateway import judges_of
from rltf_verl.tools.evaluate.endpoint_policy import CHARACTERS
from rltf_verl.tools.evaluate.probe import split_sizes, training_run
from rltf_verl.tools.evaluate.settings import (
    EPISODE_BLOCKS,
    questions_of,
    rltf_block,
    training_blocks,
)
from rltf_verl.tools.feedback.attempts import MOST_SAID, CheckedFunction, collect
from rltf_verl.tools.feedback.verdicts import CheckedFeedback


def checked_feedback(
    overrides: Mapping[str, Any], file: Path, num: int, config: Path | None, time: DryRun
) -> CheckedFeedback:
    """Feedback of a function on made-up attempts at the first rows of a dataset.

    Args:
        overrides: nested options of the command line: the blocks of `EPISODE_BLOCKS`, and
            `data.max_prompt_length`.
        file: dataset.
        num: its first rows.
        config: YAML of a training run, for what the command line leaves out.
        time: counts the time of the calls.

    Raises:
        ValueError: a bad key or value, feedback of a model, or attempts with steps; names it and
            the fix.
    """
    sizes, overrides = split_sizes("rltf feedback check", overrides, EPISODE_BLOCKS)
    questions, named = questions_of(file, num, overrides, config)
    rltf = rltf_block(overrides, training_blocks(config), named, {"horizon": 2})
    block, env = rltf.feedback.provider, make_env(rltf.env.name, **rltf.env.options)
    provider = make_provider(block.name, **block.options)
    if env.acts or judges_of(env) or judges_of(provider):
        raise ValueError(
            "rltf feedback check: asks no judge and plays no steps; ask a judge with `rltf feedback"
            " try`, or read episodes with `rltf probe`"
        )
    if rltf.env.name == "reward_function":
        env = CheckedFunction(**rltf.env.options)
    return CheckedFeedback(
        bounded(env),
        collect(env, provider, questions, time),
        min(CHARACTERS * training_run(sizes, config).prompt_tokens, MOST_SAID - 1),
        provider.tells_answer,
        provider.constant,
    )
