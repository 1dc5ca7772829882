"""Answers in `\\boxed{}` and behind `####`: each read where the prompt asks for it."""

from collections.abc import Callable

import pytest

from rltf_verl.envs.math.env import Math
from rltf_verl.envs.text.boxed import asks_for_hashes, extract_boxed, last_box, last_hashed
from rltf_verl.types import Problem

GSM8K = 'What is 7 * 9? Let\'s think step by step and output the final answer after "####".'
BOXED = "What is 7 * 9? Output the final answer within \\boxed{}."


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (extract_boxed, "so \\boxed 42.", "42"),
        (last_box, "none", None),
        (last_box, "}{ \\boxed{1}", "1"),
        (last_box, "\\boxed{1} then \\boxed {a{b}c} }", "a{b}c"),
        (last_box, "\\boxed{cut off", "cut off"),
        (last_box, "\\boxed{}", ""),
        (last_box, "\\boxed{1}, which is within \\boxed{ }", "1"),
        (last_box, "\\boxed{1} or \\boxed{", ""),
        (asks_for_hashes, GSM8K, True),
        (asks_for_hashes, "7 * 9?\nEnd with\n#### <answer>", True),
        (asks_for_hashes, "7 * 9?\n####", True),
        (asks_for_hashes, "7 * 9?\n#### answer", True),
        (asks_for_hashes, BOXED, False),
        (asks_for_hashes, "7 * 9?", False),
        (asks_for_hashes, "#### Problem 3\n7 * 9?", False),
        (asks_for_hashes, "##### x\n7 * 9?", False),
        (asks_for_hashes, f"{GSM8K} Or in \\boxed{{}}.", False),
        (last_hashed, "#### 63", "63"),
        (last_hashed, "####63.", "63"),
        (last_hashed, "#### 1\n#### 63\n", "63"),
        (last_hashed, "so #### **63**", "63"),
        (last_hashed, "63", None),
        (last_hashed, "####", None),
        (last_hashed, "##### 63", None),
        (last_hashed, "#" * 100_000, None),
    ],
)
def test_what_a_text_holds_or_a_prompt_asks_for(
    read: Callable[[str], object], text: str, expected: object
) -> None:
    assert read(text) == expected


def problem(question: str) -> Problem:
    row = {"data_source": "openai/gsm8k", "reward_model": {"ground_truth": "63"}}
    return Problem("math", 0, dict(Math().data_of(question, row)), "63")


@pytest.mark.parametrize(
    ("question", "text", "mode", "correct"),
    [
        (GSM8K, "7 * 9 = 63\n#### 63", "strict", True),
        (GSM8K, "#### 64", "strict", False),
        (GSM8K, "#### 63 eggs", "strict", True),
        (GSM8K, "#### 63 or 64", "strict", False),
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
    asked = problem(GSM8K)
    assert "####" in Math().explain(asked, "?", Math().grade(asked, "?"), "location")
