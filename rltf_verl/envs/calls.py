"""Calls of an environment's methods, which are user code: each is made in a thread of its own and
has a deadline. Whatever it raises is one kind of exception.

A thread costs 0.2 ms of processor time at most, an episode 34 ms. A call that stalls keeps its
thread, and its state: the thread cannot be ended, and does not hold up the end of the process.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from rltf_verl.envs.base import Env, FeedbackLevel, GradeUnavailable
from rltf_verl.registry import UserCodeError, UserCodeTimeoutError, described
from rltf_verl.texts import clean_text
from rltf_verl.types import (
    MOST_READ,
    Action,
    Attempt,
    Grade,
    Note,
    PlayedStep,
    Problem,
    Step,
    Trajectory,
)

T = TypeVar("T")
Outcome = tuple[Any, Exception | None]
"""A call's result, and its exception."""

DEADLINE_S = 600.0
"""Seconds of a call, where the environment has no `limits`."""
JUDGES_S = 3600.0
"""Seconds of `agrade`, beside those of its judges' calls."""
MOST_CALLS = 32
"""Calls that start at a time in one event loop; more would only share the interpreter."""
COMPUTES_S = 1.0
"""Seconds after which a call counts as one that waits, and another may start."""

_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def deadline_of(env: Env) -> float:
    """Seconds of a call: `limits.step_s` where attempts are trajectories."""
    return env.limits.step_s if env.acts else DEADLINE_S


async def call_env(
    seconds: float,
    call: Callable[..., T],
    *args: Any,
    unwanted: Callable[[T], object] | None = None,
) -> T:
    """`call(*args)` in a thread; other episodes continue.

    Args:
        seconds: deadline, from the start of the thread.
        call: user code.
        args: of the call.
        unwanted: gets what the call returns after its deadline or after a cancellation.

    Raises:
        UserCodeTimeoutError: no end within the deadline.
        GradeUnavailable: raised by the environment.
        UserCodeError: anything else that was raised.
    """
    loop, is_over = asyncio.get_running_loop(), False
    running: asyncio.Future[Outcome] = loop.create_future()
    try:
        # A slot is held for the first second only: a call that lasts longer waits for something.
        async with _slots.setdefault(loop, asyncio.Semaphore(MOST_CALLS)):
            _start(lambda o: loop.call_soon_threadsafe(running.set_result, o), call, *args)
            # `wait` leaves the future as it is at the deadline; `wait_for` would cancel it, and
            # lose what the thread returns later.
            await asyncio.wait({running}, timeout=min(seconds, COMPUTES_S))
        await asyncio.wait({running}, timeout=max(seconds - COMPUTES_S, 0.0))
        is_over = running.done()
    finally:
        # After a cancellation too: what the thread returns later still has to be closed.
        if unwanted is not None and not is_over:
            running.add_done_callback(partial(_hand_over, unwanted))
    if not is_over:
        raise _late(getattr(call, "__name__", "the call"), seconds)
    return cast(T, _value(running.result()))


