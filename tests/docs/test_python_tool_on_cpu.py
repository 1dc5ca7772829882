"""`docs/examples/python_tool.py` keeps its promises, and its tool is the sandbox."""

from typing import Any

import pytest

from rltf_verl.envs import make_env
from rltf_verl.tools.contract import check_env
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
    printed, failed, _ = played(env, problem, programs).steps
    assert printed.results[0].observation == "42"
    assert "ZeroDivisionError" in failed.results[0].observation
