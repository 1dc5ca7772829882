"""The agent loop `rltf`: plays an episode against verl's rollout engine and hands its rows to the
trainer.

One loop object plays all episodes of a worker, so it keeps nothing of any; the worker holds
everything shared.
"""

from __future__ import annotations

import copy
import os
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput
from verl.experimental.agent_loop.tool_parser import ToolParser
from verl.tools.schemas import OpenAIFunctionToolSchema
from verl.utils.fs import copy_to_local
from verl.utils.model import get_generation_config
from verl.utils.tokenizer.continuous_token import ContinuousTokenBuilder

from rltf_verl.adapters.compat import ENGINES_WITH_SEEDS
from rltf_verl.adapters.metrics.validation import averaged_info, unaveraged_info
from rltf_verl.adapters.queue.columns import DRAW, RowOutput, episode_facts, row_columns
from rltf_verl.adapters.queue.token_texts import token_texts
from rltf_verl.adapters.rollout.chat_form import USER, ChatForm, after_answer, chat_form
from rltf_verl.config import ConfigError, EpisodeConfig, RLTFConfig
from rltf_verl.data.schema import first_prompt, problem_of
from rltf_verl.envs.calls import tools_of
from rltf_verl.episode.acting import first_messages
from rltf_verl.episode.foreign import ForeignAttempt, attempt_of
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.revise import inserted_span
from rltf_verl.episode.rows import attempt_rows
from rltf_verl.episode.run import EpisodePlayer
from rltf_verl.episode.seeds import seeds_of_episode
from rltf_verl.feedback.group import Groups
from rltf_verl.judge.gateway import Opener
from rltf_verl.objectives import Method
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.policy import Calls
from rltf_verl.prompts.quote import control_tokens
from rltf_verl.runlog.episodes import EpisodeLog
from rltf_verl.types import CONTEXT, Attempt, Episode, Message, Problem, Row

VERSIONS = ("min_global_steps", "max_global_steps")
"""Fields of the engine's output: the oldest and newest parameters that sampled."""


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


@cache
def _plain_text_tokenizer(tokenizer: Any) -> Any:
    """A copy for encoding text in which special tokens are only characters.

    Encoding so changes the tokenizer's state, which raises "Already borrowed" while another thread
    encodes with it.
    """
    return copy.deepcopy(tokenizer)


@cache
def _end_tokens_of(
    tokenizer: Any, of_template: tuple[int, ...], path: str, trust_remote_code: bool
) -> frozenset[int]:
    """The last tokens of answers that ended by themselves, from tokenizer, chat template and
    generation config: engines report a reached limit in the same way as an end.
    """
    generation = get_generation_config(copy_to_local(path), trust_remote_code)
    of_model = getattr(generation, "eos_token_id", None)  # a number, a list or None
    ends = {tokenizer.eos_token_id, *of_template}
    if isinstance(of_model, list):
        ends.update(of_model)
    elif of_model is not None:
        ends.add(of_model)
    return frozenset(ends)


@cache
def _tool_parser(tokenizer: Any, name: str) -> ToolParser:
    return ToolParser.get_tool_parser(name, tokenizer)


def _tokens_of(tokenizer: Any, ids: tuple[int, ...], num_chars: int) -> int:
    """Number of tokens that the beginning of their text takes, the last one perhaps in part; by
    bisection.
    """
    # The first n whose decoded beginning is that long; where none is, all of them.
    return bisect_left(range(len(ids)), num_chars, key=lambda n: len(tokenizer.decode(ids[:n])))


@cache
def _special_tokens(tokenizer: Any) -> tuple[str, ...]:
    return control_tokens(
        {str(token): token.special for token in tokenizer.added_tokens_decoder.values()}
    )


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


