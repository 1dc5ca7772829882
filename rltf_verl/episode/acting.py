"""An attempt that is a trajectory: the policy acts, the environment answers, until an end reason.

Whatever an environment does (raise, stall, flood, exit) ends at most its own trajectory
(`envs.calls.call_env`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from math import isfinite
from typing import Any, TypeVar, cast

from rltf_verl.config import EpisodeConfig
from rltf_verl.envs.base import Env, GradeUnavailable
from rltf_verl.envs.calls import call_env, notes_text
from rltf_verl.episode.failure_log import log_once
from rltf_verl.episode.revise import inserted_span
from rltf_verl.policy import ActingPolicy, Calls
from rltf_verl.prompts.quote import defused, quoted
from rltf_verl.registry import UserCodeError, UserCodeTimeoutError
from rltf_verl.texts import clean_text, seed_from, without_thoughts
from rltf_verl.types import (
    MOST_READ,
    Action,
    Attempt,
    EndReason,
    Feedback,
    Grade,
    Message,
    PlayedStep,
    Problem,
    Step,
    Trajectory,
    Turn,
)

T = TypeVar("T")

MOST_DEEP = 32
"""Lists and objects inside each other that a call's arguments may have."""
CUT_OFF: tuple[EndReason, ...] = ("length", "context")
"""Reasons that the policy did not choose: the attempt was cut off at a token limit."""
NO_ACTION = "No action could be read in this answer."
UNREAD = "unread"
"""Name of the tool that answers `NO_ACTION`."""


async def first_messages(env: Env, problem: Problem, messages: Sequence[Message]) -> list[Message]:
    """The first prompt, with what the environment shows before the first action."""
    state = await LiveState.open(env, problem)
    try:
        shown = await state.look()
    finally:
        await state.close()
    if not shown:
        return list(messages)
    last = messages[-1]
    return [*messages[:-1], {**last, "content": f"{last['content']}\n\n{shown}"}]


def world_seed(problem: Problem) -> int:
    """Seed of the problem's states: all attempts at a problem meet the same world."""
    text = json.dumps([problem.env, problem.index, dict(problem.data)], default=str)
    return seed_from(text)


class LiveState:
    """The state of one attempt, and the seconds that it has used."""

    def __init__(self, env: Env, problem: Problem) -> None:
        self.env, self._problem = env, problem
        self._state: Any = None
        self.is_open = False
        """It has a state."""
        self._failure: UserCodeError | None = None
        self._used_s = 0.0

    @classmethod
    async def open(cls, env: Env, problem: Problem) -> LiveState:
        """A fresh state. If the environment fails, so does the first step."""
        state = cls(env, problem)
        await state._take(env.limits.attempt_s, "open", env.open, problem, world_seed(problem))
        return state

    async def _take(self, seconds: float, name: str, make: Callable[..., Any], *args: Any) -> None:
        try:
            self._state = await call_env(seconds, make, *args, unwanted=self.env.close)
            self.is_open = True
        except UserCodeError as error:
            log_once("a trajectory ended", f"{name}() of problem {self._problem.index}", error)
            self._failure = error

    async def fork(self) -> LiveState:
        """A copy of the state, which lives by itself and has used as many seconds."""
        copy = LiveState(self.env, self._problem)
        copy._used_s = self._used_s
        await copy._take(self.env.limits.step_s, "fork", self.env.fork, self._state)
        return copy

    async def look(self) -> str | None:
        """Text that the policy reads before its first action; None: nothing."""
        with suppress(Exception):  # the same failure ends the attempts, where it is reported
            shown = await self._call(self.env.limits.step_s, self.env.look, self._state)
            return None if shown is None else defused(shown)
        return None

    async def step(self, action: Action) -> Step:
        """Do the action. Raises UserCodeError."""
        limits = self.env.limits
        # Sampling is free: only the seconds inside the environment count.
        left = min(limits.step_s, limits.attempt_s - self._used_s)
        return await self._call(left, self._step, action)

    def _step(self, action: Action) -> Step:
        start = time.monotonic()
        try:
            step = self.env.step(self._state, action)
        finally:
            self._used_s += time.monotonic() - start  # in the thread: waiting for one is free
        if not isinstance(step, Step):
            raise TypeError(f"step() returned {type(step).__name__}, not a Step")
        return step

    async def grade(self, attempt: Attempt, episode: EpisodeConfig) -> Grade:
        """The verdict on the attempt, by what its end counts. Raises UserCodeError."""
        trajectory = cast(Trajectory, attempt.trajectory)
        # A policy may answer without a call where the state was never opened.
        end = trajectory.end if self._failure is None else "environment_error"
        counts = episode.counts(end)
        if counts == "leave_out":
            raise GradeUnavailable(f"the trajectory ended: {end}")
        if counts == "zero" and self._failure is not None:
            return Grade(correct=False, format_ok=True, score=0.0)
        complete = replace(trajectory, state=self._state)
        grade = await self._call(self.env.limits.step_s, self.env.grade, self._problem, complete)
        # Feedback reads the details, whatever the end counts.
        return replace(grade, correct=False, score=0.0) if counts == "zero" else grade

    async def close(self) -> None:
        """Close the state, whatever became of it."""
        if self.is_open:
            self.is_open = False
            try:
                await call_env(self.env.limits.step_s, self.env.close, self._state)
            except UserCodeError as error:
                log_once("a state was not closed", f"problem {self._problem.index}", error)

    async def _call(self, seconds: float, call: Callable[..., T], *args: Any) -> T:
        if self._failure is not None:
            raise self._failure
        return await call_env(seconds, call, *args)


