"""Promises of an environment whose attempt is a trajectory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from rltf_verl.envs.base import LEVELS, Env
from rltf_verl.episode.acting import call_arguments, trajectory_text
from rltf_verl.feedback.verifier import VerifierProvider
from rltf_verl.registry import UserCodeError
from rltf_verl.tools.contract.promises import (
    NONSENSE,
    Check,
    NotTriedError,
    for_each_problem,
    hostile_texts,
    reread,
)
from rltf_verl.tools.feedback.attempts import as_asked, feedback_on, request_about
from rltf_verl.types import Action, Attempt, EndReason, Grade, PlayedStep, Problem, Step, Trajectory

SEED = 7
"""Seed of every world that is opened."""
HUGE = "a" * 100_000
HALF = "\ud800"
MIN_SECRET = 3
"""Characters of an argument from which on it is no chance that a text holds it."""


def checks(own: Env, env: Env, seed: int, num_hostile: int) -> dict[str, Check]:
    """See `answers.checks`."""
    each = partial(partial, for_each_problem, own)
    return {
        "the same problem and seed open the same world, a new one": each(partial(_worlds, env)),
        "a fork goes on as its state does, and apart from it": each(partial(_forks, own, env)),
        "observations are texts within limits.observation_tokens": each(
            partial(_observations, env)
        ),
        "nothing done is graded wrong, and the same each time": each(partial(_nothing_done, env)),
        "notes are on played steps; `hint` and `full` say something, `full` alone the solution": (
            each(partial(_notes, own, env))
        ),
        "the solution is graded correct": partial(_solutions, own, env),
        f"{num_hostile} hostile actions neither raise nor hang": partial(
            _hostile, own, env, seed, num_hostile
        ),
    }


@contextmanager
def _open_state(env: Env, problem: Problem) -> Iterator[Any]:
    state = env.open(reread(problem), SEED)
    try:
        yield state
    finally:
        env.close(state)


def _actions(env: Env, problem: Problem) -> Sequence[Action]:
    """The solution, or anything."""
    return env.solution(problem) or list(hostile_actions(env, SEED, 8))


def _play(env: Env, state: Any, actions: Sequence[Action]) -> Iterator[Step]:
    """One step at a time, so that two states can take turns."""
    for action in actions:
        try:
            step = env.step(state, action)
        except UserCodeError as error:
            what = f"{_call_text(action)}: {error}"
            raise type(error)(what).with_traceback(error.__traceback__) from None
        yield step
        if step.done:
            return


def steps_alone(env: Env, problem: Problem) -> list[Step]:
    """The first observation, and the steps of a problem's actions, in a world of their own."""
    with _open_state(env, problem) as state:
        seen = Step(env.look(state) or "")
        return [seen, *_play(env, state, _actions(env, problem))]


def _worlds(env: Env, problem: Problem) -> Iterator[str]:
    alone, actions = steps_alone(env, problem), _actions(env, problem)
    if steps_alone(env, problem) != alone:
        yield "the same actions have other results the second time"
    with _open_state(env, problem) as one, _open_state(env, problem) as other:
        # `zip` asks one, then the other: the two states act by turns
        taking_turns = zip(_play(env, one, actions), _play(env, other, actions), strict=True)
        if list(taking_turns) != list(zip(alone[1:], alone[1:], strict=True)):
            yield "actions in one state change what another answers"


def _forks(own: Env, env: Env, problem: Problem) -> Iterator[str]:
    alone, actions = steps_alone(env, problem)[1:], _actions(env, problem)
    half = len(alone) // 2
    with _open_state(env, problem) as state:
        list(_play(env, state, actions[:half]))
        try:
            forked = env.fork(state)
        except UserCodeError as error:
            if type(own).fork is not Env.fork:
                raise
            # A connection, say; a run then tries again from the beginning.
            raise NotTriedError(str(error)) from error
        for name, one in (("the fork", forked), ("after its fork, the state", state)):
            if list(_play(env, one, actions[half:])) != alone[half:]:
                yield f"{name} answers otherwise than a state without a fork"
        env.close(forked)


def _observations(env: Env, problem: Problem) -> Iterator[str]:
    for step in steps_alone(env, problem):
        most = env.limits.observation_tokens
        # Hardly a tokenizer makes fewer tokens of a text than it has words and signs.
        num = len(re.findall(r"\w+|[^\w\s]", step.observation))
        if num > most:
            yield f"{step.observation[:60]!r}… has {num} words and signs, more than {most} tokens"


