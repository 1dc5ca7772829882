"""From the words of the command line to what an evaluation is played by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from rltf_verl.config import RLTFConfig
from rltf_verl.data.made_for import made_for, require_known, takes_rows_of
from rltf_verl.data.questions import QuestionRow, read_questions
from rltf_verl.data.schema import VerlRowsError
from rltf_verl.envs.calls import tools_of
from rltf_verl.episode.parts import Parts
from rltf_verl.judge.settings import JudgeSettings, judge_settings
from rltf_verl.registry import require_choice
from rltf_verl.runlog.about import BLOCKS
from rltf_verl.tools.evaluate.endpoint_policy import PolicyEndpoint

ENDPOINT_BLOCKS = ("endpoint", "limits")
EPISODE_BLOCKS = BLOCKS
PATIENCE = {"request_timeout_s": 600.0, "deadline_s": 1800.0}
"""Seconds. An answer is longer than a judge's remark, and nothing waits for it but this
evaluation.
"""
AS_VALIDATION = {"stop_when_solved_val": False}
"""Every turn's accuracy is over all problems."""


@dataclass(frozen=True)
class Evaluation:
    """Everything that decides the questions and their grading."""

    policy: JudgeSettings
    """The endpoint that is evaluated."""
    parts: Parts
    step: int = 0
    """Training step whose validation has the same sampling seeds."""
    prompt_budget: int | None = None
    """Longest prompt in characters; None leaves it to the endpoint."""

    def facts(self) -> dict[str, Any]:
        """The settings that two runs into one folder must share, as JSON values."""
        endpoint = {
            k: v
            for k, v in asdict(self.policy.endpoint).items()
            if k not in ("base_url", "api_key_env")
        }
        rltf = {k: v for k, v in asdict(self.parts.config).items() if k in EPISODE_BLOCKS}
        return {
            "endpoint": endpoint,
            **rltf,
            "step": self.step,
            "prompt_budget": self.prompt_budget,
        }

    def own_files(self) -> dict[str, str]:
        """Each file of the user's that a setting names, and a digest of what it holds."""
        paths = [Path(name).expanduser() for name in _files_in(self.facts())]
        return {
            str(path): hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
            for path in paths
            if path.is_file()
        }


def _files_in(setting: Any) -> Iterator[str]:
    """Values, at any depth, that look like a file of a user's class or template."""
    if isinstance(setting, str):
        code = setting.rpartition(":")[0]
        yield from (name for name in (code, setting) if name.endswith((".py", ".j2")))
    elif isinstance(setting, Mapping | Sequence):
        for inner in setting.values() if isinstance(setting, Mapping) else setting:
            yield from _files_in(inner)


def evaluation(
    overrides: Mapping[str, Any],
    rounds: int,
    env: Mapping[str, Any],
    *,
    config: Path | None = None,
    step: int = 0,
    prompt_budget: int | None = None,
) -> Evaluation:
    """Read the settings.

    Args:
        overrides: nested options of the command line: `endpoint`, `limits` of the policy's
            endpoint; `env`, `episode`, `feedback`, `reward`, `seed` as in the block `rltf:`.
        rounds: of feedback; one turn more is played.
        env: `name` of the dataset's environment, and the options that it was built with.
        config: YAML of a training run; its block `rltf:` holds where the command line is silent.
        step: training step whose sampling seeds are used.
        prompt_budget: longest prompt in characters.

    Raises:
        ValueError: a bad key or value; names it and the fix.
    """
    for key in overrides:
        require_choice("rltf eval", key, (*ENDPOINT_BLOCKS, *EPISODE_BLOCKS))
    rltf = rltf_block(
        overrides, training_blocks(config), env, {**AS_VALIDATION, "horizon": rounds + 1}
    )
    parts = Parts.of(rltf, keeps_answers=True)
    return Evaluation(
        _with_tools(policy_endpoint(overrides), tools_of(parts.env)), parts, step, prompt_budget
    )


def _with_tools(settings: JudgeSettings, tools: Sequence[Mapping[str, Any]]) -> JudgeSettings:
    """The endpoint, whose requests have the environment's tools."""
    if not tools:
        return settings
    body = {"tools": list(tools), **json.loads(settings.endpoint.extra_body)}
    return replace(settings, endpoint=replace(settings.endpoint, extra_body=body))


