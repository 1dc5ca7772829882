"""The multi-turn state machine: answer, grade, feedback, answer again. Pure asyncio; the sampler is
injected.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import chain
from typing import NamedTuple, cast

from rltf_verl.envs.base import GradeUnavailable
from rltf_verl.envs.calls import call_env, deadline_of, notes_of
from rltf_verl.envs.calls import grade as grade_of
from rltf_verl.episode.acting import LiveState, Retry, play, retry_at
from rltf_verl.episode.failure_log import log_once
from rltf_verl.episode.foreign import ForeignAttempt, recorded_attempt
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.revise import Revision, revise
from rltf_verl.episode.reward import graded_reward, shape_rewards
from rltf_verl.episode.seeds import place_of
from rltf_verl.episode.teacher import offer_reading, with_teachers
from rltf_verl.feedback.base import FeedbackRequest, FeedbackUnavailable, ask
from rltf_verl.feedback.group import Group
from rltf_verl.feedback.sentences import CorrectnessProvider
from rltf_verl.policy import ActingPolicy, Policy
from rltf_verl.registry import UserCodeError, described
from rltf_verl.types import (
    Attempt,
    Episode,
    Feedback,
    Grade,
    Message,
    Problem,
    StopReason,
    Trajectory,
    Turn,
)

_FALLBACK = CorrectnessProvider()
"""Answers where `rltf.feedback.on_error=correctness` and the provider fails."""


class _Start(NamedTuple):
    """Start of an attempt."""

    prompt_ids: tuple[int, ...]
    messages: tuple[Message, ...]
    prompt: str | None = None
    """The message that it answers; None: the problem's question."""
    retry: Retry | None = None


