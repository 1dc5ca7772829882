"""Reading a text takes time in proportion to its length: nothing else may hold up a worker's
loop. What needs a clock is nightly.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Any

import pytest

from rltf_verl.envs.base import LEVELS
from rltf_verl.envs.binary_matrix.env import BinaryMatrix
from rltf_verl.envs.calls import MOST_READ, grade
from rltf_verl.envs.code import compare as code_compare
from rltf_verl.envs.code.text import last_program
from rltf_verl.envs.knights_knaves.env import KnightsKnaves
from rltf_verl.envs.math import text as math_text
from rltf_verl.envs.math import worker as math_worker
from rltf_verl.envs.reasoning_gym import feedback as gym_feedback
from rltf_verl.envs.reasoning_gym import text as gym_text
from rltf_verl.envs.reasoning_gym.worker import plain_expression
from rltf_verl.envs.shortest_path.env import ShortestPath
from rltf_verl.envs.text.boxed import extract_boxed, last_box
from rltf_verl.envs.writing.scoring import Scale, read_score
from rltf_verl.judge.parsing import parse_reply
from rltf_verl.prompts.quote import defused
from rltf_verl.redaction import Secrets
from rltf_verl.runlog.turns import says_nothing
from rltf_verl.texts import clean_text, without_chat_tokens
from rltf_verl.types import Grade, Problem

Reader = Callable[[str], object]

SHORT, LONG = 1_000, 8_000
NOTICEABLE_S = 0.1
"""Processor time of the long text below which its growth is nobody's business. A quadratic reader
takes seconds.
"""
MOST_TIMES = 24
"""The long text has 8 times the characters: 64 times the time would be quadratic."""

BITS = [
    *"~`\n\r \t09aAR-+.,:;|$\\{}[]()<>*_#='\"^/%&?!→é١\u2028\x1c",
    "\\\\",
    "\\boxed{",
    "\\boxed ",
    "{}",
    "[]",
    "[0,",
    "```\n",
    "~~~\n",
    "``` ",
    "\\begin{a}",
    "\\begin{",
    "\\text{",
    "\\text",
    "\\frac{",
    "<answer>",
    "</answer>",
    "answer is ",
    "answer:",
    "answer ",
    "1 2 3\n",
    "1. ",
    "\n\n",
    "\r\n",
    "right, down, ",
    "no ",
    "not ",
    "is ",
    "infeasible ",
    "Emma is a knight. ",
    "knight ",
    "and ",
    "a\n",
    "0 1 ",
    "- ",
    "->",
    "your answer ",
    "is wrong ",
    "the ",
    "try ",
    "1,",
    "1/",
    "1e",
    ">#",
    "score: ",
    "Critique:",
    "<|",
]
AROUND = [
    ("", ""),
    ("\\boxed{", ""),
    ("\\boxed{", "}"),
    ("answer is", "\n"),
    ("~", "`"),
    ("\\text", "1"),
    ("<answer>", ""),
]


@cache
def puzzle(env_class: type[Any], mode: str, style: str) -> tuple[Any, Problem]:
    env = env_class(mode=mode, style=style)
    return env, env.build(0, 1, 0).train[0]


def grade_and_explain(env_class: type[Any], mode: str, style: str, text: str) -> None:
    env, problem = puzzle(env_class, mode, style)
    env.explain(problem, text, env.grade(problem, text), LEVELS[2])


def boxed(text: str) -> None:
    with suppress(ValueError):
        extract_boxed(text)


READERS: Mapping[str, Reader] = {
    "extract_boxed": boxed,
    "last_box": last_box,
    "last_program": last_program,
    "math": lambda text: (math_text.said_answer(text), math_text.plainly_equal(text, text)),
    "math words": math_worker._WORDS.fullmatch,
    "reasoning_gym": gym_text.said_answer,
    "reasoning_gym said": lambda text: gym_feedback.reading(Grade(False, True, parsed=text)),
    "reasoning_gym shape": gym_feedback.shape,
    "reasoning_gym expression": plain_expression,
    "printed output": lambda text: code_compare.same_text(text, "1.5 " * 99, 1e-6),
    "log stats": says_nothing,
    "clean_text": lambda text: clean_text(text, 10**9),
    "without_chat_tokens": without_chat_tokens,
    "defused": defused,
    "defused tokens": lambda text: defused(text, ("<|im_end|>", "<s>", "[INST]")),
    "secrets": Secrets(["sk-Live_9aZ7+qX/42mNbVcRt"]).found_in,
    "judge's score": lambda text: read_score(text, Scale(1, 10)),
    "judge's reply": lambda text: parse_reply(text, marker="Critique:", words=150, complete=True),
    **{
        f"{env.__name__} {mode} {style}": partial(grade_and_explain, env, mode, style)
        for env in (BinaryMatrix, ShortestPath, KnightsKnaves)
        for mode, style in (("strict", "official"), ("strict", "compact"), ("official", "official"))
    },
}


def seconds(read: Reader, text: str) -> float:
    """Of this thread on a processor: others on a busy machine do not count."""
    start = time.thread_time()
    read(text)
    return time.thread_time() - start


def grows(read: Reader, make: Callable[[int], str]) -> float:
    """How many times as long the long text takes; 0 if it takes next to nothing."""
    if seconds(read, make(LONG)) < NOTICEABLE_S:
        return 0
    short = min(seconds(read, make(SHORT)) for _ in range(5))
    return min(seconds(read, make(LONG)) for _ in range(3)) / max(short, 1e-4)


NESTED = [("\\boxed{", "}"), ("{", "}"), ("[", "]"), ("(", ")"), ("<answer>", "</answer>")]
SHAPES: list[tuple[str, str, str, str]] = [
    *((before, bit, "", after) for bit in BITS for before, after in AROUND),
    *(("", left, right, "") for left, right in NESTED),
]
"""What stands before, what is repeated, what is repeated after it, what stands behind."""


@pytest.mark.nightly
@pytest.mark.parametrize("name", READERS)
def test_the_time_grows_with_the_length(name):
    for before, left, right, after in SHAPES:
        size = len(left) + len(right)
        times = grows(
            READERS[name],
            lambda n, k=size, a=before, b=left, c=right, d=after: (
                a + b * (n // k) + c * (n // k) + d
            ),
        )
        assert times < MOST_TIMES, (before, left, right, after)


def test_a_long_box_of_boxes_is_copied_once():
    depth = 100_000  # a copy per box would be 80 GB
    text = "\\boxed{" * depth + "1" + "}" * depth
    assert len(extract_boxed(text)) == len(text) - len("\\boxed{}")


def test_an_answer_without_an_end_is_read_from_its_end():
    env = BinaryMatrix()
    problem = env.build(0, 1, 0).train[0]
    long = " " * (2 * MOST_READ) + f"\\boxed{{{problem.reference}}}"
    assert asyncio.run(grade(env, problem, long)).correct
    cut_out = f"\\boxed{{{problem.reference}}}" + " " * (2 * MOST_READ)
    assert not asyncio.run(grade(env, problem, cut_out)).format_ok
