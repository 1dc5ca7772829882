"""Sizes of an adopted run: prompts, answers, tokens that the workers pack."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.adopt.checking import checkable, rows_are_here
from rltf_verl.adapters.adopt.settings import ACTOR, ROLLOUT, Settings, composed
from rltf_verl.adapters.startup import checks
from rltf_verl.envs.dry_run import DryRun

STAY = (
    "data.train_batch_size",
    "data.max_response_length",
    f"{ROLLOUT}.val_kwargs.do_sample",
    f"{ROLLOUT}.val_kwargs.temperature",
)
"""Settings that stay the run's where it left them at verl's default, which is not ours."""

TOKEN_LIMITS = (
    f"{ACTOR}.ppo_max_token_len_per_gpu",
    f"{ROLLOUT}.log_prob_max_token_len_per_gpu",
    "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu",
)
PROMPT = "data.max_prompt_length"
TOO_LONG = re.compile(r"\w+\.max_prompt_length=\d+: (.*?); set it to at least (\d+) plus [^;]*(.*)")


def settle(settings: Settings, theirs: DictConfig, extra: Settings) -> None:
    """Sizes: what the run left at verl's default, and room for the second prompt."""
    ours = composed("rltf", [*settings.groups, *extra.groups])
    hardware = [] if ours.trainer.device == "cpu" else [f"{ROLLOUT}.tensor_model_parallel_size"]
    for key in (*STAY, *hardware):
        value = OmegaConf.select(theirs, key)
        if settings.get(key) is None and value != OmegaConf.select(ours, key):
            settings.change(key, value, "the run's value, verl's default")
    horizon = extra.get("rltf.episode.horizon")
    prompt, answer = int(theirs.data.max_prompt_length), int(theirs.data.max_response_length)
    if (int(horizon.text) if horizon else ours.rltf.episode.horizon) > 1:
        if extra.get(PROMPT) is None:
            why = "the second prompt quotes the question, the first answer and the feedback"
            settings.change(PROMPT, prompt + answer, why)
        prompt += answer
    if (
        settings.get(f"{ACTOR}.use_dynamic_bsz") is None
        and not theirs.actor_rollout_ref.actor.use_dynamic_bsz
    ):
        settings.drop(
            [f"{ACTOR}.ppo_micro_batch_size", f"{ACTOR}.ppo_micro_batch_size_per_gpu"],
            f"rows differ in length, so {ACTOR}.ppo_max_token_len_per_gpu packs them by tokens",
        )
    _widen(settings, theirs, prompt + answer)


def _widen(settings: Settings, theirs: DictConfig, needed: int) -> None:
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


def make_room(
    settings: Settings, theirs: DictConfig, extra: Settings, config: DictConfig, notes: list[str]
) -> bool:
    """Measure the prompts of the first problems where rows and model are here, and raise the limit
    to what the longest needs beside a whole attempt, if the model reads that much; whether they
    were measured.
    """
    path = str(OmegaConf.select(config, "actor_rollout_ref.model.path"))
    if not Path(path).is_dir():
        notes.append(f"actor_rollout_ref.model.path={path}: no folder here, no prompt was measured")
        return False
    if not rows_are_here(config):
        return False
    seen, answer = checkable(config), int(config.data.max_response_length)
    parts, dry_run = checks.parts_of(seen), DryRun()
    messages = [*map(str, checks.refused_model(seen, parts, dry_run))]
    while extra.get(PROMPT) is None and (found := _too_long(messages)) is not None:
        needed = int(found[2]) + answer
        OmegaConf.update(seen, PROMPT, needed)
        for key in TOKEN_LIMITS:
            if (limit := OmegaConf.select(seen, key)) is not None:
                OmegaConf.update(seen, key, max(int(limit), needed + answer))
        before = messages
        messages = [*map(str, checks.refused_model(seen, parts, dry_run))]
        if messages and _too_long(messages) is None:  # the model cannot read that much
            messages = [*before, *(f"that limit is refused too: {message}" for message in messages)]
            break
        settings.change(PROMPT, needed, f"{found[1]}, and the attempt up to {answer}{found[3]}")
        _widen(settings, theirs, needed + answer)
    notes += [f"a start would be refused: {message}" for message in messages]
    notes += map(str, dry_run.findings())
    return True


def _too_long(messages: Sequence[str]) -> re.Match[str] | None:
    return next(filter(None, map(TOO_LONG.match, messages)), None)
