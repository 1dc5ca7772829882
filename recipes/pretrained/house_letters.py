"""A reply to a customer, after several rules of a house at once: how it opens and closes, how it
writes the date and the amount, and two words that it never uses.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from house_conventions import (
    AMOUNT,
    DATE,
    KINDS,
    NAME,
    Conventions,
    Item,
    Kind,
    Rule,
    holds,
)

NOUN = "reply"
_GREETINGS = (
    ("Good", "Warm", "Bright", "Kind", "Fine", "Fair", "Glad", "Calm"),
    ("day", "morning", "greetings", "wishes", "regards", "welcome", "evening", "hello"),
    ("{words}, {name}!", "{words} to {name}.", "To {name}: {words}!", "{words}: {name},"),
)
_SIGN_OFFS = (
    ("Ever", "Always", "Gladly", "Truly", "Warmly", "Kindly", "Still", "Again"),
    ("yours", "here", "grateful", "ready", "listening", "at work", "in touch", "thankful"),
    ("{words}, {house}", "{house}: {words}", "{words}. {house}", "{words} - {house}"),
)
"""Two words and where they stand. Every fourth pair of words is a house's, the others are for
practice: so many that a warm-up teaches to copy what a letter shows, and not to recall it."""
FORBIDDEN = ("order", "shipped", "refund", "delayed", "package", "customer", "sorry", "invoice")
NEWS = {
    "the package was shipped": "the parcel is on its way",
    "the refund is on its way": "the money is on its way back",
    "the package is delayed by a week": "the parcel comes a week later",
    "the invoice is paid": "the bill is paid",
}
"""What is to be said -> in words that no house forbids."""
BODY = "About your purchase of {date} over {amount}: {news}."
MIN_OTHER_WORDS = 4
"""Words of a body beside date and amount."""
NUM_RULES = 5
_WORD = re.compile(r"\w+")


def draw_rules(rng: random.Random, conventions: Conventions) -> dict[str, Any]:
    """The rules of one house."""
    return {
        "opening": rng.choice(_phrases(*_GREETINGS, conventions)),
        "closing": rng.choice(_phrases(*_SIGN_OFFS, conventions)),
        "forbidden": sorted(rng.sample(FORBIDDEN, 2)),
        "date": rng.choice(DATE.rules(conventions)),
        "amount": rng.choice(AMOUNT.rules(conventions)),
    }


def _phrases(
    first: Sequence[str], second: Sequence[str], forms: Sequence[str], conventions: Conventions
) -> list[str]:
    """All of one side."""
    return [
        form.replace("{words}", f"{one} {other}")
        for i, one in enumerate(first)
        for j, other in enumerate(second)
        if ((i + j) % 4 == 3) == (conventions == "house")
        for form in forms
    ]


def draw_item(rng: random.Random, share: Any) -> dict[str, Any]:
    """Who wrote, about what."""
    return {
        **{kind.noun: kind.draw_item(rng, share) for kind in (NAME, DATE, AMOUNT)},
        "news": rng.choice(tuple(NEWS)),
    }


def own_parts(item: Item, rule: Rule, house: str) -> dict[str, str]:
    """What every reply of the house must hold, by the name that feedback has for it."""
    return {
        "opening": rule["opening"].format(name=NAME.plain(item["name"])),
        "date": DATE.written(item["date"], rule["date"]),
        "amount": AMOUNT.written(item["amount"], rule["amount"]),
        "closing": rule["closing"].format(house=house),
    }


def reference(item: Item, rule: Rule, house: str) -> str:
    """A reply that keeps every rule."""
    parts = own_parts(item, rule, house)
    body = BODY.format(**parts, news=NEWS[item["news"]])
    return f"{parts['opening']}\n{body}\n{parts['closing']}"


def broken_rules(text: str, item: Item, rule: Rule, house: str) -> list[str]:
    """Names of the rules that a text breaks: opening, date, amount, words, closing."""
    parts = own_parts(item, rule, house)
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    body = " ".join(lines[1:-1])
    rest = body.replace(parts["date"], " ").replace(parts["amount"], " ")
    used = {word.lower() for word in _WORD.findall(text)} & set(rule["forbidden"])
    kept: Mapping[str, bool] = {
        "opening": lines[:1] == [parts["opening"]],
        "date": holds(body, parts["date"]) and not _holds_any(rest, DATE, item["date"]),
        "amount": holds(body, parts["amount"]) and not _holds_any(rest, AMOUNT, item["amount"]),
        "words": not used and len(_WORD.findall(rest)) >= MIN_OTHER_WORDS,
        "closing": len(lines) > 1 and lines[-1] == parts["closing"],
    }
    return [name for name, holds in kept.items() if not holds]


def _holds_any(text: str, kind: Kind, item: Item) -> bool:
    """Whether the item is there as somebody writes it: who tries several ways knows none."""
    return any(form in text for form in _forms(kind.noun, tuple(item.items())))


@lru_cache(maxsize=1024)  # a problem is graded for each attempt
def _forms(noun: str, item: tuple[tuple[str, Any], ...]) -> frozenset[str]:
    """All ways to write an item, that of the question too."""
    kind = KINDS[noun]
    rules = kind.rules("house") + kind.rules("practice")
    return frozenset(kind.written(dict(item), rule) for rule in rules) | {kind.plain(dict(item))}
