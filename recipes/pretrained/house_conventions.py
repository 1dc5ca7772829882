"""How a house may write a date, a name, an amount, a product code or an address.

A rule names one value for each choice of its kind. What stands between two parts is a house's or
is for practice (a warm-up), so that nobody has practised what a house wants. Items are divided into
those of the training set, of the test set and of the examples in feedback.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import product
from typing import Any, Literal
from zlib import crc32


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


MONTHS = _words(
    "January February March April May June July August September October November December"
)
FIRST_NAMES = _words(
    "Dana Otto Ines Pavel Ruth Samir Clara Hugo Mei Tomas Nadia Felix Greta Omar Lena Viktor Alma"
    " Jonas Rosa Ivan Edith Marco Yara Simon Tessa Boris Hanna Leon Priya Walter"
)
LAST_NAMES = _words(
    "Whitfield Lang Moreau Novak Adler Haddad Jensen Romero Tanaka Keller Ortiz Bauer Lindqvist"
    " Farouk Sommer Petrov Castellan Meyer Bianchi Dvorak Hale Ricci Nasser Ford Quinn Orlov Berg"
    " Costa Sharma Vogel"
)
STREETS = _words("Oak Mill Harbour Station Castle Garden Bridge Market Forest River Tower")
CITIES = _words("Leeds Porto Graz Malmo Turin Ghent Brno Cork Lyon Basel Split Bergen")
WARES = _words("lamp chair table shelf clock mirror basket kettle ladder carpet bench")
OWNERS = {
    "house": _words("Brandt Okafor Lindgren Marchetti"),
    "practice": _words(
        "Sato Delgado Hoffmann Kovacs Abara Nilsson Fontaine Varga Eriksen Salgado Weiss Tremblay"
    ),
}

Item = Mapping[str, Any]
"""The facts: `{"year": 1998, "month": 5, "day": 17}`."""
Rule = Mapping[str, Any]
"""Choice -> value: `{"order": "year, month, day", …}`."""
Parts = tuple[tuple[str, str], ...]
"""(what it is, text) from left to right; what stands between two parts has an empty name."""
Conventions = Literal["house", "practice"]
Share = Literal["train", "test", "example"]

ITEM_SHARES: tuple[Share, ...] = ("test", "train", "train", "train", "example")


@dataclass(frozen=True)
class Kind:
    """One kind of thing that a house writes in its own way."""

    noun: str
    choices: Mapping[str, tuple[str, ...]]
    draw: Callable[[random.Random], dict[str, Any]]
    """A random item."""
    plain: Callable[[Item], str]
    """The item as a question names it."""
    parts: Callable[[Item, Rule], Parts]
    """The item as a house with this rule writes it."""
    of_houses: tuple[str, ...]
    """Values of the choice `divided` that only houses write: who has practised the others does not
    come upon them by chance."""
    divided: str = "between"
    case: Callable[[Item], object] = lambda item: None
    """Items of one case show the same of a rule: only May 7 shows whether a day has two digits."""

    def written(self, item: Item, rule: Rule) -> str:
        """The parts in one text."""
        return "".join(text for _, text in self.parts(item, rule))

    def rules(self, conventions: Conventions) -> list[dict[str, str]]:
        """Every rule of one side, in a fixed order."""
        values = [
            value
            for value in self.choices[self.divided]
            if (value in self.of_houses) == (conventions == "house")
        ]
        choices = {**self.choices, self.divided: values}
        return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]

    def draw_item(self, rng: random.Random, share: Share) -> dict[str, Any]:
        """A random item of one share."""
        while True:
            item = self.draw(rng)
            if share_of(item) == share:
                return item


def holds(text: str, part: str) -> bool:
    """Whether a text has a part, and not inside of a longer number or word: 1978 is no 78."""
    edges = [r"[0-9]" if sign.isdigit() else r"[^\W\d_]" for sign in (part[:1], part[-1:])]
    return re.search(f"(?<!{edges[0]}){re.escape(part)}(?!{edges[1]})", text) is not None


def share_of(item: Item) -> Share:
    """What an item may be used for."""
    return ITEM_SHARES[crc32(repr(sorted(item.items())).encode()) % len(ITEM_SHARES)]


def _ordered(pieces: Mapping[str, str], rule: Rule) -> Parts:
    parts: list[tuple[str, str]] = []
    for name in rule["order"].split(", "):
        parts += [("", rule["between"])] * bool(parts) + [(name, pieces[name])]
    return tuple(parts)


def _cased(text: str, like: str) -> str:
    return text.upper() if like.isupper() else text.lower() if like.islower() else text


def _draw_date(rng: random.Random) -> dict[str, Any]:
    return {
        "year": rng.randrange(1930, 2020),
        "month": rng.randint(1, len(MONTHS)),
        "day": rng.randint(1, 28),
    }


def _date_parts(item: Item, rule: Rule) -> Parts:
    pieces = {
        "year": str(item["year"])[2 if rule["year"] == "98" else 0 :],
        "month": _cased(MONTHS[item["month"] - 1][:3], rule["month"]),
        "day": f"{item['day']:02d}" if rule["day"] == "05" else str(item["day"]),
    }
    return _ordered(pieces, rule)


DATE = Kind(
    noun="date",
    choices={
        "order": ("year, month, day", "day, month, year", "month, day, year", "year, day, month"),
        "between": (".", "/", "-", "_", ":", "~", "+", "*", "|"),
        "month": ("JAN", "Jan", "jan"),
        "day": ("5", "05"),
        "year": ("1998", "98"),
    },
    draw=_draw_date,
    plain=lambda item: f"{MONTHS[item['month'] - 1]} {item['day']}, {item['year']}",
    parts=_date_parts,
    of_houses=("~", "+", "|"),
    case=lambda item: (item["day"] < 10, item["year"] < 2000),
)


def _long_date(item: Item, rule: Rule) -> Parts:
    """One part: an example of the same month shares that month's name with the answer."""
    from babel.dates import format_date  # 31 MB that no other kind needs

    day = date(item["year"], item["month"], item["day"])
    text = format_date(day, "long", locale=rule["locale"])
    # CLDR has blanks at which no line may break, which no tokenizer's words begin with.
    return (("date", " ".join(text.split())),)