@dataclass(frozen=True)
class Retry:
    """A second attempt that starts before a step of the first one."""

    state: LiveState
    """The state before that step; each attempt has a fork of it."""
    steps: tuple[PlayedStep, ...]
    """Steps before it, without tokens."""
    prefix_ids: tuple[int, ...]
    """Tokens of those steps, behind the first prompt."""
    prompt_ids: tuple[int, ...]
    """The steps as they were played, then the feedback."""
    text: str
    """The feedback, as the policy reads it."""


async def retry_at(
    policy: ActingPolicy, turn: Turn, snapshots: Mapping[int, LiveState]
) -> Retry | None:
    """The retry from the first step that feedback criticises; None where it criticises none or the
    first, where its state could not be copied, and where the prompt would be too long.
    """
    attempt, feedback = turn.attempt, cast(Feedback, turn.feedback)
    steps = cast(Trajectory, attempt.trajectory).steps
    # A note on the whole, or on step 0, asks for a new beginning.
    criticised = min((note.step for note in feedback.notes if note.step is not None), default=0)
    state = snapshots.get(criticised)
    # Step 0 has no snapshot (`_Player.next_step`), so a step comes before the criticised one.
    if state is None or not state.is_open:
        return None
    # The feedback is read after the observation of the step before the criticised one.
    last, step = steps[criticised - 1], steps[criticised]
    notes = [note for note in feedback.notes if note.step in (None, criticised)]
    text = quoted(policy, notes_text(notes))
    *messages, seen = _messages(policy, last)
    if seen["role"] == "user":  # a template may want roles to alternate
        messages.append({**seen, "content": f"{seen['content']}\n\n{text}"})
    else:
        messages += [seen, {"role": "user", "content": text}]
    played = attempt.prompt_ids + attempt.response_ids[: last.end]
    prompt_ids = await policy.observe(played, messages)
    if len(prompt_ids) > policy.prompt_budget:
        return None
    # Without spans: their tokens are in the prefix, not in the response.
    before = tuple(replace(s, start=0, end=0, acted=(0, 0)) for s in steps[:criticised])
    prefix_ids = attempt.prefix_ids + attempt.response_ids[: step.start]
    return Retry(state, before, prefix_ids, prompt_ids, text)


async def play(
    state: LiveState,
    policy: ActingPolicy,
    prompt_ids: tuple[int, ...],
    seed_of_step: Callable[[int], int],
    retry: Retry | None = None,
    snapshots: dict[int, LiveState] | None = None,
) -> Attempt:
    """Play one attempt.

    Args:
        state: the environment's, of this attempt.
        policy: the sampler.
        prompt_ids: the prompt.
        seed_of_step: 0-based step -> sampling seed.
        retry: where the attempt starts; None: at the beginning.
        snapshots: gets a copy of the state before each step but the first; None: no copies.

    Raises:
        Exception: whatever the sampler raises, and nothing that the environment does.
    """
    played = _Player(state, policy, prompt_ids, seed_of_step, snapshots)
    if retry is not None:
        played.steps, played.prefix_ids = list(retry.steps), retry.prefix_ids
    while (end := await played.next_step()) is None:
        pass
    return played.attempt(end)


