"""`rltf feedback check`: calls on attempts that are made up; the sizes of the run to come, and
episodes that are played or read.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from rltf_verl.config import MentionsConfig, NamedOptions, RLTFConfig
from rltf_verl.config.reading import keys_in
from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env
from rltf_verl.envs.calls import bounded
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.episode.mentions import mentions
from rltf_verl.episode.parts import Parts
from rltf_verl.feedback import make_provider
from rltf_verl.feedback.controls import ElsewhereProvider
from rltf_verl.feedback.guard.find import find_leaks
from rltf_verl.judge.gateway import judges_of
from rltf_verl.judge.settings import Limits, Price
from rltf_verl.registry import build_block, require_choice
from rltf_verl.runlog.about import read_about
from rltf_verl.runlog.turns import Record, group_of
from rltf_verl.tools.evaluate.endpoint_policy import CHARACTERS
from rltf_verl.tools.evaluate.log_probs import NoLogProbsError, scored_answers
from rltf_verl.tools.evaluate.play import EvaluationFolder, part_of
from rltf_verl.tools.evaluate.settings import (
    ENDPOINT_BLOCKS,
    EPISODE_BLOCKS,
    Evaluation,
    load_config,
    policy_endpoint,
    questions_of,
    rltf_block,
    training_blocks,
)
from rltf_verl.tools.feedback.attempts import MOST_SAID, CheckedFunction, collect
from rltf_verl.tools.feedback.verdicts import CheckedFeedback
from rltf_verl.tools.report.probe.judge import judge_load
from rltf_verl.tools.report.probe.log_probs import Gap, gap_of
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
CONTROLS = 2
"""Episodes per problem with feedback on another one."""
TREE = {"branch_turn": None}
"""A probe plays no branches."""


@dataclass(frozen=True)
class ProbePlan:
    """One probe."""

    run: TrainingRun
    rltf: RLTFConfig
    env: Env
    phrases: tuple[str, ...]
    """`rltf.mentions.phrases`."""
    limits_known: bool = True
    """False: the lengths of `run` are those of the presets."""

    def probe(self, episodes: Sequence[Record], gap: Gap | None, no_gap: str, seed: int) -> Probe:
        """All that the episodes show."""
        feedback, episode = self.rltf.feedback, self.rltf.episode
        options = feedback.provider.options
        judge = None
        if "endpoint" in options:
            limits = build_block("rltf.feedback.limits", Limits, options.get("limits") or {})
            price = build_block("rltf.feedback.price", Price, options.get("price") or {})
            judge = judge_load(episodes, self.run, limits, price)
        reader = Reader(self._tells, lambda text: bool(mentions(text, self.phrases)))
        return Probe(
            measure(episodes, self.run, reader, seed),
            self.run,
            FeedbackSetting(
                feedback.provider.name,
                options,
                feedback.guard.action,
                feedback.acknowledge_leaks,
                episode.revise,
                episode.context,
            ),
            judge,
            gap,
            no_gap,
        )

    def _tells(self, episode: Record, feedback: str, attempt: str) -> bool | None:
        """By the guard's rules, whatever the guard did. None for an episode of another environment,
        and where the log does not hold all of the problem.
        """
        if episode["env"] != self.env.name or episode.get("task") is None:
            return None
        problem = Problem(episode["env"], episode["index"], episode["task"], episode["reference"])
        try:
            return bool(find_leaks(self.env, problem, feedback, attempt))
        except Exception:  # environments are user code, and logs may be of an older one
            return None


def checked_feedback(
    overrides: Mapping[str, Any], file: Path, num: int, config: Path | None, time: DryRun
) -> CheckedFeedback | None:
    """Feedback of a function on made-up attempts at the first rows of a dataset.
    None where feedback is a model's, or attempts have steps.

    Args:
        overrides: nested options of the command line, as of `ProbeEpisodes`.
        file: dataset.
        num: its first rows.
        config: YAML of a training run, for what the command line leaves out.
        time: counts the time of the calls.

    Raises:
        ValueError: a bad key or value; names it and the fix.
    """
    sizes, overrides = _split(overrides, (*ENDPOINT_BLOCKS, *EPISODE_BLOCKS))
    questions, named = questions_of(file, num, overrides, config)
    rltf = rltf_block(overrides, training_blocks(config), named, {**TREE, "horizon": 2})
    block, env = rltf.feedback.provider, make_env(rltf.env.name, **rltf.env.options)
    provider = make_provider(block.name, **block.options)
    if env.acts or judges_of(env) or judges_of(provider):
        return None
    if rltf.env.name == "reward_function":
        env = CheckedFunction(**rltf.env.options)
    return CheckedFeedback(
        bounded(env),
        collect(env, provider, questions, time),
        min(CHARACTERS * _training_run(sizes, config).prompt_tokens, MOST_SAID - 1),
        provider.tells_answer,
        provider.constant,
    )


class ProbeEpisodes:
    """Episodes that are played now, or were by an earlier call.

    Args:
        overrides: nested options of the command line: as of `settings.evaluation`, and the keys of
            `SIZES`.
        file: dataset.
        problems: its first rows.
        out: folder of the episodes.
        rounds: of feedback; None: as in `config`, else 1.
        config: YAML of a training run, for what the command line leaves out.
        prompt_budget: longest prompt in characters.

    Raises:
        ValueError: a bad key or value; names it and the fix.
    """

    def __init__(
        self,
        overrides: Mapping[str, Any],
        file: Path,
        problems: int,
        out: Path,
        *,
        rounds: int | None,
        config: Path | None,
        prompt_budget: int | None,
    ) -> None:
        self._questions, env = questions_of(file, problems, overrides, config)
        self._plan, self._evaluation = _plan_to_play(overrides, rounds, env, config, prompt_budget)
        if self._plan.env.acts:
            raise ValueError(
                f"env.name={self._plan.env.name}: a probe predicts runs of single answers, and this"
                " environment has steps; play its trajectories with rltf eval"
            )
        self._control_out = out.with_name(f"{out.name}_control")  # a folder holds one log
        self.folder = EvaluationFolder(
            out, self._evaluation, self._questions, self._plan.run.sessions
        )
        self.folder.play()
        self.episodes = self.folder.episodes()

    def probe(self, most: int, seed: int) -> Probe:
        """All that they show, with the log-probs of at most so many answers."""
        gap, no_gap = None, "--log-probs 0"
        try:
            if most:
                scored = scored_answers(self._evaluation, self.episodes, self._questions, most)
                gap = gap_of(*asyncio.run(scored), seed)
        except NoLogProbsError as error:
            no_gap = str(error)
        made = self._plan.probe(self.episodes, gap, no_gap, seed)
        return replace(made, control=self._control(seed))

    def _control(self, seed: int) -> Probe | None:
        """A group per problem with feedback that was given at another; None without such."""
        texts = defaultdict[int, list[str]](list)
        for episode in self.episodes:
            given = (t["feedback"] for t in episode["turns"] if not t["grade"]["correct"])
            texts[episode["index"]] += [feedback["text"] for feedback in given if feedback]
        told = {index: some for index, some in texts.items() if some}
        if len(told) < 2:
            return None
        config, parts = self._plan.rltf, self._evaluation.parts
        shuffled = NamedOptions("shuffled", {"inner": asdict(config.feedback.provider)})
        config = replace(config, feedback=replace(config.feedback, provider=shuffled))
        control = replace(parts, config=config, provider=ElsewhereProvider(told))
        evaluation = replace(self._evaluation, parts=control)
        plan = replace(self._plan, rltf=config, run=replace(self._plan.run, sessions=CONTROLS))
        folder = EvaluationFolder(self._control_out, evaluation, self._questions, CONTROLS)
        folder.play()
        return plan.probe(folder.episodes(), None, "", seed)


def _plan_to_play(
    overrides: Mapping[str, Any],
    rounds: int | None,
    env: Mapping[str, Any],
    config: Path | None,
    prompt_budget: int | None,
) -> tuple[ProbePlan, Evaluation]:
    """Episodes are played as training plays them: they end when solved if its own do, and do not
    branch.
    """
    sizes, overrides = _split(overrides, (*ENDPOINT_BLOCKS, *EPISODE_BLOCKS))
    run = _training_run(sizes, config)
    endpoint = dict(overrides.get("endpoint") or {})
    if "max_tokens" in endpoint:
        key = SIZES["answer_tokens"][0]
        raise ValueError(
            f"endpoint.max_tokens={endpoint['max_tokens']}: set {key}={endpoint['max_tokens']}"
            " instead"
        )
    overrides["endpoint"] = {**endpoint, "max_tokens": run.answer_tokens}
    blocks = training_blocks(config)
    horizon = int((blocks.get("episode") or {}).get("horizon", 2)) if rounds is None else rounds + 1
    if horizon < 2:
        raise ValueError(
            "rltf.episode.horizon=1: the run has no second answers; add --rounds 1 to see what they"
            " would bring"
        )
    rltf = rltf_block(overrides, blocks, env, {**TREE, "horizon": horizon})
    ends = rltf.episode.stop_when_solved_train
    parts = Parts.of(replace(rltf, episode=replace(rltf.episode, stop_when_solved_val=ends)))
    plan = ProbePlan(run, parts.config, parts.env, _phrases(config))
    return plan, Evaluation(policy_endpoint(overrides), parts, 0, prompt_budget)


def plan_of_log(
    overrides: Mapping[str, Any], log: Path, records: Sequence[Record], config: Path | None
) -> ProbePlan:
    """The plan of episodes that were played: from the log, the files of an evaluation or probe next
    to it, a config and the command line.

    Raises:
        ValueError: a bad key or value; names it and the fix.
    """
    sizes, overrides = _split(overrides, EPISODE_BLOCKS)
    run = read_about(log)
    about, probe = log.parent / "evaluation.json", log.parent / "probe.json"
    earlier = part_of(probe, "run", dict) if probe.exists() else {}
    # the most common number of episodes of a group; 2 if they play alone, which no run does
    group = Counter(Counter(map(group_of, records)).values()).most_common(1)[0][0]
    sizes = {
        SIZES["sessions"][0]: max(2, group),
        **run.get("sizes", {}),
        **{SIZES[name][0]: value for name, value in earlier.items()},
        **sizes,
    }
    blocks = _blocks_of(run["rltf"]) if "rltf" in run else {}
    if about.exists():
        blocks |= _blocks_of(part_of(about, "evaluation", dict))
    blocks |= {key: value for key, value in training_blocks(config).items() if value is not None}
    texts = (t.get(kind) for r in records for t in r["turns"] for kind in ("feedback", "withheld"))
    providers = Counter(text["provider"] for text in texts if text).most_common(1)
    provider = providers[0][0] if providers else "verifier"
    env = {"name": records[0]["env"]}
    rltf = rltf_block(overrides, blocks, env, {**TREE, "horizon": 2}, provider)
    return ProbePlan(
        _training_run(sizes, config),
        rltf,
        make_env(rltf.env.name, **rltf.env.options),
        _phrases(config) if config or not run else tuple(run["phrases"]),
        limits_known=config is not None
        or {SIZES[name][0] for name in ("prompt_tokens", "answer_tokens")} <= sizes.keys(),
    )


def _split(
    overrides: Mapping[str, Any], blocks: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(sizes of the run to come by their key, the other blocks)."""
    of_the_run = ("data", "actor_rollout_ref")
    for block in overrides:
        require_choice("rltf feedback check", block, (*of_the_run, *blocks))
    sizes: dict[str, Any] = {}
    for block in of_the_run:
        for key, _, value in keys_in(block, overrides.get(block)):
            if not isinstance(value, Mapping):
                require_choice("rltf feedback check", key, [key for key, _ in SIZES.values()])
                sizes[key] = value
    return sizes, {block: values for block, values in overrides.items() if block not in of_the_run}


def _training_run(overrides: Mapping[str, Any], config: Path | None) -> TrainingRun:
    """The command line's sizes, else those of the run's config, else those of every preset."""
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
