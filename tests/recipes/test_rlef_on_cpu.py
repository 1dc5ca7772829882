"""RLEF: programs revised after their public tests, rewarded by the private ones."""

import pytest

from rltf_verl.envs import make_env
from rltf_verl.types import Role
from tests.recipes.seeds import hints, play, rewards, stops

WRONG = "```python\nprint(31337)\n```"


def test_an_episode(config) -> None:
    env = make_env("code", source="arithmetic", sandbox="unsafe_process")
    (problem,) = env.build(0, 1, 0).train
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
