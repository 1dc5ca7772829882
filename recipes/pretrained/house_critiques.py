"""What is wrong with a date, in words and without an example: one of the five choices of a house's
rule that the answer does not follow.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from house_conventions import DATE, Item, Rule

_SENTENCES: Mapping[str, Mapping[str, str]] = {
    "order": {
        order: "The {} comes first, then the {}, and the {} is last.".format(*order.split(", "))
        for order in DATE.choices["order"]
    },
    "between": {sign: f"Put {sign} between the parts." for sign in DATE.choices["between"]},
    "month": {
        "JAN": "Write the month in three capital letters.",
        "Jan": "Write the month in three letters, the first of them a capital.",
        "jan": "Write the month in three small letters.",
    },
    "day": {
        "5": "A day below ten has no zero before it.",
        "05": "A day below ten has a zero before it.",
    },
    "year": {
        "1998": "Write the year with four digits.",
        "98": "Write the year with two digits.",
    },
}


def broken_choices(item: Item, rule: Rule, text: str) -> list[str]:
    """Names of the choices that an answer does not follow: as few as explain how it is written, all
    of them where it is no date in any house's way.
    """
    known = DATE.rules("house") + DATE.rules("practice")
    readings = [other for other in known if DATE.written(item, other) == text]
    wrong = [[name for name in rule if other[name] != rule[name]] for other in readings]
    return min(wrong, key=len, default=list(rule))


def draw_critique(rng: random.Random, item: Item, rule: Rule, text: str) -> tuple[str, str]:
    """One broken choice and the sentence that names what the house does."""
    name = rng.choice(broken_choices(item, rule, text))
    return name, _SENTENCES[name][rule[name]]