class VerlPolicy:
    """`policy.ActingPolicy` on verl's rollout engine: ids in, ids out.

    Args:
        loop: the agent loop, with tokenizer, token builder and engine.
        sampling_params: verl's.
        episode: id of its requests.
        send_seeds: to engines that take them.
        tools: schemas that every prompt has.
    """

    def __init__(
        self,
        loop: AgentLoopBase,
        sampling_params: dict[str, Any],
        episode: str = "",
        send_seeds: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.loop: Any = loop
        self._tools = list(tools) or None
        self._tokenizer: Any = loop.tokenizer
        self._sampling_params = sampling_params
        self._episode = episode
        self._send_seeds = send_seeds and loop.rollout_config.name in ENGINES_WITH_SEEDS
        self.prompt_budget = int(loop.rollout_config.prompt_length)
        self.response_budget = int(loop.rollout_config.response_length)
        self.special_tokens: tuple[str, ...] | None = _special_tokens(loop.tokenizer)

    @classmethod
    def of(
        cls,
        loop: AgentLoopBase,
        sampling_params: dict[str, Any],
        row: Mapping[str, Any],
        tools: Sequence[Mapping[str, Any]],
    ) -> VerlPolicy:
        """The policy of a dataset row's episode."""
        episode, seeds = f"{row['uid']}_{row['session_id']}", row["rltf_shared"].config.seed
        return cls(loop, sampling_params, episode, send_seeds=seeds is not None, tools=tools)

    async def encode(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """verl's own tokenisation of a first prompt, without its truncation."""
        builder = self.loop.continuous_token_builder
        build = partial(builder.build_initial_tokens, list(messages), tools=self._tools)
        ids = await self.loop.loop.run_in_executor(None, build)
        return tuple(int(i) for i in ids)

    async def encode_unthinking(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """`encode`, and what the chat template has in place of thoughts."""
        return await self.encode(messages) + self._chat_form.no_thoughts

    async def extend(
        self, ids: tuple[int, ...], messages: Sequence[Message], message: Message
    ) -> tuple[int, ...]:
        """The conversation with a message and the header of the next answer, by verl's token
        builder of the model's family, else by the chat template.

        verl's general builder renders the message after a question, and so loses what the template
        writes between an answer's end token and the message (ChatML's line break).

        An answer that was cut off, or that ended with a token which ends no turn in this template
        (another one of the generation config), is ended first: the builder adds the separator of
        turns, not the end of one.
        """
        return await self._append(ids, list(messages), [dict(message)])

    async def observe(
        self, ids: tuple[int, ...], observations: Sequence[Message]
    ) -> tuple[int, ...]:
        """See `extend`. A builder reads only the last roles of earlier messages, so one exchange
        replaces them all.
        """
        before = [USER, {"role": "assistant", "content": ""}]
        return await self._append(ids, before, list(observations))

    async def _append(
        self, ids: tuple[int, ...], before: list[Message], added: list[Message]
    ) -> tuple[int, ...]:
        builder = self.loop.continuous_token_builder
        end = self._chat_form.end_of_turn
        ends_turn = ids[-1] in (end[-1:] or (self._tokenizer.eos_token_id,))
        ended = [*ids, *(() if ends_turn else end)]

        def render() -> tuple[int, ...]:
            # A subclass knows its model's family; the general builder loses a separator (see
            # `extend`).
            if type(builder) is not ContinuousTokenBuilder:
                # A template that wants roles to alternate raises: verl renders the message alone.
                with suppress(Exception):
                    merged = builder.merge_context_tokens(
                        before, [*before, *added], ended, tools=self._tools
                    )
                    return tuple(int(i) for i in merged.token_ids)
            settings = builder.chat_template_kwargs
            # `ended` has the end of the turn already.
            return (*ended, *after_answer(self._tokenizer, settings, added)[len(end) :])

        return await self.loop.loop.run_in_executor(None, render)

    async def read_calls(self, ids: tuple[int, ...]) -> Calls:
        """The calls that verl's parser finds (`rollout.multi_turn.format`)."""
        tools = [OpenAIFunctionToolSchema.model_validate(tool) for tool in self._tools or ()]
        content, calls = await self._parser.extract_tool_calls(list(ids), tools)
        read = tuple((call.name, call.arguments) for call in calls)
        return await self.loop.loop.run_in_executor(None, self._locate_calls, ids, content, read)

    def _locate_calls(
        self, ids: tuple[int, ...], content: str, calls: tuple[tuple[str, str], ...]
    ) -> Calls:
        """The calls with their place: the parser cuts them out of the text.

        A parser leaves out a call that it cannot decode, so what is cut out, or begins a call, and
        gives none, is malformed.
        """
        text = self._tokenizer.decode(ids)
        # Where the decoded text has something that the parser's content lacks.
        start, end = inserted_span(content, text)
        # `<` may begin the call and the text after it: then the place is one too far right.
        while 0 < start < end and text[start - 1] == text[end - 1]:
            start, end = start - 1, end - 1
        opening = getattr(self._parser, "tool_call_start_token", None)
        begun = text.count(opening) if opening else int(end > start)
        if not calls:
            return Calls((), malformed=begun > 0)
        first = _tokens_of(self._tokenizer, ids, start)
        return Calls(calls, begun > len(calls), (first, _tokens_of(self._tokenizer, ids, end)))

    async def clip(self, text: str, tokens: int) -> str:
        """The text, without its middle where it has more tokens."""
        # A token has a byte at least, so this text fits, and no thread is needed.
        if len(text.encode()) <= tokens:
            return text
        return await self.loop.loop.run_in_executor(None, self._clip, text, tokens)

    def _clip(self, text: str, tokens: int) -> str:
        half = tokens // 2
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        if len(ids) <= tokens:
            return text
        head, tail = (
            self._tokenizer.decode(ids[:half]),
            # The last tokens − half.
            self._tokenizer.decode(ids[half - tokens :]),
        )
        return f"{head}\n[… {len(ids) - tokens} tokens left out …]\n{tail}"

    @property
    def _parser(self) -> ToolParser:
        return _tool_parser(self._tokenizer, self.loop.rollout_config.multi_turn.format)

    @property
    def _chat_form(self) -> ChatForm:
        builder = self.loop.continuous_token_builder
        return chat_form(self._tokenizer, builder.chat_template_kwargs)

    @cached_property
    def _end_tokens(self) -> frozenset[int]:
        model = self.loop.config.actor_rollout_ref.model
        path = str(model.get("hf_config_path") or model.path)
        return _end_tokens_of(
            self._tokenizer,
            self._chat_form.end_of_turn[-1:],
            path,
            bool(model.get("trust_remote_code")),
        )

    async def encode_answer(self, text: str) -> tuple[int, ...]:
        """Plain text as an answer, ended by the end token, cut off at
        `data.max_response_length`.
        """
        tokenizer, limit = (
            _plain_text_tokenizer(self._tokenizer),
            int(self.loop.rollout_config.response_length),
        )
        ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        end = self._chat_form.end_of_turn[-1:] or (tokenizer.eos_token_id,)
        return tuple([*ids, *end][:limit])

    def pieces(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        """Without special tokens."""
        return tuple(token_texts(partial(self._tokenizer.decode, skip_special_tokens=True), ids))

    async def sample(
        self, prompt_ids: tuple[int, ...], seed: int, max_tokens: int | None = None
    ) -> Attempt:
        """One answer from the engine, with its log-probs as the engine reports them."""
        params = dict(self._sampling_params)
        if max_tokens is not None:
            params["max_tokens"] = max_tokens
        if stops := self._stops:
            params["stop_token_ids"] = [*(params.get("stop_token_ids") or ()), *stops]
        if self._send_seeds:
            params["seed"] = seed
        output = await self.loop.server_manager.generate(
            request_id=self._request_id(seed), prompt_ids=list(prompt_ids), sampling_params=params
        )
        ids = tuple(output.token_ids)
        if not ids:
            raise RuntimeError(
                f"the rollout engine returned no token (stop reason {output.stop_reason})"
            )
        return Attempt(
            prompt_ids=prompt_ids,
            response_ids=ids,
            log_probs=tuple(output.log_probs) if output.log_probs else None,
            text=self._tokenizer.decode(ids, skip_special_tokens=True),
            ended=self.ends(ids),
            info={key: output.extra_fields.get(key) for key in VERSIONS},
        )

    @property
    def _stops(self) -> list[int]:
        return self._parser.stop_token_ids if self._tools else []

    def ends(self, ids: Sequence[int]) -> bool:
        """True if an answer has ended by itself."""
        return ids[-1] in self._end_tokens or ids[-1] in self._stops

    def _request_id(self, seed: int) -> str:
        """The episode's: verl sends requests of one id to one replica, which has the prefix of
        their prompts cached, and gives the engine a fresh id per request.

        With `full_determinism` the engine gets this id, which has to be unique among the requests
        in flight (revisions of one attempt) and the same in every run.
        """
        return f"{seed:016x}" if self.loop.rollout_config.full_determinism else self._episode