@dataclass
class EpisodePlayer:
    """Plays one episode: `await EpisodePlayer(…).play()`."""

    parts: Parts
    """Environment, provider, and the configuration: horizon, failure policy."""
    policy: Policy
    """The sampler."""
    problem: Problem
    messages: Sequence[Message]
    """The first prompt, as the dataset has it."""
    _: KW_ONLY
    session_id: int
    """Number of the episode in its group."""
    validate: bool
    """Validation has a stop rule of its own, and always asks for feedback."""
    seed_of: Callable[[str], int]
    """Place in the episode (`seeds.place_of`) -> sampling seed."""
    group: Group | None = None
    """The other episodes of this problem, which learn of this one's progress; None: it plays
    alone."""
    most_turns: int | None = None
    """Fewer answer turns than `EpisodeConfig.horizon`."""
    foreign: ForeignAttempt | None = None
    """The only attempt, which another loop has played."""
    _num_shortened: int = field(default=0, init=False)
    _snapshots: dict[str, dict[int, LiveState]] = field(default_factory=dict, init=False)
    """Place of an attempt -> step -> copy of the state before it."""

    async def play(self) -> Episode:
        """The episode, with at least one turn. Raises FeedbackUnavailable only with
        `on_error="raise"`.
        """
        config, group = self.parts.config, self.group
        try:
            turns = shape_rewards(await self._play_turns(), config.reward)
            if group is not None and not self.validate and config.teaches:
                offer_reading(self.parts, self.problem, self.session_id, turns, group)
        finally:
            # Whatever failed: siblings must not wait for this episode, and no copy of a state stays
            # open.
            if group is not None:
                group.note_end(self.session_id)
            copies = chain.from_iterable(states.values() for states in self._snapshots.values())
            await asyncio.gather(*(state.close() for state in copies))
        cut_to = self._horizon if self._horizon < config.episode.horizon else None
        episode = Episode(self.problem, self.session_id, tuple(turns), self._num_shortened, cut_to)
        if self.validate or not config.teaches:
            return episode
        return await with_teachers(
            self.parts, self.policy, episode, self.messages, self.seed_of, group
        )

    @property
    def _horizon(self) -> int:
        return 1 if self.foreign else self.most_turns or self.parts.config.episode.horizon

    async def _play_turns(self) -> list[Turn]:
        turns: list[Turn] = []
        first = await self.policy.encode(self.messages)
        start: _Start | None = _Start(first, tuple(self.messages))
        while start:
            turn, start = await self._play_turn(start, tuple(turns))
            turns.append(turn)
        return turns

    async def _play_turn(
        self, start: _Start, before: tuple[Turn, ...]
    ) -> tuple[Turn, _Start | None]:
        """Sample the next attempt. Returns it with its feedback, and the start of the one that
        revises it; None where the episode ends.
        """
        attempted = await self._attempt(start.prompt_ids, len(before), start.retry)
        turn = replace(attempted, prompt=start.prompt)
        # Siblings may wait for this grade, so they get it before the episode can end or fail.
        self._note_grade(turn, len(before))
        if turn.stop is not None:
            return turn, None
        if turn.grade.correct and self._stop_when_solved():
            return replace(turn, stop="solved"), None
        last = len(before) + 1 == self._horizon
        # After the last turn only a teacher reads feedback: without it the turn ends as planned.
        ends: StopReason = "horizon" if last else "not_asked"
        if last and not self._asks_at_end(turn):
            return replace(turn, stop=ends), None
        if not await self._is_asked(turn, len(before)):
            return replace(turn, stop=ends), None
        try:
            turn, revision = await self._revision(turn, before, start.messages)
        except FeedbackUnavailable as error:
            if self.parts.config.feedback.on_error == "raise":
                raise
            ends = "horizon" if last else "feedback_unavailable"
            turn = replace(turn, stop=ends, error=str(error), withheld=error.withheld)
            return turn, None
        if revision is None:
            return replace(turn, stop=ends), None
        retry = await self._retry(turn, place_of(len(before)))
        # A retry continues from the steps before the criticised one, with the first question.
        if retry is not None:
            revision = Revision(retry.prompt_ids, tuple(self.messages), retry.text)
        self._num_shortened += revision.shortened
        if revision.ids is None:
            return replace(turn, stop="prompt_too_long"), None
        return turn, _Start(revision.ids, revision.messages, revision.text, retry)

    def _note_grade(self, turn: Turn, k: int) -> None:
        """Tell the group; a turn without a verdict is neither right nor wrong."""
        if self.group is not None:
            correct = turn.grade.correct if turn.stop is None else None
            self.group.note_grade(self.session_id, k, turn.attempt.text, correct=correct)

    async def _retry(self, turn: Turn, place: str) -> Retry | None:
        """Start of the next attempt (`rltf.episode.retry`); None: at the beginning."""
        snapshots = self._snapshots.get(place)
        if not snapshots:
            return None
        try:
            return await retry_at(cast(ActingPolicy, self.policy), turn, snapshots)
        except Exception as error:  # a text that no tokenizer takes must not cost the episode
            where = f"episode {self.session_id} of problem {self.problem.index}"
            log_once("an attempt starts at the beginning", where, error)
            return None

    async def _attempt(self, prompt_ids: tuple[int, ...], turn: int, retry: Retry | None) -> Turn:
        """One attempt with its grade: an answer, or a trajectory where the environment acts."""
        if self.foreign is not None:
            attempt = self.foreign.attempt
            answer = cast(Trajectory, attempt.trajectory).answer
            by_env = partial(grade_of, self.parts.env, self.problem, answer)
            return await self._grade(attempt, self.foreign.grade(by_env))
        if not self.parts.env.acts:
            recorded = await self._recorded(prompt_ids) if turn == 0 else None
            attempt = recorded or await self.policy.sample(prompt_ids, self.seed_of(place_of(turn)))
            return await self._grade(attempt, self._grade_answer(attempt, turn))

        def seed_of_step(step: int) -> int:
            # The first step has the place of the attempt itself.
            return self.seed_of(place_of(turn, f"step{step}" if step else ""))

        policy, snapshots = cast(ActingPolicy, self.policy), None
        if self.parts.config.episode.retry == "fork" and turn + 1 < self._horizon:
            snapshots = self._snapshots.setdefault(place_of(turn), {})
        env = self.parts.env
        state = await (LiveState.open(env, self.problem) if retry is None else retry.state.fork())
        try:
            attempt = await play(state, policy, prompt_ids, seed_of_step, retry, snapshots)
            grading = state.grade(attempt, self.parts.config.episode)
            return await self._grade(attempt, grading)
        finally:
            await state.close()

    async def _recorded(self, prompt_ids: tuple[int, ...]) -> Attempt | None:
        """The recorded first attempt (`Env.recorded`); None where the policy gives it: in
        validation, without a turn that revises it, and if the problem has no record.
        """
        env = self.parts.env
        if not env.has_record or self.validate or self._horizon == 1:
            return None
        try:
            text = await call_env(deadline_of(env), env.recorded, self.problem)
        except UserCodeError as error:  # as of a grader
            log_once("the policy gives a first answer", f"problem {self.problem.index}", error)
            return None
        return None if text is None else await recorded_attempt(self.policy, prompt_ids, text)

    async def _grade_answer(self, attempt: Attempt, turn: int) -> Grade:
        """Raises GradeUnavailable, or what the environment raises."""
        env, grade = self.parts.env, None
        if attempt.recorded and not attempt.ended:
            raise GradeUnavailable(
                "the recorded answer does not fit in data.max_response_length; raise it"
            )
        if env.has_record and not self.validate:
            grade = await call_env(deadline_of(env), env.accept, self.problem, attempt, turn)
        return grade or await grade_of(env, self.problem, attempt.text)

    async def _grade(self, attempt: Attempt, grading: Awaitable[Grade]) -> Turn:
        try:
            grade = await grading
            if not isinstance(grade, Grade):
                raise TypeError(f"grade() returned {type(grade).__name__}, not a Grade")
        except GradeUnavailable as error:
            nothing = Grade(correct=False, format_ok=True)
            return Turn(attempt, nothing, 0.0, stop="ungraded", error=error.cause)
        # A grader is user code; its failure must not cost the episode.
        except Exception as error:
            log_once("an answer counts as wrong", f"grading problem {self.problem.index}", error)
            grade = Grade(correct=False, format_ok=False, error=described(error))
        return Turn(attempt, grade, graded_reward(grade, attempt, self.parts.config.reward))

    def _stop_when_solved(self) -> bool:
        episode = self.parts.config.episode
        return episode.stop_when_solved_val if self.validate else episode.stop_when_solved_train

    def _asks_at_end(self, turn: Turn) -> bool:
        """True if feedback on a last turn is wanted, though no turn follows."""
        config = self.parts.config
        wanted = config.teacher.right or not turn.grade.correct
        return config.asks_at_end and wanted and not self.validate

    async def _is_asked(self, turn: Turn, depth: int) -> bool:
        """True if feedback is wanted (`FeedbackConfig.ask`). An episode that plays alone is its own
        group.
        """
        feedback = self.parts.config.feedback
        if self.validate or feedback.ask == "always":
            return True
        if self.group is None:
            return not turn.grade.correct
        return await self.group.failed(depth)

    async def _revision(
        self, turn: Turn, before: tuple[Turn, ...], messages: tuple[Message, ...]
    ) -> tuple[Turn, Revision | None]:
        """The turn with its feedback, and the prompt that quotes both; None after the last turn,
        on which only the teacher reads feedback.

        Raises:
            FeedbackUnavailable: no feedback, or no prompt can be made of it.
        """
        seed = self.seed_of(place_of(len(before), "feedback"))
        request = FeedbackRequest(
            self.parts.env,
            self.problem,
            self.messages,
            (*before, turn),
            self.session_id,
            self.policy,
            seed,
            self.group,
            self.parts.config.episode.quote,
        )
        # The fixed sentence counts the wait for the provider that failed, too.
        start = time.monotonic()
        goes_on = len(before) + 1 < self._horizon
        try:
            given = None if self.foreign is None else self.foreign.feedback
            if given is not None:
                feedback = Feedback(given, "given")
            else:
                feedback = await ask(self.parts.provider, request)
            return await self._revise(turn, feedback, messages if goes_on else None, start)
        except FeedbackUnavailable as error:
            if self.parts.config.feedback.on_error != "correctness":
                raise
            turn = replace(turn, withheld=error.withheld)
            fallback = replace(await _FALLBACK.feedback(request), fallback=True)
            return await self._revise(turn, fallback, messages if goes_on else None, start)

    async def _revise(
        self, turn: Turn, feedback: Feedback, messages: tuple[Message, ...] | None, start: float
    ) -> tuple[Turn, Revision | None]:
        """Continue with this feedback, requested at `start`; without messages nothing follows."""
        feedback = replace(feedback, latency_s=time.monotonic() - start)
        if turn.attempt.trajectory is not None and not feedback.notes:
            feedback = replace(feedback, notes=notes_of(feedback.text))
        if messages is None:
            return replace(turn, feedback=feedback), None
        try:
            revision = await revise(
                self.policy, self.parts.config.episode, messages, self.messages, turn, feedback
            )
        # A text that no tokenizer takes must not cost the episode, nor verl its group.
        except Exception as error:
            where = f"episode {self.session_id} of problem {self.problem.index}"
            log_once("no prompt could be made of feedback", where, error)
            raise FeedbackUnavailable(
                feedback.provider, f"no prompt could be made of it: {described(error)}"
            ) from error
        return replace(turn, feedback=replace(feedback, span=revision.span)), revision
