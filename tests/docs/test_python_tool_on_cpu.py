"""`docs/examples/python_tool.py` keeps its promises, and its tool is the sandbox."""

from typing import Any

import pytest

from rltf_verl.envs import make_env
from rltf_verl.envs.base import LEVELS
from rltf_verl.tools.contract import check_env
from rltf_verl.types import PlayedStep, Trajectory
from tests.support.acting import call, played
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
