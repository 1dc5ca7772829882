"""Houses with their rules, and what they order.

A rule says what a note, a folder or a booking has to look like: it names a field of the record and
a form. The forms of houses never occur in practice (a warm-up), so that a policy which has
practised cannot guess a house's rule.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Literal

from desk import DAYS, Call

from rltf_verl.texts import split_words

Conventions = Literal["house", "practice"]
Rule = Mapping[str, str]
"""`kind` of the order that it is about, `field` of the record, `form` of the text."""
Records = dict[str, dict[str, str]]

HOUSES = split_words("Brandt Okafor Lindgren Marchetti Sato Delgado Kovacs Abara")
CUSTOMERS = split_words("Leeds Porto Graz Malmo Turin Ghent Brno Cork Lyon Basel")
OWNERS = split_words("Dana Otto Ines Pavel Ruth Samir Clara Hugo Mei Tomas")
TITLES = split_words("call visit review demo lunch")
FILES = split_words("plan report offer list draft memo bill form")
EXAMPLE = {"customer": "Rome", "owner": "Kim", "month": "1999-01", "reference": "AB100"}
"""Fields of a record that no workspace holds: hints show it."""

FORMS: Mapping[str, tuple[str, ...]] = {
    "close": ("[{value}]", "{value} settled", "cc {value}", "{value} + end"),
    "archive": ("shelf/{value}", "{value}+{given}", "{given}={value}", "vault-{value}"),
    "book": ("{given} @ {value}", "{value} > {given}", "[{value}] {given}", "{given}*{value}"),
}
"""Forms that houses want."""
_MARKS = (" ", "-", "_", "/", ": ", ", ", "; ", " | ", "#", "~", "&", "%", " / ", " - ", "..", "!")
_WORDS = split_words("ok done seen ref old checked box mine late north blue")
_HINTS = {
    "close": 'before you close a ticket, add a note with its {field}, like "{example}"',
    "archive": 'the folder that a file moves to has the file\'s {field}, like "{example}"',
    "book": 'the title of a booking has the ticket\'s {field}, like "{example}"',
}
_GIVEN = {"close": "", "archive": "archive", "book": "talk"}


def practice_form(rng: random.Random, kind: str) -> str:
    """One of hundreds, so that practice teaches to copy a form and not to know it."""
    other = "{given}" if kind != "close" and rng.random() < 0.7 else rng.choice(_WORDS)
    parts = ["{value}", other] if rng.random() < 0.5 else [other, "{value}"]
    return rng.choice(_MARKS).join(parts) if rng.random() < 0.9 else f"({parts[0]}) {parts[1]}"


def house_of(number: int, conventions: Conventions) -> tuple[str, Rule]:
    """Name and rule of a house."""
    name = HOUSES[number % len(HOUSES)]
    rng = random.Random(f"{conventions} {number}")
    kind, field = rng.choice(list(FORMS)), rng.choice(list(EXAMPLE))
    form = rng.choice(FORMS[kind]) if conventions == "house" else practice_form(rng, kind)
    rule = {"kind": kind, "field": field, "form": form}
    return (name if number < len(HOUSES) else f"{name} {number}"), rule


def hint(rule: Rule) -> str:
    """The rule in words, with an example about another record."""
    example = written(rule, EXAMPLE, _GIVEN[rule["kind"]])
    return _HINTS[rule["kind"]].format(field=rule["field"], example=example)


def written(rule: Rule, record: Mapping[str, str], given: str = "") -> str:
    """The text that the rule wants about a record."""
    return rule["form"].format(value=record[rule["field"]], given=given)


def draw(rng: random.Random, rule: Rule, max_orders: int) -> tuple[Records, list[dict[str, Any]]]:
    """Records, two of them about nothing that is ordered, and one to `max_orders` orders: `text`,
    `calls` that do it, and whether the rule is about it (`ruled`).
    """
    kinds = [kind for kind in _ORDERS if kind != rule["kind"]]
    asked = [rule["kind"], *rng.sample(kinds, rng.randint(0, max_orders - 1))]
    rng.shuffle(asked)
    records: Records = {}
    orders = []
    for kind in asked:
        ruled = kind == rule["kind"]
        text, calls = _ORDERS[kind](rng, records, rule if ruled else None)
        orders.append({"text": text, "calls": [list(call) for call in calls], "ruled": ruled})
    # Two records that no order is about: the policy has to find the right one.
    _ticket(rng, records)
    _file(rng, records)
    return dict(sorted(records.items())), orders


def _close(rng: random.Random, records: Records, rule: Rule | None) -> tuple[str, list[Call]]:
    ticket = _ticket(rng, records)
    calls: list[Call] = [("close_ticket", {"ticket": ticket})]
    if rule:
        note = written(rule, records[ticket])
        calls = [_read(ticket), ("add_note", {"ticket": ticket, "text": note}), *calls]
    return f"Close ticket {ticket}.", calls


def _archive(rng: random.Random, records: Records, rule: Rule | None) -> tuple[str, list[Call]]:
    file = _file(rng, records)
    folder = "archive" if rule is None else written(rule, records[file], "archive")
    move: Call = ("move_file", {"file": file, "folder": folder})
    return f"Move {file} to archive.", [move] if rule is None else [_read(file), move]


def _book(rng: random.Random, records: Records, rule: Rule | None) -> tuple[str, list[Call]]:
    ticket, day, title = _ticket(rng, records), rng.choice(DAYS), rng.choice(TITLES)
    noted = title if rule is None else written(rule, records[ticket], title)
    book: Call = ("book", {"day": day, "title": noted})
    text = f'Book "{title}" on {day} for ticket {ticket}.'
    return text, [book] if rule is None else [_read(ticket), book]


def _copy(rng: random.Random, records: Records, rule: Rule | None) -> tuple[str, list[Call]]:
    """No rule is about this."""
    file, ticket, name = _file(rng, records), _ticket(rng, records), rng.choice(list(EXAMPLE))
    note: Call = ("add_note", {"ticket": ticket, "text": records[file][name]})
    return f"Note the {name} of {file} in ticket {ticket}.", [_read(file), note]


_ORDERS = {"close": _close, "archive": _archive, "book": _book, "copy": _copy}


def _read(name: str) -> Call:
    return "read", {"name": name}


def _ticket(rng: random.Random, records: Records) -> str:
    return _record(rng, records, f"T{rng.randint(100, 999)}")


def _file(rng: random.Random, records: Records) -> str:
    return _record(rng, records, f"{rng.choice(FILES)}{rng.randint(10, 99)}.txt")


def _record(rng: random.Random, records: Records, name: str) -> str:
    if name in records:
        ticket = not name.endswith(".txt")
        return _ticket(rng, records) if ticket else _file(rng, records)
    records[name] = {
        "customer": rng.choice(CUSTOMERS),
        "owner": rng.choice(OWNERS),
        "month": f"{rng.randint(2015, 2025)}-{rng.randint(1, 12):02d}",
        "reference": f"{rng.choice('KLMNP')}{rng.choice('RSTVX')}{rng.randint(100, 999)}",
    }
    return name
