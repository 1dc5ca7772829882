"""The policy on verl's rollout engine: tokenisation, tool calls and sampling of an episode.

It loads none of verl's agent loops, which take seconds: `rltf plan` shows prompts with it.
"""

from __future__ import annotations

import asyncio
import copy
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, partial
from typing import Any

from verl.utils.fs import copy_to_local
from verl.utils.model import get_generation_config
from verl.utils.tokenizer.continuous_token import ContinuousTokenBuilder

from rltf_verl.adapters.compat import ENGINES_WITH_SEEDS
from rltf_verl.adapters.queue.token_texts import token_texts
from rltf_verl.adapters.rollout.chat_form import USER, ChatForm, after_answer, chat_form
from rltf_verl.episode.revise import inserted_span
from rltf_verl.policy import Calls
from rltf_verl.prompts.quote import control_tokens
from rltf_verl.sampler.models import end_tokens
from rltf_verl.types import Attempt, Message

VERSIONS = ("min_global_steps", "max_global_steps")
"""Fields of the engine's output: the oldest and newest parameters that sampled."""


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
    return frozenset({*of_template, *end_tokens(generation, tokenizer)})


@cache
def _tool_parser(tokenizer: Any, name: str) -> Any:
    # here, because its package loads verl's agent loops
    from verl.experimental.agent_loop.tool_parser import ToolParser

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
        loop: Any,
        sampling_params: dict[str, Any],
        episode: str = "",
        send_seeds: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.loop = loop
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
        loop: Any,
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
        ids = await asyncio.to_thread(
            builder.build_initial_tokens, list(messages), tools=self._tools
        )
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

        return await asyncio.to_thread(render)

    async def read_calls(self, ids: tuple[int, ...]) -> Calls:
        """The calls that verl's parser finds (`rollout.multi_turn.format`)."""
        from verl.tools.schemas import OpenAIFunctionToolSchema

        tools = [OpenAIFunctionToolSchema.model_validate(tool) for tool in self._tools or ()]
        content, calls = await self._parser.extract_tool_calls(list(ids), tools)
        read = tuple((call.name, call.arguments) for call in calls)
        return await asyncio.to_thread(self._locate_calls, ids, content, read)

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
        return await asyncio.to_thread(self._clip, text, tokens)

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
    def _parser(self) -> Any:
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
        tokenizer, added = self._tokenizer, self._tokenizer.added_tokens_decoder.values()
        if split := any(token.special and str(token) in text for token in added):
            tokenizer = _plain_text_tokenizer(tokenizer)
        ids = tokenizer(text, add_special_tokens=False, split_special_tokens=split)["input_ids"]
        end = self._chat_form.end_of_turn[-1:] or (tokenizer.eos_token_id,)
        return tuple([*ids, *end][: self.response_budget])

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
