"""The multi-turn state machine: answer, grade, feedback, answer again. Pure asyncio; the sampler is injected."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rltf_verl.config import EpisodeConfig, OnError
from rltf_verl.envs.base import Env
from rltf_verl.feedback import make_provider
from rltf_verl.feedback.base import FeedbackProvider, FeedbackUnavailable
from rltf_verl.prompts import render
from rltf_verl.types import Attempt, Episode, Feedback, Grade, Message, Problem, StopReason, Turn


class Policy(Protocol):
    """The sampler as an episode sees it."""

    prompt_budget: int
    """Longest prompt in tokens."""

    async def encode(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids of a conversation, with the header of the answer to come."""
        ...

    async def sample(self, prompt_ids: tuple[int, ...], seed: int) -> Attempt:
        """Sample one answer."""
        ...


@dataclass(frozen=True)
class EpisodeRules:
    """What a session is played by; the same object for every session of a run."""

    env: Env
    provider: FeedbackProvider
    episode: EpisodeConfig
    on_error: OnError
    format_coef: float


async def run_episode(
    rules: EpisodeRules,
    policy: Policy,
    problem: Problem,
    messages: Sequence[Message],
    *,
    session_id: int,
    validate: bool,
    seed_of_turn: Callable[[int], int],
) -> Episode:
    """Play one session.

    Args:
        rules: environment, provider, horizon, failure policy.
        policy: the sampler.
        problem: what is asked.
        messages: the first prompt as chat messages, as the dataset holds it.
        session_id: which of the group's sessions this is.
        validate: selects the early-stop rule.
        seed_of_turn: 0-based turn -> sampling seed.

    Returns:
        The episode, with at least one turn.

    Raises:
        FeedbackUnavailable: only with `on_error="raise"`.
    """
    turns: list[Turn] = []
    num_shortened = 0
    stop_when_solved = rules.episode.stop_when_solved_val if validate else rules.episode.stop_when_solved_train

    def end(stop: StopReason, error: str | None = None) -> Episode:
        return Episode(problem, session_id, tuple(turns), stop, error, num_shortened)

    prompt_ids = await policy.encode(messages)
    while True:
        attempt = await policy.sample(prompt_ids, seed_of_turn(len(turns)))
        turns.append(_graded(rules, problem, attempt))
        if stop_when_solved and turns[-1].grade.correct:
            return end("solved")
        if len(turns) == rules.episode.horizon:
            return end("horizon")
        try:
            feedback = await _feedback(rules, problem, turns)
        except FeedbackUnavailable as error:
            if rules.on_error == "raise":
                raise
            return end("feedback_unavailable", str(error))
        turns[-1] = replace(turns[-1], feedback=feedback)
        revised, shortened = await _revise_prompt(rules, policy, messages, turns[-1])
        num_shortened += shortened
        if revised is None:
            return end("prompt_too_long")
        prompt_ids = revised


def _graded(rules: EpisodeRules, problem: Problem, attempt: Attempt) -> Turn:
    """r = correct + f·(fmt − 1), fmt = an answer could be extracted and the policy ended it itself (as the release)."""
    try:
        grade = rules.env.grade(problem, attempt.text)
    except Exception as error:  # a grader is user code; its failure must not cost the session
        grade = Grade(correct=False, format_ok=False, error=f"{type(error).__name__}: {error}")
    format_ok = grade.format_ok and attempt.ended
    return Turn(attempt, grade, float(grade.correct) + rules.format_coef * (float(format_ok) - 1.0))


async def _feedback(rules: EpisodeRules, problem: Problem, turns: Sequence[Turn]) -> Feedback:
    start = time.monotonic()
    try:
        feedback = await _ask(rules, problem, turns)
    except FeedbackUnavailable:
        if rules.on_error != "correctness":
            raise
        feedback = await make_provider("correctness").feedback(rules.env, problem, turns)
        feedback = replace(feedback, fallback=True)
    return replace(feedback, latency_s=time.monotonic() - start)


async def _ask(rules: EpisodeRules, problem: Problem, turns: Sequence[Turn]) -> Feedback:
    try:
        return await rules.provider.feedback(rules.env, problem, turns)
    except FeedbackUnavailable:
        raise
    except Exception as error:  # a provider is user code; how it fails must not decide what happens to the session
        raise FeedbackUnavailable(rules.provider.name, f"{type(error).__name__}: {error}") from error


async def _revise_prompt(
    rules: EpisodeRules, policy: Policy, messages: Sequence[Message], turn: Turn
) -> tuple[tuple[int, ...] | None, bool]:
    """The next turn's prompt: a fresh conversation that quotes question, attempt and feedback.

    When it exceeds the budget the quoted attempt is cut from the front (its answer stands at the end), never the
    question or the feedback. Returns (ids or None if even that does not fit, whether it was cut).
    """

    async def encode(attempt: str) -> tuple[int, ...]:
        question, feedback = messages[-1]["content"], turn.feedback.text if turn.feedback else ""
        text = render(f"revise/{rules.episode.revise}", question=question, attempt=attempt, feedback=feedback)
        return await policy.encode([*messages[:-1], {**messages[-1], "content": text}])

    attempt = turn.attempt.text
    ids = await encode(attempt)
    if len(ids) <= policy.prompt_budget:
        return ids, False
    fitting, low, high = None, 0, len(attempt) - 1
    while low <= high:  # the longest tail of the attempt that fits
        keep = (low + high) // 2
        ids = await encode("…" + attempt[len(attempt) - keep :])
        if len(ids) <= policy.prompt_budget:
            fitting, low = ids, keep + 1
        else:
            high = keep - 1
    return fitting, fitting is not None
