"""The warm-up's dialogues: questions and corrections of houses whose rules no trained house has.

    python recipes/pretrained/dialogues.py OUT.parquet [--family date] [--num 1280] [--seed 0]

Every dialogue has a rule of its own. Some are a first question with an answer in that rule,
which the question does not tell: the policy learns what answers look like. The others show a wrong
answer and an example of the rule: the policy learns to follow one. Half of the wrong answers are
nearly right, so that it does not learn to repeat its own. Of the family `critique` feedback names
one choice of the rule in words, and the second answer follows that and changes nothing else.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import house_letters
import pyarrow as pa
from house_conventions import DATE, KINDS
from house_critiques import draw_critique
from house_style import INCORRECT, Family, HouseStyle

from rltf_verl.data.provenance import write_table
from rltf_verl.prompts import render
from rltf_verl.types import Problem

FIRST_QUESTIONS = 0.3
"""Share of the dialogues without feedback."""
NEAR_MISSES = 0.5
"""Share of the wrong answers that are nearly right."""


def dialogues(family: Any, num: int, seed: int) -> Iterator[dict[str, Any]]:
    """Rows as verl's SFT trainer reads them."""
    rng, env = random.Random(seed), HouseStyle(family, conventions="practice", num_houses=num)
    problems = env.build(seed, num, 0).train
    for problem in problems:
        question, answer = env.prompt(problem), problem.reference
        if rng.random() >= FIRST_QUESTIONS:
            if family == "critique":
                attempt, feedback, answer = _critiqued(rng, problem.data, problems)
            else:
                attempt = _wrong(rng, problem, problems)
                feedback = env.explain(problem, attempt, env.grade(problem, attempt), "hint")
            question = render("revise/note", question=question, attempt=attempt, feedback=feedback)
        yield {
            "messages": [
                {"role": "user", "content": question},
                {"role": "assistant", "content": answer},
            ]
        }


def _wrong(rng: random.Random, problem: Problem, problems: tuple[Problem, ...]) -> str:
    data = problem.data
    other = rng.choice([one for one in problems if one.data["noun"] == data["noun"]]).data
    letter, near = data["noun"] == house_letters.NOUN, rng.random() < NEAR_MISSES
    if letter:
        rule = _one_changed(rng, data["rule"], other["rule"]) if near else other["rule"]
        attempt = house_letters.reference(data["item"], rule, (data if near else other)["house"])
    elif near:
        attempt = _near_miss(rng, data)
    else:
        attempt = KINDS[data["noun"]].written(data["item"], other["rule"])
    return attempt if attempt != problem.reference else _wrong(rng, problem, problems)


def _critiqued(
    rng: random.Random, data: Mapping[str, Any], problems: tuple[Problem, ...]
) -> tuple[str, str, str]:
    """A date in another rule, one choice of the house's in words, and the date with that choice and
    the others as they were.
    """
    item, rule, tried = data["item"], data["rule"], rng.choice(problems).data["rule"]
    if rng.random() < NEAR_MISSES:
        tried = _one_changed(rng, rule, tried)
    attempt = DATE.written(item, tried)
    if attempt == DATE.written(item, rule):
        return _critiqued(rng, data, problems)
    name, sentence = draw_critique(rng, item, rule, attempt)
    return attempt, f"{INCORRECT} {sentence}", DATE.written(item, {**tried, name: rule[name]})


def _near_miss(rng: random.Random, data: Mapping[str, Any]) -> str:
    """One choice of the rule, or one part of the item, is another."""
    kind, item, rule = KINDS[data["noun"]], data["item"], data["rule"]
    drawn, other = kind.draw_item(rng, "train"), rng.choice(kind.rules("practice"))
    if rng.random() < 0.5:
        return kind.written(_one_changed(rng, item, drawn), rule)
    return kind.written(item, _one_changed(rng, rule, other))


def _one_changed(
    rng: random.Random, values: Mapping[str, Any], others: Mapping[str, Any]
) -> dict[str, Any]:
    key = rng.choice(list(values))
    return dict(values) | {key: others[key]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--family", default="date", choices=get_args(Family))
    parser.add_argument("--num", type=int, default=1280)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rows = list(dialogues(args.family, args.num, args.seed))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_table(pa.Table.from_pylist(rows), args.out, vars(args) | {"out": args.out.name})
    print(f"{args.out}: {len(rows)} dialogues")


if __name__ == "__main__":
    main()