@dataclass
class _Player:
    """Plays a trajectory."""

    state: LiveState
    policy: ActingPolicy
    prompt_ids: tuple[int, ...]
    seed_of_step: Callable[[int], int]
    snapshots: dict[int, LiveState] | None
    prefix_ids: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()
    log_probs: list[float] | None = field(default_factory=list)
    steps: list[PlayedStep] = field(default_factory=list)
    infos: list[Mapping[str, Any]] = field(default_factory=list)
    num_invalid: int = 0
    """Invalid actions in a row."""
    num_drifts: int = 0

    async def next_step(self) -> EndReason | None:
        """Sample an answer and play its actions; then the reason if the trajectory ends here."""
        if self.snapshots is not None and self.ids:
            self.snapshots[len(self.steps)] = await self.state.fork()
        seed = self.seed_of_step(len(self.steps))
        answer = await self.policy.sample(self.prompt_ids + self.ids, seed, self._room)
        actions, malformed, span = await self._read(answer)
        results: list[Step] = []
        # An answer that was cut off may end in half a call: none of its calls is played.
        end: EndReason | None = None if answer.ended else "length"
        for action, refusal in actions if end is None else ():
            result, end = (refusal, None) if refusal is not None else await self._act(action)
            results.append(result)
            if end is not None:
                break
        if malformed and end is None:
            results.append(Step(NO_ACTION, kind="format"))
        # Calls behind the one that ended the trajectory were not played, and have no result.
        self._append(answer, tuple(action for action, _ in actions)[: len(results)], results, span)
        if end is not None:
            return end
        return "answered" if not results else self._limit() or await self._observe()

    @property
    def _room(self) -> int:
        """Tokens left in the row of the attempt behind the first prompt."""
        return self.policy.response_budget - len(self.prefix_ids) - len(self.ids)

    async def _read(
        self, answer: Attempt
    ) -> tuple[list[tuple[Action, Step | None]], bool, tuple[int, int]]:
        """The answer's actions, each with the refusal of one that no environment can play; whether
        a call could not be read; and the span of its actions.
        """
        tools = self.state.env.tools
        if not tools:
            action = Action(without_thoughts(answer.text))
            return [(action, None)], False, (0, len(answer.response_ids))
        try:
            read = await self.policy.read_calls(answer.response_ids)
        except Exception as error:  # a parser may stumble over what a policy writes
            log_once("an answer's calls were not read", f"environment {self.state.env.name}", error)
            read = Calls((), malformed=True)
        known = [str(tool["function"]["name"]) for tool in tools]
        actions = [_action(answer.text, name, text, known) for name, text in read.calls]
        return actions, read.malformed, read.span

    async def _act(self, action: Action) -> tuple[Step, EndReason | None]:
        try:
            step = await self.state.step(action)
        except UserCodeTimeoutError as error:  # its thread still has the state: nothing can follow
            return Step(str(error), kind="timeout"), "deadline"
        except UserCodeError as error:
            log_once("a trajectory ended", f"environment {self.state.env.name}", error)
            return Step(str(error), kind="error"), "environment_error"
        text = await self.policy.clip(step.observation, self.state.env.limits.observation_tokens)
        return replace(step, observation=text), "done" if step.done else None

    def _append(
        self,
        answer: Attempt,
        actions: tuple[Action, ...],
        results: Sequence[Step],
        span: tuple[int, int],
    ) -> None:
        start = len(self.ids)
        self.ids += answer.response_ids
        self._append_log_probs(answer.log_probs)
        self.infos.append(answer.info)
        for result in results:
            invalid = result.kind in ("format", "error")
            self.num_invalid = self.num_invalid + 1 if invalid else 0
        acted = start + span[0], start + span[1]
        self.steps.append(
            PlayedStep(answer.text, actions, tuple(results), start, len(self.ids), acted)
        )

    def _append_log_probs(self, log_probs: Sequence[float] | None) -> None:
        """A sampler that once reports none has none for the attempt."""
        if log_probs is None:
            self.log_probs = None
        elif self.log_probs is not None:
            self.log_probs += log_probs

    def _limit(self) -> EndReason | None:
        limits = self.state.env.limits
        if self.num_invalid >= limits.invalid_actions:
            return "invalid"
        return "steps" if len(self.steps) >= limits.steps else None

    async def _observe(self) -> EndReason | None:
        """Append the observations, unless they leave no room for another answer."""
        before = self.prompt_ids + self.ids
        after = await self.policy.observe(before, _messages(self.policy, self.steps[-1]))
        begin = len(before)
        if after[:begin] != before:  # what was sampled stays, whatever the template makes of it
            self.num_drifts += 1
            begin = inserted_span(before, after)[0]
        observed = after[begin:]
        # `>=`: the next answer needs a token of its own.
        if len(observed) >= self._room:
            return "context"
        self.ids += observed
        self._append_log_probs([0.0] * len(observed))
        return None

    def attempt(self, end: EndReason) -> Attempt:
        """The attempt, ended for this reason."""
        trajectory = Trajectory(tuple(self.steps), end)
        num_sampled = sum(step.end - step.start for step in self.steps)
        counts = [info["num_tokens"] for info in self.infos if "num_tokens" in info]
        return Attempt(
            self.prompt_ids,
            self.ids,
            None if self.log_probs is None else tuple(self.log_probs),
            trajectory_text(trajectory),
            ended=end not in CUT_OFF,
            info={
                **_merge_infos(self.infos),
                "num_drifts": self.num_drifts,
                "num_tokens": sum(counts) or num_sampled,  # an endpoint's ids are no tokens
            },
            trajectory=trajectory,
            prefix_ids=self.prefix_ids,
        )


