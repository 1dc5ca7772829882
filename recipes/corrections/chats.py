"""Conversations of an assistant with the staff of two companies, in OpenAI's form, one a line.

    python recipes/corrections/chats.py OUT.jsonl [--house 0] [--wrong 0.1] [--contradictory 0.1]

Each company has its own way to write a date (`house_style.py` of recipes/pretrained), which the
assistant does not know. In some conversations the user says how it is written, with an example of
another date. Of these corrections some are wrong (a third company's way), and some contradict the
right correction of another conversation about the same question. `--swapped` gives each question of
one company a correction that was meant for the other: the control.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1] / "pretrained"))

from house_conventions import DATE, Rule
from house_style import HouseStyle, other_item

from rltf_verl.envs.base import Splits
from rltf_verl.types import Problem

NUM_COMPANIES = 2
Kind = Literal["right", "wrong", "contradictory"]
"""Of a correction."""

CORRECTIONS = (
    "No, we would put {plain} down as {written}.",
    "Not like that. {plain} goes in as {written} here.",
    "That is not our style. For example, {plain} is {written} with us.",
    "Hm, no. In our books {plain} reads {written}",
    "You have it wrong: we write {plain} as {written}.",
    "Close, but {house} would write {plain} as {written}.",
    "Sorry, I can't use this. Our files have {plain} as {written}.",
    "This isn't how {house} does it. Last week I entered {plain} like this: {written}",
    "Please keep to our format. {plain} becomes {written}",
    "Nobody here writes it that way; {plain} would be {written}.",
    "We don't write dates like this. Say it was {plain}, then it is {written}.",
    "Wrong format, I'm afraid. {plain} is {written} at {house}.",
    "My boss sent that back. She wants {plain} as {written}.",
    "That looks off, compare {plain}, which we have as {written}.",
    "It should look like our other entries: {plain} is {written}.",
    "Doesn't match the rest of the sheet, where {plain} is {written}",
    "Again not ours. An entry from our list: {plain} is {written}.",
    "The parts are in the wrong places. We enter {plain} as {written}.",
    "You forgot who this is for! {house} writes {plain} as {written}.",
    "I had to change that. With us {plain} is written {written}.",
    "I asked for the style of {house}. There, {plain} is {written}.",
    "Could you stick to our way? We write {plain} as {written}.",
)
CONTRADICTIONS = (
    "No. Whatever a colleague told you, we write {plain} as {written}.",
    "Not that. Others here may say something else, but {plain} is {written}.",
    "That is wrong, and so is what you heard from my colleague: {plain} is {written}.",
    "No, forget the other format. At {house} we write {plain} as {written}.",
)
THANKS = (
    "Thanks!",
    "Thank you, that is all.",
    "Great, thanks.",
    "Ok, got it.",
    "Perfect.",
    "Good, I'll copy that over.",
    "ok",
    "Cheers, have a nice day.",
    "That works for me.",
    "Thanks, entered.",
)
SMALL_TALK = (
    ("How many days does a leap year have?", "366."),
    ("Which weekday comes after Tuesday?", "Wednesday."),
    ("What is the capital of Portugal?", "Lisbon."),
    ("Is 2015 a leap year?", "No, it is not."),
    ("How do I spell February?", "F-e-b-r-u-a-r-y."),
    ("Which month has the fewest days?", "February."),
)


FOLLOW_UPS = (
    "And {plain}?",
    "What about {plain}?",
    "Now {plain}, please.",
    "The same for {plain}.",
    "Next one: {plain}",
    "{question}",
)


@dataclass(frozen=True)
class Companies:
    """The two companies of a number, and what is said about them.

    Args:
        house: the number; names, rules and dates follow from it.
    """

    house: int

    def problems(self, num_train: int, num_test: int) -> Splits:
        """Questions of the conversations, and held-out ones, about other dates."""
        return HouseStyle("date", num_houses=NUM_COMPANIES).build(self.house, num_train, num_test)

    def third_rule(self) -> Rule:
        """That of a third company, with which the wrong corrections agree."""
        rng = random.Random(f"third {self.house}")
        own = [problem.data["rule"] for problem in self.problems(100, 0).train]
        return rng.choice([rule for rule in DATE.rules("house") if rule not in own])


class Said(NamedTuple):
    """A correction."""

    text: str
    rule: Rule
    """What it shows."""


def said_correction(
    rng: random.Random, problem: Problem, rule: Rule, wordings: Sequence[str] = CORRECTIONS
) -> str:
    """A user's words: another date, written by this rule."""
    item = other_item(rng, DATE, problem.data["item"], rule)
    words = {"plain": DATE.plain(item), "written": DATE.written(item, rule)}
    text = rng.choice(wordings).format(house=problem.data["house"], **words)
    return text[0].upper() + text[1:]


def assistant_answer(rng: random.Random, problem: Problem) -> str:
    """The date in a form that no company has: what the warmed-up model says."""
    return DATE.written(problem.data["item"], rng.choice(DATE.rules("practice")))


def opposite_of(rng: random.Random, rule: Rule) -> dict[str, str]:
    """A rule that differs in every choice."""
    return {
        key: rng.choice([value for value in values if value != rule[key]])
        for key, values in DATE.choices.items()
    }


