"""The agent loop `rltf`: plays an episode against verl's rollout engine and hands its rows to the
trainer.

One loop object plays all episodes of a worker, so it keeps nothing of any; the worker holds
everything shared.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from pydantic import ConfigDict, Field
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from rltf_verl.adapters.metrics.validation import averaged_info, unaveraged_info
from rltf_verl.adapters.queue.columns import DRAW, episode_facts, row_columns
from rltf_verl.adapters.rollout.verl_policy import VERSIONS, VerlPolicy
from rltf_verl.config import ConfigError, EpisodeConfig, RLTFConfig
from rltf_verl.data.schema import first_prompt, problem_of
from rltf_verl.envs.calls import tools_of
from rltf_verl.episode.acting import first_messages
from rltf_verl.episode.foreign import ForeignAttempt, attempt_of
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.rows import attempt_rows
from rltf_verl.episode.run import EpisodePlayer
from rltf_verl.episode.seeds import seeds_of_episode
from rltf_verl.feedback.group import Groups
from rltf_verl.judge.gateway import Opener
from rltf_verl.objectives import Method
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.runlog.episodes import EpisodeLog
from rltf_verl.types import CONTEXT, Episode, Message, Problem, Row


class WorkerContext:
    """State that all episodes of one worker process share."""

    def __init__(self, trainer_config: DictConfig, opener: Opener) -> None:
        config: Any = OmegaConf.to_container(trainer_config.rltf, resolve=True)
        self.parts = Parts.of(RLTFConfig.from_mapping(config)).open(opener)
        self.config = self.parts.config
        self.method = Method(self.config)
        self.groups = Groups()
        log = self.config.episode_log
        self.log = EpisodeLog(Path(log.dir), f"{os.getpid()}", ids=log.ids) if log.dir else None

    def seeds_of(self, row: Mapping[str, Any], problem: Problem) -> Callable[[str], int]:
        """The sampling seeds of a dataset row's episode."""
        return seeds_of_episode(
            self.config.seed,
            validate=bool(row["rltf_validate"]),
            step=int(row["global_steps"]),
            source=str(row["data_source"]),
            index=problem.index,
            session_id=int(row["session_id"]),
            pair_sessions=self.config.episode.pair_sessions,
            draw=int(row.get(DRAW, 0)),
        )

    async def write(
        self, episode: Episode, messages: Sequence[Message], row: Mapping[str, Any]
    ) -> None:
        """Append the episode to the log, where there is one. A slow disk holds up this episode, not
        the event loop.
        """
        if self.log is not None:
            await self.log.writer.run(
                partial(
                    self.log.append,
                    episode,
                    question=messages[-1]["content"],
                    step=int(row["global_steps"]),
                    validate=bool(row["rltf_validate"]),
                    uid=str(row["uid"]),
                    source=str(row["data_source"]),
                    seed=self.config.seed,
                    context=messages[:-1],
                )
            )

    async def close(self) -> int:
        """At the end of the run: episodes that the log lacks."""
        return await self.log.writer.run(self.log.close) if self.log else 0


class RowOutput(AgentLoopOutput):
    """One row on its way to the transfer queue.

    verl copies the reward of an episode's last output over its other outputs; the columns given
    here are laid over verl's own after that, so every row keeps its rewards.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    columns: dict[str, Any] = Field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """verl's fields of the row, with ours laid over them."""
        fields: dict[str, Any] = super().as_dict()
        fields.update(fields.pop("columns"))
        return fields


class RLTFAgentLoop(AgentLoopBase):
    """One episode: 1..horizon turns, then one training row per role and turn."""

    async def run(  # type: ignore[override]  # verl takes a list too, its annotation does not
        self, sampling_params: dict[str, Any], **kwargs: Any
    ) -> list[AgentLoopOutput]:
        """Play the episode of one dataset row.

        Args:
            sampling_params: verl's sampling parameters.
            kwargs: the dataset row, with `uid`, `session_id`, `global_steps` and, from our worker,
                `rltf_validate` and `rltf_shared`.

        Returns:
            The rows, the last attempt last.
        """
        tools = tools_of(kwargs["rltf_shared"].parts.env)
        return await _rows(VerlPolicy.of(self, sampling_params, kwargs, tools), kwargs)


