"""Reading `\\boxed{}`: the release's outputs, and the lenient reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rltf_verl.envs.text.boxed import extract_boxed, last_box

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "binary_matrix.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["extract_boxed"], ids=lambda case: case["text"])
def test_extract_boxed_is_the_release_s(case: dict) -> None:
    if case["error"]:
        with pytest.raises(ValueError, match=r"unmatched|no "):
            extract_boxed(case["text"])
    else:
        assert extract_boxed(case["text"]) == case["value"]


def test_extract_boxed_bare_word() -> None:
    assert extract_boxed("so \\boxed 42.") == "42"


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("none", None),
        ("}{ \\boxed{1}", "1"),
        ("\\boxed{1} then \\boxed {a{b}c} }", "a{b}c"),
        ("\\boxed{cut off", "cut off"),
        ("\\boxed{}", ""),
        ("\\boxed{1}, which is within \\boxed{ }", "1"),
        ("\\boxed{1} or \\boxed{", ""),
    ],
)
def test_last_box(text: str, inside: str | None) -> None:
    assert last_box(text) == inside