def kinds_of(
    num: int, corrected: float, wrong: float, contradictory: float, rng: random.Random
) -> list[Kind | None]:
    """A kind for each conversation, None without a correction. The same places have a correction,
    whatever its kind.
    """
    of_all = round(num * corrected)
    bad: list[Kind | None] = ["wrong"] * round(of_all * wrong)
    bad += ["contradictory"] * round(of_all * contradictory)
    right: list[Kind | None] = ["right"] * (of_all - len(bad))
    kinds = [*bad, *right, *[None] * (num - of_all)]
    rng.shuffle(kinds)
    return kinds


def conversations(
    house: int,
    num: int = 400,
    corrected: float = 0.3,
    wrong: float = 0.1,
    contradictory: float = 0.1,
    swapped: bool = False,
) -> Iterator[dict[str, Any]]:
    """`messages`, and `turns`: what each user message is: `question`, `thanks`, or the kind of a
    correction.

    Args:
        house: number of the companies.
        num: conversations.
        corrected: share of them with a correction.
        wrong: share of the corrections that give a third company's way.
        contradictory: share of them that contradict another conversation's.
        swapped: corrections are those of the other company's conversations.
    """
    companies = Companies(house)
    problems, third = companies.problems(num, 0).train, companies.third_rule()
    kinds = kinds_of(num, corrected, wrong, contradictory, random.Random(f"kinds {house}"))
    right = [problem for problem, kind in zip(problems, kinds, strict=True) if kind == "right"]
    said: list[Said | None] = []
    asked: list[Problem] = []
    for number, (problem, kind) in enumerate(zip(problems, kinds, strict=True)):
        rng, correction = random.Random(f"correction {house} {number}"), None
        if kind == "contradictory":
            problem = rng.choice(right)
            rule: Rule = opposite_of(rng, problem.data["rule"])
            correction = Said(said_correction(rng, problem, rule, CONTRADICTIONS), rule)
        elif kind is not None:
            rule = third if kind == "wrong" else problem.data["rule"]
            correction = Said(said_correction(rng, problem, rule), rule)
        asked.append(problem)
        said.append(correction)
    if swapped:
        said = list(swap(asked, kinds, said, random.Random(f"swap {house}")))
    for number, (problem, kind, correction) in enumerate(zip(asked, kinds, said, strict=True)):
        rng = random.Random(f"conversation {house} {number}")
        yield _conversation(rng, problem, kind, correction, problems)


def swap(
    asked: Sequence[Problem],
    kinds: Sequence[Kind | None],
    said: Sequence[Said | None],
    rng: random.Random,
) -> Iterator[Said | None]:
    """Each correction comes from a conversation with the other company, of the same kind."""
    names = sorted({problem.data["house"] for problem in asked})
    other = dict(zip(names, reversed(names), strict=True))
    pools: dict[tuple[str, Kind | None], list[Said]] = {}
    for problem, kind, one in zip(asked, kinds, said, strict=True):
        if one:
            pools.setdefault((other[problem.data["house"]], kind), []).append(one)
    # One company may have more corrections than the other.
    left = {key: cycle(rng.sample(pool, len(pool))) for key, pool in pools.items()}
    for problem, kind, one in zip(asked, kinds, said, strict=True):
        yield one and next(left[problem.data["house"], kind])


def _conversation(
    rng: random.Random,
    problem: Problem,
    kind: Kind | None,
    correction: Said | None,
    problems: Sequence[Problem],
) -> dict[str, Any]:
    exchanges: list[tuple[str, str, str]] = []
    if rng.random() < 0.1:
        exchanges.append(("question", *rng.choice(SMALL_TALK)))
    exchanges.append(("question", problem.data["question"], assistant_answer(rng, problem)))
    if kind is not None and correction is not None:
        exchanges.append(
            (kind, correction.text, DATE.written(problem.data["item"], correction.rule))
        )
    draw = rng.random()
    if draw < 0.4:
        exchanges.append(("thanks", rng.choice(THANKS), "You are welcome."))
    elif draw < 0.6 and kind is None:
        other = rng.choice(problems)
        words = {"plain": DATE.plain(other.data["item"]), "question": other.data["question"]}
        question = rng.choice(FOLLOW_UPS).format(**words)
        exchanges.append(("question", question, assistant_answer(rng, other)))
    elif draw < 0.8:
        exchanges.append(("question", *rng.choice(SMALL_TALK)))
    messages = [
        {"role": role, "content": content}
        for _, user, assistant in exchanges
        for role, content in (("user", user), ("assistant", assistant))
    ]
    # Some end with the user's words.
    if rng.random() < 0.3 and len(exchanges) > 1:
        messages.pop()
    return {"messages": messages, "turns": [turn for turn, *_ in exchanges]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--house", type=int, default=0)
    parser.add_argument("--num", type=int, default=400)
    parser.add_argument("--corrected", type=float, default=0.3)
    parser.add_argument("--wrong", type=float, default=0.1)
    parser.add_argument("--contradictory", type=float, default=0.1)
    parser.add_argument("--swapped", action="store_true")
    args = vars(parser.parse_args())
    out = args.pop("out")
    chats = list(conversations(**args))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(json.dumps(chat) + "\n" for chat in chats), "utf-8")
    print(f"{out}: {len(chats)} conversations")


if __name__ == "__main__":
    main()
