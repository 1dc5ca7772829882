"""The three puzzles keep the contract of an environment, in each mode and style."""

from __future__ import annotations

import pytest

from rltf_verl.envs import make_env
from rltf_verl.tools.contract import check_env
from tests.support.effort import many

PUZZLES = ("binary_matrix", "knights_knaves", "shortest_path")
FORMS = (
    {},
    {"mode": "official"},
    {"style": "compact"},
)


@pytest.mark.parametrize("name", PUZZLES)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_puzzle_keeps_the_contract(name: str, form: dict[str, str]) -> None:
    verdicts = check_env(make_env(name, **form), seed=3, num_hostile=many(1000))
    # In the release's mazes, words that name no direction mean that there is no path.
    known = {"nonsense is graded wrong"} if (name, form) == ("shortest_path", FORMS[1]) else set()
    assert {v.promise: v.broken for v in verdicts if v.broken and v.promise not in known} == {}
