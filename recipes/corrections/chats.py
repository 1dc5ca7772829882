"""Conversations of an assistant with the staff of a company, in OpenAI's form, one a line.

    python recipes/corrections/chats.py OUT.jsonl [--house 0] [--wrong 0.1] [--contradictory 0.1]

The company has its own way to write a date (`house_style.py` of recipes/pretrained), which the
assistant does not know. In some conversations the user says how it is written, with an example of
another date. Of these corrections some are wrong (another company's way), and some contradict the
right correction of another conversation about the same question. `--shuffled` puts in the place of
each correction one from a conversation with yet another company: the control.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1] / "pretrained"))

from house_conventions import DATE, Rule
from house_style import HouseStyle, other_item

from rltf_verl.envs.base import Splits
from rltf_verl.types import Problem

NUM_OTHERS = 16
"""Companies whose conversations the control takes its corrections from."""
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
class Company:
    """The company of a number, and what others say.

    Args:
        house: the number; name, way to write and dates follow from it.
    """

    house: int

    def problems(self, num_train: int, num_test: int) -> Splits:
        """Questions of the conversations, and held-out ones, about other dates."""
        return HouseStyle("date").build(self.house, num_train, num_test)

    @property
    def rule(self) -> Rule:
        """Its way to write a date."""
        rule: Rule = self.problems(1, 0).train[0].data["rule"]
        return rule

    @property
    def wrong_rule(self) -> Rule:
        """Another company's, with which all wrong corrections agree."""
        rng = random.Random(f"wrong {self.house}")
        return rng.choice([rule for rule in DATE.rules("house") if rule != self.rule])

    def others(self, num: int) -> list[Problem]:
        """Questions of other companies, which all write dates in another way."""
        houses = HouseStyle("date", num_houses=NUM_OTHERS)
        (own,) = self.problems(1, 0).train
        drawn = houses.build(1000 + self.house, 2 * num, 0).train
        return [
            one
            for one in drawn
            if one.data["house"] != own.data["house"] and one.data["rule"] != self.rule
        ][:num]


class Said(NamedTuple):
    """A correction."""

    kind: Kind
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
    """The date in a form that no company has, as the warmed-up model answers."""
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
    shuffled: bool = False,
) -> Iterator[dict[str, Any]]:
    """`messages`, and `turns`: what each user message is: `question`, `thanks`, or the kind of a
    correction.

    Args:
        house: number of the company.
        num: conversations.
        corrected: share of them with a correction.
        wrong: share of the corrections that give another company's way.
        contradictory: share of them that contradict another conversation's.
        shuffled: corrections are those of other companies' conversations.
    """
    company = Company(house)
    problems, others = company.problems(num, 0).train, company.others(num)
    kinds = kinds_of(num, corrected, wrong, contradictory, random.Random(f"kinds {house}"))
    right = [problem for problem, kind in zip(problems, kinds, strict=True) if kind == "right"]
    for number, (problem, kind) in enumerate(zip(problems, kinds, strict=True)):
        rng, correction = random.Random(f"correction {house} {number}"), None
        asked = rng.choice(right) if kind == "contradictory" else problem
        if kind is not None:
            rules: dict[Kind, Rule] = {
                "right": company.rule,
                "wrong": company.wrong_rule,
                "contradictory": opposite_of(rng, company.rule),
            }
            about, rule = asked, rules[kind]
            if shuffled:
                about, rule = others[number], others[number].data["rule"]
            wordings = CONTRADICTIONS if kind == "contradictory" else CORRECTIONS
            correction = Said(kind, said_correction(rng, about, rule, wordings), rule)
        rng = random.Random(f"conversation {house} {number}")
        yield _conversation(rng, asked, correction, problems)


def _conversation(
    rng: random.Random,
    problem: Problem,
    correction: Said | None,
    problems: Sequence[Problem],
) -> dict[str, Any]:
    exchanges: list[tuple[str, str, str]] = []
    if rng.random() < 0.1:
        exchanges.append(("question", *rng.choice(SMALL_TALK)))
    exchanges.append(("question", problem.data["question"], assistant_answer(rng, problem)))
    if correction is not None:
        followed = DATE.written(problem.data["item"], correction.rule)
        exchanges.append((correction.kind, correction.text, followed))
    draw = rng.random()
    if draw < 0.4:
        exchanges.append(("thanks", rng.choice(THANKS), "You are welcome."))
    elif draw < 0.6 and correction is None:
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
    parser.add_argument("--shuffled", action="store_true")
    args = vars(parser.parse_args())
    out = args.pop("out")
    chats = list(conversations(**args))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(json.dumps(chat) + "\n" for chat in chats), "utf-8")
    print(f"{out}: {len(chats)} conversations")


if __name__ == "__main__":
    main()
