"""What counts as the expected output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.envs.code.compare import same_text, same_value

TEXTS = [  # printed, expected, same
    ("1\n2\n", "1\n2", True),
    ("  1  \n2\t\n\n\n", "1\n2\n", True),
    ("1  2", "1 2", True),
    ("1\n\n2", "1\n2", False),
    ("1 2", "1\n2", False),
    ("12", "1 2", False),
    ("YES", "Yes", False),
    ("", "", True),
    ("", "0", False),
    ("3.0", "3", True),
    ("+03", "3", True),
    ("3.0000001", "3", False),
    ("1000001", "1000000", False),
    ("0.3333333", "0.33333333333", True),
    ("0.334", "0.3333", False),
    ("2", "2.0", True),
    ("1e3", "1000.0", True),
    ("1e999 x", "1e999 x", True),
    ("1e9999", "1e999", True),
    ("nan", "1.5", False),
    ("inf", "1.5", False),
    ("9" * 10_000, "9" * 9_999 + "8", False),
]


@pytest.mark.parametrize(("printed", "expected", "same"), TEXTS)
def test_printed_text(printed, expected, same):
    assert same_text(printed, expected, 1e-6) is same


def test_without_a_tolerance_the_value_decides():
    assert same_text("0.50", "0.5", 0)
    assert not same_text("0.5000001", "0.5", 0)


VALUES = [
    ([1, [2]], [1, [2]], True),
    ([1], [1, 1], False),
    ({"a": 1}, {"a": 1.0}, True),
    ({"a": 1}, {"b": 1}, False),
    (True, 1, False),
    (1, True, False),
    (0, False, False),
    (True, True, True),
    ("1", 1, False),
    (None, None, True),
    (None, 0, False),
    (2, 2.0, True),
    (2.0000001, 2.0, True),
    (2.0000001, 2, False),
    (10**400, 1.0, False),
    (float("nan"), float("nan"), True),
    ([], {}, False),
]


@pytest.mark.parametrize(("got", "expected", "same"), VALUES)
def test_values(got, expected, same):
    assert same_value(got, expected, 1e-6) is same


@given(st.text(), st.text())
def test_any_two_texts_can_be_compared_and_each_is_itself(one, other):
    assert same_text(one, one, 1e-6)
    assert same_text(one, other, 1e-6) in (True, False)
    assert same_text(one + " \n", one, 0)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda v: st.lists(v)
    )
)
def test_every_value_is_itself(value):
    assert same_value(value, value, 1e-6)
