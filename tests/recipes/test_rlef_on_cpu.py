"""RLEF: programs revised after their public tests, rewarded by the private ones."""

import pytest

from rltf_verl.envs import make_env
from rltf_verl.envs.code.env import Code
from rltf_verl.types import Role
from tests.recipes.seeds import hints, play, rewards, stops

WRONG = "```python\nprint(31337)\n```"


@pytest.fixture(scope="module")
def env() -> Code:
    return make_env("code", source="arithmetic", sandbox="unsafe_process")


@pytest.fixture(scope="module")
def problem(env):
    return env.build(0, 1, 0).train[0]


def test_an_episode(config, env, problem) -> None:
    episodes = play(config, [[WRONG, "I do not know", problem.reference]], env=env, problem=problem)
    assert rewards(episodes)[0] == pytest.approx([0.0, -0.1, 1.0]), (
        "half of RLEF's -0.2 without a program"
    )
    assert stops(episodes) == ["solved"]
    results, no_program = hints(episodes)[0]
    assert "31337" in results, "what the program gave in a public test"
    assert "no Python program" in no_program
    (row,) = episodes.rows
    assert set(row.role) == {int(Role.ATTEMPT), -1}, (
        "one conversation; what was said to it is masked"
    )
    prompt = episodes.policies[0].prompts[-1]
    assert WRONG in prompt
    assert results in prompt


def test_neither_the_solution_nor_a_private_test_is_told(config, env, problem) -> None:
    episodes = play(config, [[WRONG] * 3], env=env, problem=problem)
    feedback = " ".join(hints(episodes)[0])
    assert problem.data["solution"].strip().splitlines()[-1].strip() not in feedback
    seen = {str(test["input"]) for test in problem.data["public"]}
    hidden = {str(test["input"]) for test in problem.data["private"]} - seen
    assert hidden
    assert not [test for test in hidden if test in feedback]
    assert stops(episodes) == ["horizon"]