def graded_attempt(env: Env, problem: Problem, actions: Sequence[Action]) -> tuple[Attempt, Grade]:
    """The attempt that does these actions, whose state is closed, and its grade."""
    with _open_state(env, problem) as state:
        steps = list(_play(env, state, actions))
        done = zip(actions, steps, strict=False)  # the last step may have ended it
        played = [PlayedStep(action.text, (action,), (step,), 0, 0) for action, step in done]
        last = PlayedStep("I am done.", (), (), 0, 0)
        ended = bool(steps) and steps[-1].done
        end: EndReason = "done" if ended else "answered"
        trajectory = Trajectory((*played, *([] if ended else [last])), end)
        grade = env.grade(problem, replace(trajectory, state=state))
    text = trajectory_text(trajectory)
    return Attempt((), (), None, text, ended=True, trajectory=trajectory), grade


def _nothing_done(env: Env, problem: Problem) -> Iterator[str]:
    grades = [graded_attempt(env, problem, [])[1] for _ in range(2)]
    if grades[0].correct:
        yield "a trajectory without an action is graded correct"
    if grades[0] != grades[1]:
        yield "the same trajectory is graded differently the second time"


def _solutions(own: Env, env: Env, problems: Sequence[Problem]) -> Iterator[str]:
    if type(own).solution is Env.solution:
        raise NotTriedError("the environment has no `solution`")
    yield from for_each_problem(own, partial(_solution, env), problems)


def _solution(env: Env, problem: Problem) -> Iterator[str]:
    if not graded_attempt(env, problem, _actions(env, problem))[1].correct:
        yield "its solution is graded wrong"


def _notes(own: Env, env: Env, problem: Problem) -> Iterator[str]:
    """About a trajectory without an action, and about one that stops too soon."""
    secrets, question = _secrets(env, problem), as_asked(env, problem)
    for actions in ([], _actions(env, problem)[:-1]):
        attempt, grade = graded_attempt(env, problem, actions)
        for level in LEVELS if not grade.correct else ():
            feedback = feedback_on(
                request_about(own, question, attempt, grade), VerifierProvider(level)
            )
            steps = (None, *range(len(attempt.spans)))
            if any(note.step not in steps for note in feedback.notes):
                yield f"level {level} has a note on a step that was not played"
            if level in LEVELS[-2:] and not feedback.text:
                yield f"level {level} says nothing"
            for secret in secrets if level != "full" else ():
                if secret in feedback.text:
                    yield f"level {level} has {secret!r}, an argument of the solution"


def _secrets(env: Env, problem: Problem) -> set[str]:
    """Arguments of the solution that are not in the prompt."""
    actions = env.solution(problem)
    values = {str(value) for action in actions for value in action.arguments.values()}
    prompt = env.prompt(problem)
    return {value for value in values if len(value) >= MIN_SECRET and value not in prompt}


def _hostile(own: Env, env: Env, seed: int, num: int, problems: Sequence[Problem]) -> Iterator[str]:
    actions = list(hostile_actions(env, seed, num))
    # rounded up, so that no action is left over
    share = -(-num // len(problems))
    for k, problem in enumerate(problems):
        attempt, grade = graded_attempt(env, problem, actions[k * share : (k + 1) * share])
        request = request_about(own, as_asked(env, problem), attempt, grade)
        for level in LEVELS:
            feedback_on(request, VerifierProvider(level))
    return iter(())


def _call_text(action: Action) -> str:
    arguments = ", ".join(f"{key}={value!r}"[:40] for key, value in action.arguments.items())
    return f"{action.tool or repr(action.text[:40])}({arguments})"


def hostile_actions(env: Env, seed: int, num: int) -> Iterator[Action]:
    """Tools that do not exist, arguments that are missing, of another type, huge or half a sign,
    as a run gives them to an environment.
    """
    texts = [*NONSENSE, HUGE, HALF, *hostile_texts(seed, num)]
    for k, text in enumerate(texts[:num]):
        if not env.tools:
            yield Action(text)
            continue
        values: list[Any] = [text, HUGE, HALF, k, None, [text], {}, True, -1e308]
        tool = env.tools[k % len(env.tools)]["function"]
        # every fifth action has all arguments, the others lack some
        names = [*tool["parameters"]["properties"], "nothing_like_it"][: k % 5 or None]
        arguments = {name: values[(k + i) % len(values)] for i, name in enumerate(names)}
        read = call_arguments(json.dumps(arguments))
        # every seventh names a tool that does not exist
        yield Action(text, tool["name"] if k % 7 else text, read)