async def rows_of_foreign_loop(
    loop: AgentLoopBase, output: AgentLoopOutput, feedback: str | None = None, **kwargs: Any
) -> list[AgentLoopOutput]:
    """The rows of a trajectory that another agent loop of verl has played; its name in the
    dataset's column `agent_name` begins with `rltf_`.

    Args:
        loop: that loop.
        output: what it returned. `reward_score=None`: the environment grades the last answer.
        feedback: a text on it; None: the provider's, where feedback trains anything.
        kwargs: those of `RLTFAgentLoop.run`.

    Raises:
        ValueError: as of `attempt_of`.
    """
    policy = VerlPolicy.of(loop, {}, kwargs, getattr(loop, "tool_schemas", ()))
    # Not strict: `attempt_of` names lists that differ in length.
    sampled = [
        i for i, mine in zip(output.response_ids, output.response_mask, strict=False) if mine
    ]
    attempt = attempt_of(
        policy,
        output.prompt_ids,
        output.response_ids,
        output.response_mask,
        output.response_logprobs or None,
        vocabulary=len(cast(Any, loop.tokenizer)),
        ended=bool(sampled) and policy.ends(sampled),
        info={key: output.extra_fields.get(key) for key in VERSIONS},
    )
    return await _rows(policy, kwargs, ForeignAttempt(attempt, output.reward_score, feedback))


async def _rows(
    policy: VerlPolicy, row: Mapping[str, Any], foreign: ForeignAttempt | None = None
) -> list[AgentLoopOutput]:
    """Play the episode of a dataset row, whose attempt another loop may have played."""
    shared: WorkerContext = row["rltf_shared"]
    start, validate = time.monotonic(), bool(row["rltf_validate"])
    config, rollout = policy.loop.config, policy.loop.rollout_config
    horizon = _horizon(shared.config.episode, config.trainer, int(row["global_steps"]), validate)
    problem = problem_of(shared.parts.env, row)
    try:
        messages = first_prompt(row)
    except ValueError as error:
        place = f"data.train_files or data.val_files, problem {problem.index}"
        raise ConfigError(f"{place}: {error}") from error
    if shared.parts.env.acts and foreign is None:
        messages = await first_messages(shared.parts.env, problem, messages)
    size = rollout.val_kwargs.n if validate else rollout.n
    episode = await EpisodePlayer(
        shared.parts,
        policy,
        problem,
        messages,
        session_id=int(row["session_id"]),
        validate=validate,
        seed_of=shared.seeds_of(row, problem),
        group=shared.groups.of(str(row["uid"]), int(size)),
        most_turns=horizon,
        foreign=foreign,
    ).play()
    await shared.write(episode, messages, row)
    info = averaged_info(episode, horizon)
    if not validate:
        rows = await episode_rows(policy, messages, episode, shared.method)
    else:
        # Validation reads only the last row; an objective's rows would be generated for nothing.
        rows = attempt_rows(episode)
        question = messages[-1]["content"] if config.trainer.log_val_generations else None
        info |= unaveraged_info(episode, horizon, question)
    return _outputs(episode, rows, shared.config, info, time.monotonic() - start)


def _horizon(config: EpisodeConfig, trainer: Any, step: int, validate: bool) -> int:
    if not validate or trainer.get("val_only"):
        return config.horizon
    return config.val_horizon(step, trainer.test_freq, trainer.total_training_steps)


def _outputs(
    episode: Episode,
    rows: Sequence[Row],
    config: RLTFConfig,
    info: dict[str, Any],
    seconds: float,
) -> list[AgentLoopOutput]:
    facts = episode_facts(episode, config.episode.horizon)
    # verl tags rows with the oldest and newest weights: those of the whole episode.
    found = [t.attempt.info.get(k) for t in episode.turns for k in VERSIONS]
    steps: list[Any] = [step for step in found if step is not None]
    extra = {
        "reward_extra_info": info,
        "min_global_steps": min(steps, default=None),
        "max_global_steps": max(steps, default=None),
    }
    # verl counts messages: a question or an observation, and an answer.
    num_turns = 2 * sum(len(turn.attempt.spans) for turn in episode.turns)
    return [
        RowOutput(
            prompt_ids=list(row.prompt_ids),
            response_ids=list(row.response_ids),
            response_mask=[int(role != CONTEXT) for role in row.role],
            response_logprobs=list(row.log_probs) if row.log_probs is not None else None,
            reward_score=episode.turns[-1].reward,
            num_turns=num_turns,
            metrics=AgentLoopMetrics(generate_sequences=seconds),
            extra_fields=dict(extra),
            columns=row_columns(row, facts, teaches=config.teaches),
        )
        for row in rows
    ]