def rltf_block(
    overrides: Mapping[str, Any],
    blocks: Mapping[str, Any],
    env: Mapping[str, Any],
    fixed: Mapping[str, Any],
    provider: str = "verifier",
) -> RLTFConfig:
    """The config that episodes are played with.

    Args:
        overrides: as of `evaluation`.
        blocks: the same of a training run, for what the command line leaves out.
        env: as of `evaluation`.
        fixed: keys of the block `episode` that hold unless `overrides` say otherwise, and
            `horizon`.
        provider: default of the feedback.

    Raises:
        ValueError: a bad key or value; names it and the fix.
    """
    episode = dict(overrides.get("episode") or {})
    if "horizon" in episode:
        horizon = episode["horizon"]
        rounds = horizon - 1 if isinstance(horizon, int) else "N"
        raise ValueError(f"episode.horizon={horizon}: write --rounds {rounds} instead")
    given = {key: overrides.get(key, blocks.get(key)) for key in ("reward", "seed")}
    values = {key: value for key, value in given.items() if value is not None}
    values["episode"] = {**(blocks.get("episode") or {}), **fixed, **episode}
    values["env"] = _component("env", "name", overrides, blocks, env)
    values["feedback"] = _component(
        "feedback", "provider", overrides, blocks, {"provider": provider}
    )
    reward = values.get("reward", {})
    if isinstance(reward, Mapping):  # else the config refuses it
        values["reward"] = {**_of_yaml("env", values["env"]["name"]).get("reward", {}), **reward}
    return RLTFConfig.from_mapping(values)


def policy_endpoint(overrides: Mapping[str, Any]) -> JudgeSettings:
    """The endpoint that is evaluated, from its blocks `endpoint` and `limits`. Raises
    ValueError.
    """
    options = {key: overrides[key] for key in ENDPOINT_BLOCKS if key in overrides}
    options["limits"] = {**PATIENCE, **(options.get("limits") or {})}
    return judge_settings(options, endpoint=PolicyEndpoint)


def _component(
    block: str,
    name_key: str,
    overrides: Mapping[str, Any],
    blocks: Mapping[str, Any],
    default: Mapping[str, Any],
) -> dict[str, Any]:
    """A block that begins with a component's name: the command line, over the training run's block
    if it names the same component, else over the default and our YAML of the component.
    """
    given, trained = dict(overrides.get(block) or {}), dict(blocks.get(block) or {})
    name = str(given.get(name_key) or trained.get(name_key) or default[name_key])
    if trained.get(name_key) == name:
        return _merge(trained, given)
    preset = _of_yaml(block, name)
    # a YAML of `# @package rltf` (rltf/env=reward_function) names its block, others are the block
    usual = _merge(preset.get(block, preset), default if default[name_key] == name else {})
    return _merge(usual, {**given, name_key: name})


def _of_yaml(block: str, name: str) -> dict[str, Any]:
    """The settings of `rltf/<block>=<name>` in a training run; none for user-defined components."""
    path = files("hydra_configs.rltf_verl").joinpath("rltf", block, f"{name}.yaml")
    if not (name.isidentifier() and path.is_file()):
        return {}
    return dict(_container(OmegaConf.create(path.read_text(encoding="utf-8"))))


def questions_of(
    file: Path, num: int | None, overrides: Mapping[str, Any], config: Path | None
) -> tuple[list[QuestionRow], dict[str, Any]]:
    """The first rows of a dataset, and what `rltf.env` is for them: the environment of the command
    line, that of the run's config, or the one that the file names with its options.
    """
    env, trained = dict(overrides.get("env") or {}), dict(training_blocks(config).get("env") or {})
    if env.get("name", trained.get("name")) == trained.get("name"):
        env = {**trained, **env}
    name = env.pop("name", None)
    try:
        questions = read_questions(file, num, takes_rows_of(file, name, env))
    except VerlRowsError as error:
        choice = "env.name=reward_function env.function=./reward.py:compute_score"
        raise VerlRowsError(error.trouble, choice) from None
    made = made_for(file, questions[0].problem.env)
    if name is None:
        require_known(file, made)
        return questions, {**made.options, "name": made.spec}
    return questions, {**made.at(str(name)).options, "name": name}


def load_config(config: Path) -> Any:
    """The YAML of a run. Raises ValueError."""
    try:
        return OmegaConf.load(config)
    except OSError as error:
        raise ValueError(
            f"--config {config}: {error.strerror}, seen from {Path.cwd()}; a run's own is"
            " <hydra.run.dir>/.hydra/config.yaml"
        ) from None
    except (YAMLError, OmegaConfBaseException) as error:
        raise ValueError(f"--config {config}: {error}") from None


def training_blocks(config: Path | None) -> dict[str, Any]:
    """The blocks of a run's resolved config that an evaluation shares; those about learning are not
    read. Raises ValueError: not such a file.
    """
    if config is None:
        return {}
    loaded = load_config(config)
    try:
        blocks = {
            key: _container(OmegaConf.select(loaded, f"rltf.{key}")) for key in EPISODE_BLOCKS
        }
    except OmegaConfBaseException as error:
        raise ValueError(f"--config {config}: {error}") from None
    if all(value is None for value in blocks.values()):
        raise ValueError(
            f"--config {config}: no `rltf:` block in it; a run's own is"
            " <hydra.run.dir>/.hydra/config.yaml"
        )
    return blocks


def _container(node: Any) -> Any:
    return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node


def _merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Blocks are merged key by key; anything else is replaced, and a block of another provider."""
    merged = {**under, **over}
    for key, value in over.items():
        before = under.get(key)
        if not (isinstance(value, Mapping) and isinstance(before, Mapping)):
            continue
        if value.get("provider") in (None, before.get("provider")):
            merged[key] = _merge(before, value)
    return merged
