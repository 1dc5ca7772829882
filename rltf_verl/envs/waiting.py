"""Calling an environment from a coroutine."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar, cast

from rltf_verl.envs.base import ActingEnv, Env, FeedbackLevel, GradesAsync
from rltf_verl.types import Action, Grade, Note, PlayedStep, Problem, Step, Trajectory

P = ParamSpec("P")
T = TypeVar("T")


MOST_READ = 2**18
"""Characters of an answer that are graded, its last ones: more than 60 000 tokens of prose."""


async def call_env(env: Env, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`call(...)`, which grades with `env`: in a thread if the environment is `blocking`, so that
    others go on.
    """
    if getattr(env, "blocking", False):
        return await asyncio.to_thread(call, *args, **kwargs)
    return call(*args, **kwargs)


def started(
    call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> asyncio.Future[tuple[T | None, BaseException | None]]:
    """What the call returns and raises, in a daemon thread of its own. The pool of
    `asyncio.to_thread` has few threads, and a loop waits for them when it closes: calls that never
    end would hold up all others, and exit.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if not result.done():
            result.set_result((value, error))

    def run() -> None:
        value, failure = None, None
        try:
            value = call(*args, **kwargs)
        except BaseException as error:  # user code; a future takes no StopIteration
            failure = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, failure)

    threading.Thread(target=run, daemon=True, name="environment").start()
    return result


def graded_part(text: str) -> str:
    """What of an answer graders and `explain` get to see: all but the beginning of one without an
    end.
    """
    return text[-MOST_READ:]


async def grade(env: Env, problem: Problem, text: str) -> Grade:
    """The environment's verdict, in whichever way it is had. Raises GradeUnavailable, and whatever
    a grader raises.
    """
    text = graded_part(text)
    if isinstance(env, GradesAsync):
        return await env.agrade(problem, text)
    return await call_env(env, grade_text, env, problem, text)


def acting_env(env: Any) -> ActingEnv | None:
    """The environment, where its attempts are trajectories."""
    return cast(ActingEnv, env) if hasattr(env, "step") else None


def tools_of(env: Any) -> list[dict[str, Any]]:
    """Schemas that the policy's prompts have; empty where its attempts are single answers."""
    acting = acting_env(env)
    return [] if acting is None else [dict(tool) for tool in acting.tools]


def grade_text(env: Env, problem: Problem, text: str) -> Grade:
    """The verdict on an answer. Where attempts are trajectories: on one that is only this answer,
    wrong if the environment raises.
    """
    acting = acting_env(env)
    if acting is None:
        return env.grade(problem, text)
    try:
        state = acting.open(problem, 0)
        try:
            return acting.grade(problem, _answer_alone(acting, text, state))
        finally:
            acting.close(state)
    except Exception as error:
        return Grade(correct=False, format_ok=False, error=f"{type(error).__name__}: {error}")


def explain_text(env: Env, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
    """`Env.explain` of an answer, as `grade_text`; empty if the environment raises."""
    acting = acting_env(env)
    if acting is None:
        return env.explain(problem, text, grade, level)
    try:
        return notes_text(acting.explain(problem, _answer_alone(acting, text), grade, level))
    except Exception:
        return ""


def _answer_alone(env: ActingEnv, text: str, state: Any = None) -> Trajectory:
    """The answer as the only step: the action where there are no tools."""
    if env.tools:
        return Trajectory((PlayedStep(text, (), (), 0, 0),), "answered", state)
    action = Action(text)
    result = Step("") if state is None else env.step(state, action)
    return Trajectory((PlayedStep(text, (action,), (result,), 0, 0),), "steps", state)


_ON_A_STEP = re.compile(r"^Step (\d{1,4}): *", re.MULTILINE)


def notes_of(text: str) -> tuple[Note, ...]:
    """Feedback as notes, by lines that begin with `Step N:`; empty where there is no such line.

    >>> notes_of("Too slow.\\nStep 2: Look first.")
    (Note(text='Too slow.', step=None), Note(text='Look first.', step=1))
    """
    whole, *parts = _ON_A_STEP.split(text)
    numbers, texts = parts[::2], parts[1::2]
    on_steps = [
        Note(note.strip(), int(number) - 1) for number, note in zip(numbers, texts, strict=True)
    ]
    on_all = [Note(whole.strip())] if on_steps and whole.strip() else []
    return (*on_all, *on_steps)


def notes_text(notes: Sequence[Note]) -> str:
    """Feedback on a trajectory as one text, each note on a step with its number.

    >>> notes_text([Note("Look first.", 0), Note("All in all, too slow.")])
    'Step 1: Look first.\\nAll in all, too slow.'
    """
    return "\n".join(
        note.text if note.step is None else f"Step {note.step + 1}: {note.text}" for note in notes
    )