async def await_env(seconds: float, call: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Call a coroutine method in the event loop, with the errors of `call_env`."""
    try:
        return await asyncio.wait_for(_await_user_code(call, *args), seconds)
    except asyncio.TimeoutError:
        raise _late(getattr(call, "__name__", "the call"), seconds) from None


async def _await_user_code(call: Callable[..., Awaitable[T]], *args: Any) -> T:
    try:
        return await call(*args)
    except BaseException as error:  # user code
        if isinstance(error, asyncio.CancelledError) and is_cancelled():
            raise
        raise _failure(error) from None


def is_cancelled() -> bool:
    """True if this task was cancelled, and not one that user code waited for."""
    task = asyncio.current_task()
    # Python 3.10 does not say.
    return task is None or not hasattr(task, "cancelling") or task.cancelling() > 0


class _StandIn(Env):
    """An environment whose attributes are set one by one."""


def bounded(env: Env, most_s: float = DEADLINE_S) -> Env:
    """A stand-in for the environment, for code that is no coroutine: its methods raise as
    `call_env` does. A method that was once late is not called again; `build` may take its time.

    Args:
        env: the environment.
        most_s: seconds of a call, where the environment's own deadline is not shorter.
    """
    late = set[str]()
    is_done_with = threading.Event()
    """With the state that was opened last."""

    def method(name: str, call: Callable[..., Any], *args: Any) -> Any:
        nonlocal is_done_with
        seconds = min(env.limits.attempt_s if name == "open" else deadline_of(env), most_s)
        if name not in late:
            outcomes: SimpleQueue[Outcome] = SimpleQueue()
            settle: Callable[[Outcome], object] = outcomes.put
            if name == "open":
                # The thread lives on with its state: the system would give its number to a later
                # one, which would then pass for the state's own.
                is_done_with.set()
                is_done_with = threading.Event()
                settle = partial(_settle_and_wait, outcomes, is_done_with)
            _start(settle, call, *args)
            with suppress(Empty):
                outcome = outcomes.get(timeout=seconds)
                if name == "close" or outcome[1] is not None:
                    is_done_with.set()
                return _value(outcome)
            late.add(name)
        raise _late(name, seconds)

    stand_in = _StandIn()
    for name in dir(env):
        # A property of user code may raise; the stand-in then has what `Env` gives.
        with suppress(Exception):
            if not name.startswith("_"):
                value = getattr(env, name)
                is_bounded = callable(value) and name != "build"
                vars(stand_in)[name] = partial(method, name, value) if is_bounded else value
    return stand_in


def _start(settle: Callable[[Outcome], object], call: Callable[..., Any], *args: Any) -> None:
    """Not `asyncio.to_thread`: its pool has few threads, which stalled calls keep, and a loop waits
    for them when it closes.
    """

    def run() -> None:
        try:
            outcome: Outcome = call(*args), None
        except BaseException as error:  # user code
            outcome = None, _failure(error)
        with suppress(RuntimeError):  # the loop is closed
            settle(outcome)

    threading.Thread(target=run, daemon=True, name="environment").start()


def _settle_and_wait(
    outcomes: SimpleQueue[Outcome], until: threading.Event, outcome: Outcome
) -> None:
    outcomes.put(outcome)
    until.wait()


def _failure(error: BaseException) -> Exception:
    kind = GradeUnavailable if isinstance(error, GradeUnavailable) else UserCodeError
    return kind(described(error)).with_traceback(error.__traceback__)


def _late(name: str, seconds: float) -> Exception:
    return UserCodeTimeoutError(f"{name.strip('_')} does not return within {seconds:g} s")


def _hand_over(unwanted: Callable[[T], object], running: asyncio.Future[Outcome]) -> None:
    value, error = running.result()
    if error is None:
        _start(lambda _: None, unwanted, value)


def _value(outcome: Outcome) -> Any:
    value, error = outcome
    if error is not None:
        raise error
    return value


def graded_part(text: str) -> str:
    """The part to read of an endless text, an answer or a question: its end."""
    return text[-MOST_READ:]


async def grade(env: Env, problem: Problem, text: str) -> Grade:
    """The environment's verdict, in whichever way it is had. Raises as `call_env`."""
    text = graded_part(text)
    if env.grades_async:
        # Twice: a reply without a verdict costs a second call.
        waits = 2 * sum(judge.settings.longest_call_s for judge in env.judges)
        return await await_env(JUDGES_S + waits, env.agrade, problem, text)
    return await call_env(deadline_of(env), grade_text, env, problem, text)


def tools_of(env: Env) -> list[dict[str, Any]]:
    """Schemas that the policy's prompts have; empty where its attempts are single answers."""
    return [dict(tool) for tool in env.tools] if env.acts else []


def grade_text(env: Env, problem: Problem, text: str) -> Grade:
    """The verdict on an answer. Where attempts are trajectories: on one that is only this answer,
    wrong if the environment raises.
    """
    if not env.acts:
        return env.grade(problem, text)
    try:
        state = env.open(problem, 0)
        try:
            return env.grade(problem, answer_alone(env, text, state))
        finally:
            env.close(state)
    except Exception as error:
        return Grade(correct=False, format_ok=False, error=described(error))


def explain(
    env: Env, problem: Problem, attempt: Attempt, grade: Grade, level: FeedbackLevel
) -> tuple[str, tuple[Note, ...]]:
    """The environment's explanation of an attempt, and its notes if it is a trajectory, whose state
    is closed. Raises what the environment raises.
    """
    # Another loop may have played a trajectory where the environment has single answers.
    if not env.acts or attempt.trajectory is None:
        return clean_text(env.explain(problem, graded_part(attempt.text), grade, level)), ()
    said = env.explain(problem, attempt.trajectory, grade, level)
    notes = tuple(Note(note.text, note.step) for note in said)
    return clean_text(notes_text(notes)), notes


def attempt_of(env: Env, text: str) -> Attempt:
    """An attempt without tokens that is only this answer."""
    return Attempt(
        (), (), None, text, True, trajectory=answer_alone(env, text) if env.acts else None
    )


def answer_alone(env: Env, text: str, state: Any = None) -> Trajectory:
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
    # `split` gives the text before the first match, then by turns a number and a text.
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
