"""`rltf probe`: how the episodes of a log were played, and the sizes of the run to come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from rltf_verl.config import MentionsConfig, RLTFConfig
from rltf_verl.config.reading import keys_in
from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env
from rltf_verl.episode.mentions import mentions
from rltf_verl.feedback.guard.find import find_leaks
from rltf_verl.registry import require_choice
from rltf_verl.runlog.about import read_about
from rltf_verl.runlog.files import EVALUATION
from rltf_verl.runlog.turns import Record, group_of
from rltf_verl.tools.evaluate.play import part_of
from rltf_verl.tools.evaluate.settings import (
    EPISODE_BLOCKS,
    load_config,
    rltf_block,
    training_blocks,
)
from rltf_verl.tools.report.probe.measures import Reader, TrainingRun, measure
from rltf_verl.tools.report.probe.rules import FeedbackSetting, Probe
from rltf_verl.types import Problem

SIZES = {
    "problems": ("data.train_batch_size", 1),
    "sessions": ("actor_rollout_ref.rollout.n", 2),
    "prompt_tokens": ("data.max_prompt_length", 1),
    "answer_tokens": ("data.max_response_length", 1),
}
"""Field of `TrainingRun` -> the key of the run's config, and its minimum."""
LIMITS = {SIZES[name][0] for name in ("prompt_tokens", "answer_tokens")}
OF_THE_RUN = ("data", "actor_rollout_ref")
"""Blocks of `SIZES`."""


def probe_of(
    overrides: Mapping[str, Any],
    log: Path,
    records: Sequence[Record],
    config: Path | None,
    tell: Callable[[str], object],
) -> Probe:
    """All that the episodes of a log show.

    Args:
        overrides: nested options of the command line, for what neither the log nor the evaluation
            that wrote it says: the blocks of `EPISODE_BLOCKS`, and the keys of `SIZES`.
        log: folder of the episodes.
        records: its episodes, at least one.
        config: YAML of a training run, for what the command line leaves out.
        tell: gets a line if the limits of the run are not known.

    Raises:
        ValueError: a bad key or value; names it and the fix.
    """
    sizes, overrides = split_sizes("rltf probe", overrides, EPISODE_BLOCKS)
    run, about = read_about(log), log.parent / EVALUATION
    evaluation = part_of(about, "evaluation", dict) if about.exists() else {}
    if evaluation:
        sizes = {SIZES["answer_tokens"][0]: evaluation["endpoint"]["max_tokens"], **sizes}
    # the most common number of episodes of a group; 2 if they play alone, which no run does
    group = Counter(Counter(map(group_of, records)).values()).most_common(1)[0][0]
    sizes = {SIZES["sessions"][0]: max(2, group), **run.get("sizes", {}), **sizes}
    played = run.get("rltf") or evaluation
    blocks = _blocks_of(played) if played else {}
    blocks |= {key: value for key, value in training_blocks(config).items() if value is not None}
    texts = (t.get(kind) for r in records for t in r["turns"] for kind in ("feedback", "withheld"))
    providers = Counter(text["provider"] for text in texts if text).most_common(1)
    provider = providers[0][0] if providers else "verifier"
    rltf = rltf_block(overrides, blocks, {"name": records[0]["env"]}, {"horizon": 2}, provider)
    phrases = _phrases(config) if config or not run else tuple(run["phrases"])
    probe = _probe(rltf, records, training_run(sizes, config), phrases)
    if config is None and not sizes.keys() >= LIMITS:
        tell(
            f"{log} does not hold the run's limits, so the presets' are taken: set"
            " data.max_prompt_length and data.max_response_length, or --config"
        )
    return probe


def _probe(
    rltf: RLTFConfig, records: Sequence[Record], run: TrainingRun, phrases: tuple[str, ...]
) -> Probe:
    feedback = rltf.feedback
    env = make_env(rltf.env.name, **rltf.env.options)
    reader = Reader(partial(_tells, env), lambda text: bool(mentions(text, phrases)))
    setting = FeedbackSetting(
        feedback.provider.name,
        feedback.provider.options,
        feedback.guard.action,
        feedback.acknowledge_leaks,
        rltf.episode.revise,
        rltf.episode.context,
    )
    return Probe(measure(records, run, reader), run, setting)


def _tells(env: Env, episode: Record, feedback: str, attempt: str) -> bool | None:
    """By the guard's rules, whatever the guard did. None for an episode of another environment, and
    where the log does not hold all of the problem.
    """
    if episode["env"] != env.name or episode.get("task") is None:
        return None
    problem = Problem(episode["env"], episode["index"], episode["task"], episode["reference"])
    try:
        return bool(find_leaks(env, problem, feedback, attempt))
    except Exception:  # environments are user code, and logs may be of an older one
        return None


def split_sizes(
    command: str, overrides: Mapping[str, Any], blocks: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(sizes of the run to come by their key, the other blocks). Raises ValueError for others."""
    for block in overrides:
        require_choice(command, block, (*OF_THE_RUN, *blocks))
    sizes: dict[str, Any] = {}
    for block in OF_THE_RUN:
        for key, _, value in keys_in(block, overrides.get(block)):
            if not isinstance(value, Mapping):
                require_choice(command, key, [key for key, _ in SIZES.values()])
                sizes[key] = value
    return sizes, {block: values for block, values in overrides.items() if block not in OF_THE_RUN}


def training_run(overrides: Mapping[str, Any], config: Path | None) -> TrainingRun:
    """The sizes that are given by their key, else those of the run's config, else of every
    preset.
    """
    base = files("hydra_configs.rltf_verl").joinpath("rltf", "base.yaml")
    layers = [OmegaConf.create(base.read_text(encoding="utf-8"))]
    if config is not None:
        layers.insert(0, load_config(config))
    sizes = {}
    for name, (key, minimum) in SIZES.items():
        values = (overrides.get(key), *(OmegaConf.select(layer, key) for layer in layers))
        value = next((value for value in values if value is not None), None)
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            why = "; a group of one has nothing to compare" if minimum == 2 else ""
            raise ValueError(f"{key}={value}: must be a whole number, at least {minimum}{why}")
        sizes[name] = value
    return TrainingRun(**sizes)


def _phrases(config: Path | None) -> tuple[str, ...]:
    loaded = OmegaConf.create() if config is None else load_config(config)
    phrases = OmegaConf.select(loaded, "rltf.mentions.phrases")
    return tuple(MentionsConfig().phrases if phrases is None else phrases)


def _blocks_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The blocks of a run's config, from the dataclasses that it became."""
    env, feedback = facts["env"], dict(facts["feedback"])
    provider = feedback.pop("provider")
    return {
        "env": {"name": env["name"], **env["options"]},
        "feedback": {"provider": provider["name"], **provider["options"], **feedback},
        "episode": {key: value for key, value in facts["episode"].items() if key != "horizon"},
    }
