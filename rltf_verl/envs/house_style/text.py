"""What a house is called, what it is asked, and what of a text is the answer."""

from __future__ import annotations

import random

from rltf_verl.envs.house_style.conventions import (
    AMOUNT,
    DATE,
    KINDS,
    NAME,
    Conventions,
    Item,
)
from rltf_verl.envs.house_style.letters import NOUN
from rltf_verl.envs.house_style.words import OWNERS

_FORMS = ("{} & Sons", "{} Trading", "{} Brothers", "{} and Partners")
_QUESTIONS = (
    "How does {house} write the {noun} {item}? Reply with the {noun} only.",
    "Write the {noun} {item} the way {house} does. Give the {noun} and nothing else.",
    "We need the {noun} {item} for the files of {house}. Write it in their style, and only that.",
    "{house} has a way of its own. Put this {noun} in it: {item}. Answer with the result only.",
    "Please enter {item} in the books of {house}, as they enter every {noun}. Only the entry.",
    "In the house style of {house}, what does the {noun} {item} look like? Only the {noun}.",
)
_LETTERS = (
    "You answer letters for {house}. {name} asks about the purchase of {date} over {amount}. Reply"
    " in the house style, in three lines: an opening with the name, one sentence with that date"
    " and amount which says that {news}, and a closing.",
    "Write the reply of {house} to {name}: {news}. It is about the purchase of {date} over"
    " {amount}; name both. Three lines, as the house writes: opening, one sentence, closing.",
    "{name} wrote to {house} about {amount} paid on {date}. Say that {news}, with date and"
    " amount, the way the house writes: an opening line, one sentence, a closing line.",
)
_WRAPPING = "\"'`*“”‘’ \t"


def draw_houses(rng: random.Random, conventions: Conventions, num: int) -> list[str]:
    """Names, different ones as long as there are enough; those of houses and those for practice
    differ.
    """
    names = [form.format(owner) for form in _FORMS for owner in OWNERS[conventions]]
    return rng.sample(names, num) if num <= len(names) else rng.choices(names, k=num)


def draw_question(rng: random.Random, house: str, noun: str, item: Item) -> str:
    """The question, in one of several wordings."""
    if noun != NOUN:
        text = rng.choice(_QUESTIONS)
        return text.format(house=house, noun=noun, item=KINDS[noun].plain(item))
    plain = {kind.noun: kind.plain(item[kind.noun]) for kind in (NAME, DATE, AMOUNT)}
    return rng.choice(_LETTERS).format(house=house, news=item["news"], **plain)


def read_entry(text: str) -> str | None:
    """The last line without quotation marks and Markdown around it; None if there is none.

    >>> read_entry("In our style:\\n**1998.MAY.17**")
    '1998.MAY.17'
    """
    lines = text.strip().splitlines()
    return (lines[-1].strip(_WRAPPING) or None) if lines else None
