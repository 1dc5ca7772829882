"""`docs/examples/openenv_client.py` with a real server of OpenEnv on loopback."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rltf_verl.envs import make_env
from rltf_verl.feedback.verifier import VerifierProvider
from rltf_verl.types import Action, Problem
from tests.support.acting import played
from tests.support.acting_fakes import ScriptedActor
from tests.support.episode_fakes import parts_with, play_parts

pytest.importorskip("websockets", reason="'openenv'")
from websockets.exceptions import ConnectionClosed

ROOT = Path(__file__).parents[2]
OWN = ROOT / "build" / "openenv" / "bin" / "python"  # `make test-extras`
PATIENT_S = 300.0


@contextmanager
def serving() -> Iterator[str]:
    """A server's process -> its address."""
    if not OWN.exists() and find_spec("openenv") is None:
        pytest.skip("'openenv'")
    python = str(OWN) if OWN.exists() else sys.executable
    with socket.create_server(("127.0.0.1", 0)) as listening:
        number, port = listening.fileno(), listening.getsockname()[1]
        words = ["-m", "tests.support.openenv_server", str(number), str(PATIENT_S)]
        process = subprocess.Popen([python, *words], pass_fds=[number], cwd=ROOT)
    try:
        yield f"ws://127.0.0.1:{port}/ws"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as served:
        yield served


def served_env(url: str, **options: Any) -> Any:
    kwargs = {"url": url, "timeout_s": PATIENT_S, **(options or {"shown": "text"})}
    factory = str(ROOT / "docs" / "examples" / "openenv_client.py:Session")
    return make_env("gym_text", factory=factory, kwargs=kwargs, step_s=PATIENT_S)


def problem_of(env: Any) -> Problem:
    return env.build(1, 1, 0).train[0]


def test_64_sessions_at_once_keep_apart(url: str) -> None:
    env = served_env(url)
    problems = [Problem("gym_text", k, {"seed": k, "row": {}}, "") for k in range(64)]
    actions = [[Action(text) for text in "9123"[: 2 + k % 3]] for k in range(64)]
    states = [env.open(problem, 0) for problem in problems]
    with ThreadPoolExecutor(64) as threads:
        trajectories = threads.map(partial(played, env), problems, actions, states)
    for problem, told, trajectory in zip(problems, actions, trajectories, strict=True):
        seen = [result.observation for step in trajectory.steps for result in step.results]
        assert seen == ["No.", *(f"{action.text}." for action in told[1:])]
        assert env.grade(problem, trajectory).correct
        env.close(trajectory.state)


def test_what_the_server_refuses_is_feedback_on_that_step(url: str) -> None:
    env = served_env(url)
    problem = problem_of(env)
    env.limits = replace(env.limits, steps=3)
    policy = ScriptedActor(["raise", "2", "3", "1", "2", "3"])
    parts = parts_with(env, VerifierProvider("hint"), horizon=2)
    turn, _ = asyncio.run(play_parts(parts, policy, problem=problem)).turns
    notes = [(note.step, note.text) for note in turn.feedback.notes]
    assert notes == [(0, "the abacus is broken"), (1, "1 comes next."), (2, "1 comes next.")]


def test_an_answer_that_is_no_action_is_refused_in_the_servers_words(url: str) -> None:
    env = served_env(url, action=None)
    state = env.open(problem_of(env), 0)
    assert "Field required" in env.step(state, Action('{"word": "1"}')).observation
    assert "Expecting value" in env.step(state, Action("one")).observation
    assert '"1."' in env.step(state, Action('{"message": "1"}')).observation
    env.close(state)


def test_a_late_observation_is_none_and_no_new_session_is_opened(url: str) -> None:
    env = served_env(url)
    state = env.open(problem_of(env), 0)
    state.made._timeout_s = 0.1
    with pytest.raises(TimeoutError):
        env.step(state, Action("slow"))
    env.close(state)


def test_a_server_that_dies_ends_the_attempt_without_a_verdict() -> None:
    with serving() as url:
        env = served_env(url)
        problem = problem_of(env)
        state = env.open(problem, 0)
    with pytest.raises(ConnectionClosed):
        env.step(state, Action("1"))
    env.close(state)
    parts = parts_with(env, VerifierProvider("hint"), horizon=2)
    episode = asyncio.run(play_parts(parts, ScriptedActor(["1"]), problem=problem))
    assert episode.turns[0].attempt.trajectory.end == "environment_error"
