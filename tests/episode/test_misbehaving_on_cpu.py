"""600 environments, each of which misbehaves in one call of one method: each ends its own attempt
and nothing else.
"""

import asyncio
import json
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rltf_verl.envs.base import GradeUnavailable
from rltf_verl.episode.acting import first_messages
from rltf_verl.feedback.verifier import VerifierProvider
from rltf_verl.jsonl import line_of
from rltf_verl.runlog.record import episode_record
from rltf_verl.types import Episode, Grade, Note, Step
from tests.support.acting_fakes import ActorEnv, MuteError, ScriptedActor, call
from tests.support.episode_fakes import PROBLEM, QUESTION, parts_with, play_parts

METHODS = ("open", "look", "step", "fork", "grade", "explain", "close")


class Grumpy:
    """An object that raises whatever is done with it."""

    def _refuse(self, *_: object, **__: object) -> Any:
        raise KeyboardInterrupt

    __str__ = __repr__ = __eq__ = __bool__ = __len__ = __iter__ = __float__ = _refuse  # type: ignore[assignment]
    __deepcopy__ = __index__ = __contains__ = __getitem__ = _refuse
    __hash__ = None  # type: ignore[assignment]


def nested(depth: int) -> Any:
    made: Any = []
    for _ in range(depth):
        made = [made]
    return made


def never_done() -> Any:
    yield Note("once")
    raise SystemExit


RAISED: tuple[Callable[[], BaseException], ...] = (
    lambda: ZeroDivisionError("own"),
    lambda: SystemExit(3),
    lambda: SystemExit(),
    KeyboardInterrupt,
    GeneratorExit,
    lambda: BaseException("base"),
    StopIteration,
    StopAsyncIteration,
    asyncio.CancelledError,
    asyncio.TimeoutError,
    TimeoutError,
    RecursionError,
    MemoryError,
    MuteError,
    lambda: GradeUnavailable("own"),
    lambda: GradeUnavailable(Grumpy()),  # type: ignore[arg-type]
    lambda: UnicodeEncodeError("utf-8", "\ud800", 0, 1, "half"),
    lambda: ValueError("\ud800\x00" * 1000),
    lambda: ValueError("x" * 5_000_000),
    lambda: BaseException([ValueError()]),
)


RETURNED: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: float("nan"),
    lambda: 5,
    lambda: "x" * 2_000_000,
    lambda: "\ud800",
    lambda: b"\xff",
    lambda: nested(3000),
    lambda: np.array([1, 2]),
    dict,
    lambda: object,
    Grumpy,
    never_done,
    lambda: Step(observation=5),  # type: ignore[arg-type]
    lambda: Step("", done=np.array([True, False])),  # type: ignore[arg-type]
    lambda: Step("", kind="odd"),  # type: ignore[arg-type]
    lambda: Step("\ud800" * 3, score=float("inf")),
    lambda: Grade(None, True),  # type: ignore[arg-type]
    lambda: Grade(False, True, score=float("nan")),
    lambda: Grade(False, Grumpy()),  # type: ignore[arg-type]
    lambda: Grade(False, True, parsed="\ud800" * 400_000, error="e\n" * 400_000),
    lambda: Grade(
        np.bool_(False),  # type: ignore[arg-type]
        0,  # type: ignore[arg-type]
        score=np.float32(0.5),  # type: ignore[arg-type]
        details={
            "nan": float("nan"),
            "grumpy": Grumpy(),
            "deep": nested(2000),
            "half": "\ud800",
            1: 2,
        },  # type: ignore[dict-item]
    ),
    lambda: [Note(5)],  # type: ignore[arg-type]
    lambda: [Note("n", step="one")],  # type: ignore[arg-type]
    lambda: [SimpleNamespace(text="n", step=0)],
)
STALLS = "stalls"
KINDS = (*RAISED, *RETURNED, STALLS)


class Misbehaves(ActorEnv):
    """In the given call of the method."""

    def __init__(self, method: str, kind: Any, at: int, release: threading.Event) -> None:
        step_s = 0.2 if kind is STALLS else 60.0
        super().__init__(step_s=step_s, attempt_s=step_s if method == "open" else 60.0)
        self.reached, self._num = False, 0
        self._kind, self._at, self._release = kind, at, release
        own = getattr(self, method)

        def misbehaves(*args: Any) -> Any:
            self._num += 1
            if self._num != self._at:
                return own(*args)
            self.reached = True
            if self._kind in RAISED:
                raise self._kind()
            if self._kind is not STALLS:
                return self._kind()
            assert self._release.wait(300), "the loop goes on"
            return None

        setattr(self, method, misbehaves)


async def played(env: ActorEnv, act: str = "ok") -> Episode:
    for _ in range(2):
        assert await first_messages(env, PROBLEM, QUESTION)  # type: ignore[arg-type]
    parts = parts_with(env, VerifierProvider("hint"), horizon=3, retry="fork")  # type: ignore[arg-type]
    return await play_parts(parts, ScriptedActor([call(act), "done"] * 20))


@pytest.mark.parametrize("method", METHODS)
def test_an_environment_that_misbehaves_ends_its_own_attempt(method: str) -> None:
    release = threading.Event()
    envs = [Misbehaves(method, kind, at, release) for kind in KINDS for at in (1, 2)]

    async def together() -> list[Episode]:
        healthy = [ActorEnv(step_s=300.0) for _ in range(3)]
        try:
            return await asyncio.gather(
                *(played(env) for env in envs), *(played(env, "win") for env in healthy)
            )
        finally:
            release.set()

    *episodes, a, b, c = asyncio.run(together())
    assert len(METHODS) * len(episodes) >= 600
    assert all(episode.turns[0].grade.correct for episode in (a, b, c))
    for env, episode in zip(envs, episodes, strict=True):
        assert env.reached or env._kind is STALLS
        line = line_of(episode_record(episode))
        assert json.loads(line, parse_constant=pytest.fail)["turns"]
        assert len(line) < 1_000_000