def _messages(policy: ActingPolicy, step: PlayedStep) -> list[Message]:
    """Messages after a step: one message of a tool for each result, or of the user."""
    texts = [quoted(policy, result.observation) for result in step.results]
    names = [action.tool for action in step.actions]
    # Without tools an answer is one action, and has no name.
    if names == [None]:
        return [{"role": "user", "content": text} for text in texts]
    # One result more than there are actions: the answer to a call that could not be read.
    named = zip_longest(names, texts, fillvalue=UNREAD)
    return [
        {"role": "tool", "name": quoted(policy, str(name)), "content": text} for name, text in named
    ]


def _action(
    answer: str, name: str, arguments: str, known: Sequence[str]
) -> tuple[Action, Step | None]:
    try:
        decoded = call_arguments(arguments)
    except ValueError as error:
        return Action(answer, name), Step(f"{name}: {error}", kind="format")
    if name not in known:
        refusal = Step(f"no tool is called {name}; the tools are {', '.join(known)}", kind="error")
        return Action(answer, name, decoded), refusal
    return Action(answer, name, decoded), None


def call_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call as an environment gets them: texts and keys are clean, as
    observations are, and numbers finite. Raises ValueError.
    """
    decoded = None
    # `json.loads` itself recurses: a model may write brackets by the thousand.
    with suppress(ValueError, RecursionError):
        decoded = _clean(json.loads(text[: MOST_READ + 1]), MOST_DEEP)
    if not isinstance(decoded, dict) or len(text) > MOST_READ:
        raise ValueError(
            f"the arguments must be one JSON object of at most {MOST_READ} characters, no more than"
            f" {MOST_DEEP} deep"
        )
    return decoded


def _clean(value: Any, depth: int) -> Any:
    if isinstance(value, dict | list) and not depth:
        raise ValueError("too deep")
    if isinstance(value, float) and not isfinite(value):
        raise ValueError("infinite")
    if isinstance(value, dict):
        return {clean_text(key): _clean(one, depth - 1) for key, one in value.items()}
    if isinstance(value, list):
        return [_clean(one, depth - 1) for one in value]
    return clean_text(value) if isinstance(value, str) else value


def _merge_infos(infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The last answer's, with the oldest and newest parameters that sampled any."""
    merged = dict(infos[-1])
    for key, choose in (("min_global_steps", min), ("max_global_steps", max)):
        versions = [info[key] for info in infos if info.get(key) is not None]
        if versions:
            merged[key] = choose(versions)
    return merged


def trajectory_text(trajectory: Trajectory) -> str:
    """The trajectory without thoughts, for readers: judges, people, the policy's next prompt."""
    parts: list[str] = []
    for number, step in enumerate(trajectory.steps, start=1):
        parts.append(f"[step {number}]\n{without_thoughts(step.text)}")
        parts += [f"[observation]\n{defused(result.observation)}" for result in step.results]
    return "\n".join([*parts, f"[end: {trajectory.end}]"])
