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
from copy import deepcopy
from functools import partial
from queue import Empty, SimpleQueue
from types import SimpleNamespace
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from rltf_verl.envs.base import ActingEnv, Env, FeedbackLevel, GradesAsync, GradeUnavailable
from rltf_verl.registry import UserCodeError, UserCodeTimeoutError, described
from rltf_verl.types import MOST_READ, Action, Grade, Note, PlayedStep, Problem, Step, Trajectory

T = TypeVar("T")
Outcome = tuple[Any, Exception | None]
"""What a call returned, and what it raised."""

DEADLINE_S = 600.0
"""Seconds of a call, where the environment has no `limits`."""
JUDGES_S = 3600.0
"""Seconds of `agrade`: it waits for judges, which have their own deadlines."""
MOST_CALLS = 32
"""Calls that start at a time in one event loop; more would only share the interpreter."""
COMPUTES_S = 1.0
"""Seconds after which a call counts as one that waits, and another may start."""

_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def deadline_of(env: Any) -> float:
    """Seconds of a call: `limits.step_s` where attempts are trajectories."""
    acting = acting_env(env)
    return DEADLINE_S if acting is None else acting.limits.step_s


async def call_env(
    seconds: float,
    call: Callable[..., T],
    *args: Any,
    unwanted: Callable[[T], object] | None = None,
) -> T:
    """`call(*args)` in a thread; other episodes go on.

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
        async with _slots.setdefault(loop, asyncio.Semaphore(MOST_CALLS)):
            _start(lambda o: loop.call_soon_threadsafe(running.set_result, o), call, *args)
            await asyncio.wait({running}, timeout=min(seconds, COMPUTES_S))
        await asyncio.wait({running}, timeout=max(seconds - COMPUTES_S, 0.0))
        is_over = running.done()
    finally:
        if unwanted is not None and not is_over:
            running.add_done_callback(partial(_hand_over, unwanted))
    if not is_over:
        raise _late(getattr(call, "__name__", "the call"), seconds)
    return cast(T, _value(running.result()))


async def await_env(seconds: float, call: Callable[..., Awaitable[T]], *args: Any) -> T:
    """As `call_env`, for a method that is a coroutine function: in the event loop."""
    try:
        return await asyncio.wait_for(_awaited(call, *args), seconds)
    except asyncio.TimeoutError:
        raise _late(getattr(call, "__name__", "the call"), seconds) from None


async def _awaited(call: Callable[..., Awaitable[T]], *args: Any) -> T:
    try:
        return await call(*args)
    except BaseException as error:  # user code
        if isinstance(error, asyncio.CancelledError) and is_cancelled():
            raise
        raise _failure(error) from None


def is_cancelled() -> bool:
    """Whether this task was cancelled, and not one that user code waited for."""
    task = asyncio.current_task()
    return (
        task is None or not hasattr(task, "cancelling") or task.cancelling() > 0
    )  # Python 3.10 does not say


def bounded(env: Any, most_s: float = DEADLINE_S) -> Any:
    """A stand-in for the environment, for code that is no coroutine: its methods raise as
    `call_env` does. A method that was once late is not called again; `build` may take its time.

    Args:
        env: the environment.
        most_s: seconds of a call, where the environment's own deadline is not shorter.
    """
    late = set[str]()

    def method(name: str, call: Callable[..., Any], *args: Any) -> Any:
        seconds = min(env.limits.attempt_s if name == "open" else deadline_of(env), most_s)
        if name not in late:
            outcomes: SimpleQueue[Outcome] = SimpleQueue()
            _start(outcomes.put, call, *args)
            with suppress(Empty):
                return _value(outcomes.get(timeout=seconds))
            late.add(name)
        raise _late(name, seconds)

    public: dict[str, Any] = {"fork": fork}
    for name in dir(env):
        with suppress(Exception):  # a property that raises
            public |= {name: getattr(env, name)} if name[0] != "_" else {}
    own = {n: partial(method, n, v) for n, v in public.items() if callable(v) and n != "build"}
    return SimpleNamespace(**public | own)


def fork(state: Any) -> Any:
    """A deep copy: `fork` of an environment that has none. Raises TypeError."""
    try:
        return deepcopy(state)
    except Exception as error:
        why = f"the state cannot be copied ({described(error)}); give the environment a `fork`"
        raise TypeError(why) from error


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
    """What of an answer graders and `explain` get to see: all but the beginning of one without an
    end.
    """
    return text[-MOST_READ:]


async def grade(env: Env, problem: Problem, text: str) -> Grade:
    """The environment's verdict, in whichever way it is had. Raises as `call_env`."""
    text = graded_part(text)
    if isinstance(env, GradesAsync):
        return await await_env(JUDGES_S, env.agrade, problem, text)
    return await call_env(deadline_of(env), grade_text, env, problem, text)


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
        return Grade(correct=False, format_ok=False, error=described(error))


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