LONG_DATE = Kind(
    noun="long date",
    choices={
        "locale": _words(
            "eu lv hu lt fi pl cy ku hr tr is et"
            " af az cs de eo es fil fr fur ga gl gn gv ha ia id it kea kl kw la lb lg lmo mg nl"
            " nso om pt qu ro rw sc scn se sk sn so sq sw tk uz vec vo wae xh zu"
        )
    },
    of_houses=_words("eu lv hu lt fi pl cy ku hr tr is et"),
    divided="locale",
    draw=_draw_date,
    plain=DATE.plain,
    parts=_long_date,
    case=lambda item: item["month"],
)
"""As Unicode's CLDR has it for a language, by babel."""


def language(rule: Rule) -> str:
    """Of a long date's rule, in English."""
    from babel import Locale

    return str(Locale.parse(rule["locale"]).get_display_name("en"))


def _name_parts(item: Item, rule: Rule) -> Parts:
    first = item["first"][:1] if rule["first"] == "initial" else item["first"]
    pieces = {
        "first name": _cased(first, "x" if rule["case"].islower() else "Xx"),
        "last name": _cased(item["last"], rule["case"]),
    }
    return _ordered(pieces, rule)


NAME = Kind(
    noun="name",
    choices={
        "order": ("first name, last name", "last name, first name"),
        "between": (", ", "/", ".", "_", "-", "+", ": ", " | "),
        "case": ("Lang", "LANG", "lang"),
        "first": ("whole", "initial"),
    },
    draw=lambda rng: {"first": rng.choice(FIRST_NAMES), "last": rng.choice(LAST_NAMES)},
    plain=lambda item: f"{item['first']} {item['last']}",
    parts=_name_parts,
    of_houses=("+", " | "),
)


def _amount_parts(item: Item, rule: Rule) -> Parts:
    pieces = {
        "number": (
            f"{item['cents'] // 100:,}".replace(",", rule["thousands"])
            + f"{rule['cents']}{item['cents'] % 100:02d}"
        ),
        "currency": rule["currency"],
    }
    return _ordered(pieces, rule)


AMOUNT = Kind(
    noun="amount",
    choices={
        "order": ("number, currency", "currency, number"),
        "between": (" ", "-", ":", ""),
        "currency": ("USD", "dollars", "US$", "usd"),
        "thousands": ("", "'", "_", " "),
        "cents": (".", ",", "/"),
    },
    draw=lambda rng: {"cents": rng.randrange(100_000, 1_000_000)},
    plain=lambda item: f"${item['cents'] / 100:.2f}",
    parts=_amount_parts,
    of_houses=(":",),
)


def _code_parts(item: Item, rule: Rule) -> Parts:
    pieces = {
        "ware": _cased(item["ware"].capitalize(), rule["ware"]),
        "number": rule["sign"] + str(item["number"]).zfill(int(rule["digits"])),
    }
    return _ordered(pieces, rule)


CODE = Kind(
    noun="product code",
    choices={
        "order": ("ware, number", "number, ware"),
        "between": ("-", "/", ".", "_", ":", " "),
        "ware": ("LAMP", "lamp", "Lamp"),
        "sign": ("", "#", "N", "no"),
        "digits": ("3", "5", "6"),
    },
    draw=lambda rng: {"ware": rng.choice(WARES), "number": rng.randrange(100, 1000)},
    plain=lambda item: f"{item['ware']} number {item['number']}",
    parts=_code_parts,
    of_houses=("_", ":"),
)


def _address_parts(item: Item, rule: Rule) -> Parts:
    street = f"{item['street']} {rule['street']}"
    pieces = {
        "street": f"{street} {item['number']}"
        if rule["number"] == "last"
        else f"{item['number']} {street}",
        "city": _cased(item["city"], rule["city"]),
    }
    return _ordered(pieces, rule)


ADDRESS = Kind(
    noun="address",
    choices={
        "order": ("street, city", "city, street"),
        "between": (" / ", ", ", " - ", ": ", " | ", "; "),
        "street": ("Street", "St.", "str", "STR"),
        "number": ("first", "last"),
        "city": ("LEEDS", "Leeds", "leeds"),
    },
    draw=lambda rng: {
        "number": rng.randint(2, 99),
        "street": rng.choice(STREETS),
        "city": rng.choice(CITIES),
    },
    plain=lambda item: f"{item['number']} {item['street']} Street in {item['city']}",
    parts=_address_parts,
    of_houses=(" | ", "; "),
)

KINDS = {kind.noun: kind for kind in (DATE, LONG_DATE, NAME, AMOUNT, CODE, ADDRESS)}
