"""The three puzzles keep the contract of an environment, in each mode and style."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.envs import make_env
from rltf_verl.envs.knights_knaves.logic import same_puzzle_key
from rltf_verl.tools.contract import check_env
from tests.support.effort import examples, many
from tests.support.puzzles import sha256, sha256_of

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


RELEASED = {
    "binary_matrix": (
        ("matrix", "solution", "n"),
        500,
        "12200e913354ba8406aee2f3be03c7b190519557f1c6f3b043b7cc2538faafad",
        "294fcbfbddf557bb7f2e6a97ba07b9b3475deac233eb16f878876b56005c4ca9",
        "95f1ba8d9e85a095a271d273d3ae87ede1b6694728006ac7d70b53b04228aa96",
        "d4f4f1f3f8f140bb760bdee045d8c8604b6ae82853188ed07e8870dee594b088",
    ),
    "knights_knaves": (
        ("names", "solution", "solution_text", "quiz"),
        200,
        "85756d12e87302b0b062c6846e50a80fd14b88b1ce36e1375325e643b1b9b59c",
        "97125c0c3711e37ed1e69519539c5fd96ad42fd85b140b12ea47613169f31021",
        "9c69ceee8e827615a8f14c223a92b8b0766e855b47fea9e90191fe634c36d96f",
        "b49090ba9151c6dc5355b16192831256da2cded2c272eefdc7786179a965b5f2",
    ),
    "shortest_path": (
        ("grid", "start", "dest", "rows", "cols", "answer"),
        500,
        "9df027186ffa610c72032f7345e9d4cdb42aa8f84fc50fc2ae43a924275d0b19",
        "974b711ca571facc30e81feec932997b64eb601097968b08a021ea2260e254c5",
        "e3a0a91ab14caf6646e1d687474ec12b6803192c1d332085837489f9e8c3f769",
        "701bf5153ff3c961de9c0bd157b715d7a504583be706de14784fd299dde9938f",
    ),
}
"""Fields of the release's items at seed 0, and SHA-256 of the first so many, of the first prompt,
of the 19 800 training items and of the 200 test items.
"""


@pytest.mark.parametrize("name", PUZZLES)
def test_the_first_official_items_are_the_release_s(name: str) -> None:
    keys, num, items, prompt, *_ = RELEASED[name]
    env = make_env(name, mode="official")
    first = env.build(0, num, 0).train
    assert (sha256_of(first, keys), sha256(env.prompt(first[0]))) == (items, prompt)


@pytest.mark.nightly
@pytest.mark.parametrize("name", PUZZLES)
def test_all_official_items_are_the_release_s(name: str) -> None:
    """Half a minute for `knights_knaves`: the release's sampler asks numpy for every choice."""
    keys, *_, train, test = RELEASED[name]
    splits = make_env(name, mode="official").build(0, 19_800, 200)
    assert (sha256_of(splits.train, keys), sha256_of(splits.test, keys)) == (train, test)


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
