"""What a model still can: nats per token of plain English, and ten short questions.

    python recipes/pretrained/ability.py MODEL [MODEL …] [--out ability.json]

A model is a folder that transformers reads. Questions are answered greedily through the chat
template; an answer counts if it has one of the words.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

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

QUESTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("What is the capital of France?", ("Paris",)),
    ("What is the capital of Italy?", ("Rome",)),
    ("How many days are in a week?", ("seven", "7")),
    ("How many months are in a year?", ("twelve", "12")),
    ("How many legs does a dog have?", ("four", "4")),
    ("What color is the sky on a clear day?", ("blue",)),
    ("Who wrote Romeo and Juliet?", ("Shakespeare",)),
    ("What is frozen water called?", ("ice",)),
    ("What do bees make?", ("honey",)),
    ("What is the opposite of hot?", ("cold",)),
)
MAX_NEW_TOKENS = 32


def ability(folder: Path) -> dict[str, Any]:
    """`nats_per_token` of `TEXT`, `right` of `QUESTIONS`, and the `answers`."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = tokenizer(TEXT, return_tensors="pt").input_ids
    with torch.inference_mode():
        nats = float(model(input_ids=ids, labels=ids).loss)
        answers = [_answer(model, tokenizer, question) for question, _ in QUESTIONS]
    right = [
        any(re.search(rf"\b{word}\b", answer, re.IGNORECASE) for word in words)
        for answer, (_, words) in zip(answers, QUESTIONS, strict=True)
    ]
    return {"nats_per_token": round(nats, 3), "right": sum(right), "answers": answers}


def _answer(model: Any, tokenizer: Any, question: str) -> str:
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": question}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    said = model.generate(
        **asked,
        max_new_tokens=MAX_NEW_TOKENS,
        do_sample=False,
        pad_token_id=tokenizer.eos_token_id,
    )
    return str(tokenizer.decode(said[0, asked["input_ids"].shape[1] :], skip_special_tokens=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = {str(folder): ability(folder) for folder in args.models}
    for folder, one in found.items():
        total = len(QUESTIONS)
        print(f"{folder}: {one['nats_per_token']:.3f} nats per token, {one['right']} of {total}")
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
