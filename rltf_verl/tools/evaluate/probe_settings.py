"""What `rltf probe` is told: the sizes of the run to come, and what its episodes are played by."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from rltf_verl.config import MentionsConfig, RLTFConfig
from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env
from rltf_verl.episode.parts import Parts
from rltf_verl.judge.settings import Limits, Price
from rltf_verl.registry import build_block, require_choice
from rltf_verl.runlog.about import read_about
from rltf_verl.tools.evaluate.play import Record
from rltf_verl.tools.evaluate.settings import (
    OF_THE_ENDPOINT,
    OF_THE_EPISODE,
    Evaluation,
    policy_endpoint,
    rltf_block,
    training_blocks,
)
from rltf_verl.tools.report.probe.finding import Setting
from rltf_verl.tools.report.probe.groups import group_of
from rltf_verl.tools.report.probe.judge import Terms
from rltf_verl.tools.report.probe.measures import TrainingRun

SIZES = {
    "problems": ("data.train_batch_size", 1),
    "sessions": ("actor_rollout_ref.rollout.n", 2),
    "prompt_tokens": ("data.max_prompt_length", 1),
    "answer_tokens": ("data.max_response_length", 1),
}
"""Field of `TrainingRun` -> the key of the run's config, and the least that it may be."""


@dataclass(frozen=True)
class Plan:
    """Of one probe."""

    run: TrainingRun
    rltf: RLTFConfig
    env: Env
    phrases: tuple[str, ...]
    """`rltf.mentions.phrases`."""
    limits_known: bool = True
    """False: the lengths of `run` are those of the presets, for want of better."""

    @property
    def setting(self) -> Setting:
        """What advice is about."""
        feedback = self.rltf.feedback
        return Setting(
            feedback.provider.name,
            feedback.provider.options,
            feedback.guard.action,
            feedback.acknowledge_leaks,
            self.rltf.episode.revise,
            self.rltf.episode.context,
        )

    @property
    def terms(self) -> Terms | None:
        """Of the provider's endpoint; None for a provider without one of its own. Raises
        ValueError.
        """
        options = self.rltf.feedback.provider.options
        if "endpoint" not in options:
            return None
        limits = build_block("rltf.feedback.limits", Limits, options.get("limits") or {})
        price = build_block("rltf.feedback.price", Price, options.get("price") or {})
        return Terms(
            limits.max_concurrency,
            limits.requests_per_minute,
            limits.tokens_per_minute,
            price.prompt,
            price.completion,
        )


def plan_to_play(
    told: Mapping[str, Any],
    rounds: int | None,
    env: Mapping[str, Any],
    config: Path | None,
    prompt_budget: int | None,
) -> tuple[Plan, Evaluation]:
    """From the words of the command line.

    Episodes are played as training plays them: they end when solved if its own do, and do not
    branch.

    Args:
        told: nested options of the command line: as of `settings.evaluation`, and the keys of
            `SIZES`.
        rounds: of feedback; None: as in `config`, else 1.
        env: `name` of the dataset's environment, and the options that it was built with.
        config: YAML of a training run, which stands behind what is told.
        prompt_budget: longest prompt in characters.

    Raises:
        ValueError: a bad key or value; names it and the fix.
    """
    sizes, told = _split(told, (*OF_THE_ENDPOINT, *OF_THE_EPISODE))
    run = _training_run(sizes, config)
    endpoint = dict(told.get("endpoint") or {})
    if "max_tokens" in endpoint:
        key = SIZES["answer_tokens"][0]
        raise ValueError(
            f"endpoint.max_tokens={endpoint['max_tokens']}: say {key}={endpoint['max_tokens']}"
            " instead"
        )
    told["endpoint"] = {**endpoint, "max_tokens": run.answer_tokens}
    parts = Parts.of(_as_training(told, training_blocks(config), rounds, env))
    plan = Plan(run, parts.config, parts.env, _phrases(config))
    _ = plan.terms
    return plan, Evaluation(policy_endpoint(told), parts, 0, prompt_budget)


