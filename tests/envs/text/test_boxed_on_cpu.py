"""Answers in `\\boxed{}` and behind `####`: each read where the prompt asks for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rltf_verl.envs.math.env import Math
from rltf_verl.envs.text.boxed import asks_for_hashes, extract_boxed, last_box, last_hashed
from rltf_verl.types import Problem
from tests.support.commands import ran
from tests.support.verl_rows import verl_row, write_rows

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


GSM8K = 'What is 7 * 9? Let\'s think step by step and output the final answer after "####".'
BOXED = "What is 7 * 9? Output the final answer within \\boxed{}."


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        (GSM8K, True),
        ("7 * 9?\nEnd with\n#### <answer>", True),
        ("7 * 9?\n####", True),
        ("7 * 9?\n#### answer", True),
        (BOXED, False),
        ("7 * 9?", False),
        ("#### Problem 3\n7 * 9?", False),
        ("##### x\n7 * 9?", False),
        (f"{GSM8K} Or in \\boxed{{}}.", False),
    ],
)
def test_what_a_prompt_asks_for(question: str, asks: bool) -> None:
    assert asks_for_hashes(question) == asks


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("#### 63", "63"),
        ("####63.", "63"),
        ("#### 1\n#### 63\n", "63"),
        ("so #### **63**", "63"),
        ("63", None),
        ("####", None),
        ("##### 63", None),
        ("#" * 100_000, None),
    ],
)
def test_what_stands_behind_the_last_one(text: str, answer: str | None) -> None:
    assert last_hashed(text) == answer


def problem(question: str) -> Problem:
    row = {"data_source": "openai/gsm8k", "reward_model": {"ground_truth": "63"}}
    return Problem("math", 0, dict(Math().data_of(question, row)), "63")


@pytest.mark.parametrize(
    ("question", "text", "mode", "correct"),
    [
        (GSM8K, "7 * 9 = 63\n#### 63", "strict", True),
        (GSM8K, "#### 64", "strict", False),
        (GSM8K, "\\boxed{64} #### 63", "strict", True),
        (GSM8K, "\\boxed{63}\n#### 64", "strict", False),
        (GSM8K, "It is \\boxed{63}.", "strict", True),
        (BOXED, "#### 63", "strict", False),
        (BOXED, "#### 64\n\\boxed{63}", "strict", True),
        (GSM8K, "#### 63", "official", False),
    ],
)
def test_a_row_is_graded_on_the_form_that_its_prompt_asks_for(
    question, text, mode, correct
) -> None:
    assert Math(mode=mode).grade(problem(question), text).correct == correct


def test_feedback_names_the_place() -> None:
    env, asked = Math(), problem(GSM8K)
    grade = env.grade(asked, "I do not know")
    assert env.explain(asked, "I do not know", grade, "location").endswith(
        "No answer was found after ####."
    )
    grade = env.grade(problem(BOXED), "I do not know")
    assert env.explain(problem(BOXED), "I do not know", grade, "location").endswith(
        "found in \\boxed{}."
    )


def test_wrap_says_when_prompts_ask_for_no_form(tmp_path: Path) -> None:
    for name, question, warned in (
        ("gsm8k", GSM8K, False),
        ("boxed", BOXED, False),
        ("neither", "7 * 9?", True),
    ):
        source = write_rows(tmp_path / f"{name}.parquet", [verl_row(question, "63")])
        out = tmp_path / f"{name}_wrapped.parquet"
        done = ran("data", "wrap", source, "--env", "math", "--out", out)
        assert ("1 of 1 prompts ask neither for \\boxed{} nor for ####" in done.output) == warned
