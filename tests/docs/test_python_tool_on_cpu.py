"""`docs/examples/python_tool.py` keeps its promises, and its tool is the sandbox."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

import psutil
import pytest

from rltf_verl.envs import make_env
from rltf_verl.envs.base import LEVELS
from rltf_verl.tools.contract import check_env
from rltf_verl.types import Episode, PlayedStep, Trajectory
from tests.support.acting import call, played
from tests.support.acting_fakes import ScriptedActor
from tests.support.episode_fakes import ScriptedProvider, parts_with, play_parts
from tests.support.sandboxes import LOCAL, trouble


@pytest.mark.parametrize("sandbox", LOCAL)
def test_the_example_of_an_acting_environment(sandbox: Any) -> None:
    if reason := trouble(sandbox):
        pytest.skip(reason)
    env: Any = make_env("docs/examples/python_tool.py:PythonTool", sandbox=sandbox)
    verdicts = check_env(env, num_problems=2, num_hostile=12)
    assert not [verdict for verdict in verdicts if verdict.broken]

    problem = env.build(0, 1, 1).train[0]
    programs = [call("python", source="print(6 * 7)"), call("python", source="1 / 0")]
    trajectory = played(env, problem, programs)
    results = [step.results[0] for step in trajectory.steps[:2]]
    assert results[0].observation == "42"
    assert results[1].kind == "error"
    assert "ZeroDivisionError" in results[1].observation

    answer = PlayedStep(f"\\boxed{{{problem.reference}}}", (), (), 0, 0)
    assert env.grade(problem, Trajectory((*trajectory.steps, answer), "answered")).correct
    wrong = env.grade(problem, trajectory)
    notes = {level: env.explain(problem, trajectory, wrong, level) for level in LEVELS}
    assert [note.step for note in notes["location"]] == [None, 1]
    assert "ZeroDivisionError" in notes["hint"][1].text
    assert problem.reference in notes["full"][-1].text


FAULTS = {
    "raise": "1 / 0",
    "stall": "while True: pass",
    "flood": "while True: print('x' * 1_000_000)",
    "die": "import os; os.kill(os.getpid(), 9)",
    "fork": "import os, time\nif os.fork() == 0: time.sleep(600)\nprint(6 * 7)",
}
ONE_FAULT_IN = 10
NUM, AT_ONCE = 2000, 8


@pytest.mark.nightly
@pytest.mark.parametrize("sandbox", LOCAL)
def test_tools_that_raise_stall_flood_die_or_fork_cost_no_sibling(sandbox: Any) -> None:
    if reason := trouble(sandbox):
        pytest.skip(reason)
    env: Any = make_env("docs/examples/python_tool.py:PythonTool", sandbox=sandbox)
    env.limits = replace(env.limits, step_s=120, attempt_s=300)  # a busy machine is no fault
    parts = parts_with(env, ScriptedProvider(), horizon=1)
    before = set(psutil.Process().children(recursive=True))  # other tests' pools
    places, faults = asyncio.Semaphore(AT_ONCE), list(FAULTS.values())

    async def play(i: int) -> Episode:
        source = "print(6 * 7)" if i % ONE_FAULT_IN else faults[i // ONE_FAULT_IN % len(faults)]
        program = json.dumps({"name": "python", "arguments": {"source": source}})
        async with places:
            actor = ScriptedActor([f"<call>{program}</call>", "\\boxed{yes}"])
            return await play_parts(parts, actor)

    async def play_all() -> list[Episode]:
        return await asyncio.gather(*map(play, range(NUM)))

    endings: dict[str, set[str]] = defaultdict(set)
    for i, episode in enumerate(asyncio.run(play_all())):
        (turn,) = episode.turns
        assert (turn.grade.correct, turn.attempt.trajectory.end) == (True, "answered")
        name = "none" if i % ONE_FAULT_IN else list(FAULTS)[i // ONE_FAULT_IN % len(faults)]
        endings[name].add(turn.attempt.trajectory.steps[0].results[0].observation.split()[0])
    assert endings["none"] == {"42"}
    assert [endings[name] for name in ("raise", "stall", "die")] == [
        {"error:"}, {"timeout:"}, {"crash:"},
    ]  # fmt: skip
    assert set(psutil.Process().children(recursive=True)) <= before