def plan_of_log(
    told: Mapping[str, Any], log: Path, records: Sequence[Record], config: Path | None
) -> Plan:
    """Of episodes that were played: what the log or the files of an evaluation or probe beside it
    say of themselves, a config and words.

    Raises:
        ValueError: a bad key or value; names it and the fix.
    """
    sizes, told = _split(told, OF_THE_EPISODE)
    run = read_about(log)
    known = {
        SIZES["sessions"][0]: _usual_group(records),
        **run.get("sizes", {}),
        **_sizes_of(log.parent / "probe.json"),
    }
    about = log.parent / "evaluation.json"
    trained = {key: value for key, value in training_blocks(config).items() if value is not None}
    blocks = {
        **(_blocks_of(run["rltf"]) if "rltf" in run else {}),
        **(_blocks_of(_evaluation_in(about)) if about.exists() else {}),
        **trained,
    }
    said = Counter(
        s["provider"]
        for r in records
        for t in r["turns"]
        for s in (t["feedback"], t.get("withheld"))
        if s
    )
    provider = said.most_common(1)[0][0] if said else "verifier"
    rltf = rltf_block(
        told, blocks, {"name": records[0]["env"]}, {"horizon": 2, "branch_turn": None}, provider
    )
    env = make_env(rltf.env.name, **rltf.env.options)
    phrases = _phrases(config) if config or not run else tuple(run["phrases"])
    limits = {SIZES[name][0] for name in ("prompt_tokens", "answer_tokens")}
    plan = Plan(
        _training_run({**known, **sizes}, config),
        rltf,
        env,
        phrases,
        limits_known=config is not None or limits <= {*known, *sizes},
    )
    _ = plan.terms
    return plan


def _as_training(
    told: Mapping[str, Any], blocks: Mapping[str, Any], rounds: int | None, env: Mapping[str, Any]
) -> RLTFConfig:
    horizon = int((blocks.get("episode") or {}).get("horizon", 2)) if rounds is None else rounds + 1
    if horizon < 2:
        raise ValueError(
            "rltf.episode.horizon=1: a run without second answers; say --rounds 1 to see what they"
            " would bring"
        )
    rltf = rltf_block(told, blocks, env, {"horizon": horizon, "branch_turn": None})
    return replace(
        rltf,
        episode=replace(rltf.episode, stop_when_solved_val=rltf.episode.stop_when_solved_train),
    )


def _split(told: Mapping[str, Any], blocks: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(sizes by their key, the other blocks)."""
    keys = [key for key, _ in SIZES.values()]
    of_the_run = ("data", "actor_rollout_ref")
    for block in told:
        require_choice("rltf probe", block, (*of_the_run, *blocks))
    sizes = dict(_flat({block: told[block] for block in of_the_run if block in told}))
    for key in sizes:
        require_choice("rltf probe", key, keys)
    return sizes, {block: values for block, values in told.items() if block not in of_the_run}


def _flat(block: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in block.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield before + key, value


def _training_run(told: Mapping[str, Any], config: Path | None) -> TrainingRun:
    """What is told, else what the run's config says, else what every preset does."""
    base = files("hydra_configs.rltf_verl").joinpath("rltf", "base.yaml")
    layers = [OmegaConf.create(base.read_text(encoding="utf-8"))]
    if config is not None:
        layers.insert(0, _loaded(config))
    found = {}
    for name, (key, least) in SIZES.items():
        value = told.get(key)
        for layer in layers if value is None else ():
            value = OmegaConf.select(layer, key) if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            why = "; a group of one has nothing to compare" if least == 2 else ""
            raise ValueError(f"{key}={value}: must be a whole number, at least {least}{why}")
        found[name] = value
    return TrainingRun(**found)


def _phrases(config: Path | None) -> tuple[str, ...]:
    told = (
        OmegaConf.select(_loaded(config), "rltf.mentions.phrases") if config is not None else None
    )
    return tuple(MentionsConfig().phrases if told is None else told)


def _loaded(config: Path) -> Any:
    try:
        return OmegaConf.load(config)
    except (YAMLError, OmegaConfBaseException) as error:
        raise ValueError(f"--config {config}: {error}") from None


def _usual_group(records: Sequence[Record]) -> int:
    """The most common number of episodes of a group; 2 if they play alone, which no run does."""
    usual = Counter(Counter(map(group_of, records)).values()).most_common(1)[0][0]
    return max(2, usual)


def _sizes_of(probe: Path) -> dict[str, Any]:
    """Those of an earlier probe."""
    run = json.loads(probe.read_text(encoding="utf-8"))["run"] if probe.exists() else {}
    return {SIZES[name][0]: value for name, value in run.items()}


def _evaluation_in(about: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(about.read_text(encoding="utf-8"))["evaluation"]
    return facts


def _blocks_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The blocks of a run's config, from the dataclasses that it became."""
    env, feedback = facts["env"], dict(facts["feedback"])
    provider = feedback.pop("provider")
    return {
        "env": {"name": env["name"], **env["options"]},
        "feedback": {"provider": provider["name"], **provider["options"], **feedback},
        "episode": {key: value for key, value in facts["episode"].items() if key != "horizon"},
    }
