"""The three puzzles keep the contract of an environment, in each mode and style."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.envs import make_env
from rltf_verl.envs.knights_knaves.logic import same_puzzle_key
from rltf_verl.tools.contract import check_env
from tests.support.effort import examples, many

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


@pytest.mark.parametrize("name", PUZZLES)
def test_a_smaller_official_build_is_a_prefix_of_the_same_sequence(name: str) -> None:
    env = make_env(name, mode="official")
    longer, shorter = env.build(0, 30, 0).train, env.build(0, 20, 10)
    assert [p.data for p in longer] == [p.data for p in (*shorter.train, *shorter.test)]


SMALL: dict[str, tuple[dict[str, Any], Callable[[Any], str]]] = {
    "binary_matrix": ({"n_min": 2, "n_max": 3}, lambda data: str(data["matrix"])),
    "knights_knaves": (
        {"style": "compact", "n_people": 3, "depth": 2, "width": 2},
        lambda data: same_puzzle_key(data["statements"]),
    ),
    "shortest_path": (
        {"rows_min": 2, "rows_max": 4, "cols_min": 3, "cols_max": 4},
        lambda data: str(data["grid"]),
    ),
}
"""Options that leave few problems, and what makes two problems the same."""


@pytest.mark.parametrize("name", PUZZLES)
@given(seed=st.integers(0, 2**32))
@examples(20)
def test_strict_splits_are_apart_and_repeat(name: str, seed: int) -> None:
    options, key = SMALL[name]
    env = make_env(name, **options)
    splits = env.build(seed, 60, 5)
    test = {key(problem.data) for problem in splits.test}
    assert len(test) == 5
    assert test.isdisjoint(key(problem.data) for problem in splits.train)
    assert splits == env.build(seed, 60, 5)
    assert splits.test == env.build(seed, 7, 5).test, "whatever the size of the other split"
