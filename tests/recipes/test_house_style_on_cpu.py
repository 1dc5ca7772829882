"""The style of a house: drawn rules, exact grades, feedback that never holds the answer."""

import random
import re
from typing import Any

import pytest

from rltf_verl.feedback.guard.find import find_leaks
from rltf_verl.types import Problem
from tests.recipes.house_style import conventions, critiques, letters, make_house

KINDS, share_of = conventions.KINDS, conventions.share_of
MAY_17 = {"year": 1998, "month": 5, "day": 7}
ARCHIVE = {
    "order": "year, month, day",
    "between": ".",
    "month": "JAN",
    "day": "05",
    "year": "1998",
}
QUESTION = "How does the archive write the date May 7, 1998? Reply with the date only."
PROBLEM = Problem(
    "house_style",
    0,
    {
        "house": "the archive",
        "noun": "date",
        "item": MAY_17,
        "rule": ARCHIVE,
        "question": QUESTION,
    },
    "1998.MAY.07",
)
LETTER = {
    "opening": "To {name}:",
    "closing": "Signed: {house}",
    "forbidden": ["order", "refund"],
    "date": ARCHIVE,
    "amount": {
        "order": "number, currency",
        "between": " ",
        "currency": "USD",
        "thousands": "'",
        "cents": ",",
    },
}
ABOUT = {
    "name": {"first": "Dana", "last": "Lang"},
    "date": MAY_17,
    "amount": {"cents": 124950},
    "news": "the package was shipped",
}
REPLY = (
    "To Dana Lang:\nAbout your purchase of 1998.MAY.07 over 1'249,50 USD: the parcel is on its"
    " way.\nSigned: Brandt & Sons"
)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("1998.MAY.07", True),
        (" `1998.MAY.07`\n", True),
        ("In our style:\n**1998.MAY.07**", True),
        ("1998.May.07", False),
        ("1998.MAY.7", False),
        ("1998.MAY.07.", False),
        ("It is 1998.MAY.07", False),
        ("", False),
    ],
)
def test_a_date_as_a_house_writes_it(text: str, right: bool) -> None:
    assert make_house().grade(PROBLEM, text).correct is right


@pytest.mark.parametrize(
    ("noun", "item", "rule", "written"),
    [
        ("date", MAY_17, ARCHIVE, "1998.MAY.07"),
        (
            "name",
            {"first": "Dana", "last": "Lang"},
            {
                "order": "last name, first name",
                "between": "/",
                "case": "LANG",
                "first": "initial",
            },
            "LANG/D",
        ),
        (
            "name",
            {"first": "Dana", "last": "Lang"},
            {
                "order": "first name, last name",
                "between": "_",
                "case": "lang",
                "first": "whole",
            },
            "dana_lang",
        ),
        ("amount", {"cents": 124905}, LETTER["amount"], "1'249,05 USD"),
        (
            "product code",
            {"ware": "lamp", "number": 482},
            {
                "order": "ware, number",
                "between": "-",
                "ware": "LAMP",
                "sign": "#",
                "digits": "5",
            },
            "LAMP-#00482",
        ),
        (
            "address",
            {"number": 4, "street": "Oak", "city": "Leeds"},
            {
                "order": "city, street",
                "between": " | ",
                "street": "St.",
                "number": "last",
                "city": "LEEDS",
            },
            "LEEDS | Oak St. 4",
        ),
    ],
)
def test_entries(noun: str, item: Any, rule: Any, written: str) -> None:
    assert KINDS[noun].written(item, rule) == written


def test_a_hint_to_a_long_date_shows_the_name_of_its_month() -> None:
    env = make_house(family="locale")
    for problem in env.build(0, 40, 0).train:
        text = env.explain(problem, "3 May", env.grade(problem, "3 May"), "hint")
        month = conventions.MONTHS[problem.data["item"]["month"] - 1]
        assert month in text
        assert problem.reference not in text


@pytest.mark.parametrize("noun", sorted(KINDS))
def test_no_practised_rule_writes_an_item_as_a_house_does(noun: str) -> None:
    kind = KINDS[noun]
    house, practice = kind.rules("house"), kind.rules("practice")
    assert len(house) >= 4 < len(practice)
    env = make_house(family={"date": "date", "long date": "locale"}.get(noun, "entries"))
    items = [p.data["item"] for p in env.build(0, 40, 0).train if p.data["noun"] == noun]
    assert items
    for item in items:
        practised = {kind.written(item, rule) for rule in practice}
        assert not practised & {kind.written(item, rule) for rule in house}


@pytest.mark.parametrize("family", ["date", "critique", "locale", "entries", "reply"])
def test_items_of_training_test_and_feedback_are_apart(family: str) -> None:
    env = make_house(family=family, num_houses=2)
    splits = env.build(1, 60, 20)
    for share, problems in (("train", splits.train), ("test", splits.test)):
        for problem in problems:
            item = problem.data["item"]
            kinds = [item] if problem.data["noun"] != "reply" else [item["date"], item["amount"]]
            assert {share_of(item_of_part) for item_of_part in kinds} == {share}
    assert len({problem.reference for problem in splits.test}) == 20
    assert len({problem.data["house"] for problem in splits.train}) == 2
    assert env.build(2, 1, 0).train != env.build(1, 1, 0).train


@pytest.mark.parametrize(
    ("text", "level", "pattern"),
    [
        ("7.MAY.1998", "location", r".*Look at the day\."),
        ("1998-MAY-07", "location", r".*not how they make one date\."),
        ("1998MAY07", "location", r".*not how they make one date\."),
        ("21998.MAY.07", "location", r".*Look at the year\."),
        ("1998.MAY.07", "hint", r"That is how we write it\."),
        ("May 7, 1998", "full", r".*1998\.MAY\.07.*"),
        ("May 7, 1998", "hint", r"(?!.*MAY).*19.*"),
    ],
)
def test_feedback_by_level(text: str, level: str, pattern: str) -> None:
    env = make_house()
    hint = env.explain(PROBLEM, text, env.grade(PROBLEM, text), level)
    assert re.fullmatch(pattern, hint, re.DOTALL)


LETTER_TO_DANA = Problem(
    "house_style",
    0,
    {"house": "Brandt & Sons", "noun": "reply", "item": ABOUT, "rule": LETTER, "question": "?"},
    REPLY,
)


@pytest.mark.parametrize(
    ("problem", "text", "kinds"),
    [
        (PROBLEM, "Write 1998.MAY.07, please.", {"answer"}),
        (PROBLEM, "It is 1998 . MAY . 07", {"answer"}),
        (PROBLEM, "The month should be MAY.", {"part"}),
        (PROBLEM, "We write June 2, 2001 as 2001.JUN.02.", set()),
        (PROBLEM, "You were asked about May 7, 1998.", set()),
        (LETTER_TO_DANA, "Begin with: To Dana Lang:", {"part"}),
    ],
)
def test_the_guard_finds_answers_and_parts(problem: Problem, text: str, kinds: set[str]) -> None:
    leaks = {leak.kind for leak in find_leaks(make_house(), problem, text, "7 May 1998")}
    assert leaks >= kinds
    assert bool(leaks) == bool(kinds)


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        (REPLY, []),
        (REPLY.replace("the parcel", "your ORDER"), ["words"]),
        (REPLY.replace(".07", ".7"), ["date"]),
        (REPLY.replace("1998.MAY", "21998.MAY"), ["date"]),
        (REPLY.replace("MAY.07", "MAY.071"), ["date"]),
        (REPLY.replace("1'249,50", "11'249,50"), ["amount"]),
        (REPLY.replace("50 USD", "50 USDs"), ["amount"]),
        (REPLY.replace("MAY.07", "MAY.07, or 07-MAY-1998,"), ["date"]),
        (REPLY.replace("MAY.07", "MAY.07 (May 7, 1998)"), ["date"]),
        (REPLY.replace("50 USD", "50 USD (1249.50 USD)"), ["amount"]),
        (REPLY.replace("1'249,50", "1249.50"), ["amount"]),
        (REPLY.replace("To Dana", "Dear Dana"), ["opening"]),
        (REPLY.rpartition("\n")[0], ["date", "amount", "words", "closing"]),
        ("To Dana Lang:\n1998.MAY.07 1'249,50 USD\nSigned: Brandt & Sons", ["words"]),
        ("", ["opening", "date", "amount", "words", "closing"]),
    ],
)
def test_the_rules_of_a_reply(text: str, broken: list[str]) -> None:
    assert letters.reference(ABOUT, LETTER, "Brandt & Sons") == REPLY
    assert letters.broken_rules(text, ABOUT, LETTER, "Brandt & Sons") == broken


def test_the_example_of_a_hint_shows_what_the_rule_does_to_such_a_date() -> None:
    """Only a day below ten shows whether days have two digits."""
    env, alike = make_house(), 0
    for problem in env.build(0, 60, 0).train:
        hint = env.explain(problem, "x", env.grade(problem, "x"), "hint")
        _, day, year = re.search(r"(\w{3})\|(\d\d)\|(\d\d)", hint).groups()
        item = problem.data["item"]
        alike += (int(day) < 10, int(year) >= 30) == (item["day"] < 10, item["year"] < 2000)
    assert alike > 55


@pytest.mark.parametrize("rule", [*KINDS["date"].rules("practice")[::7], ARCHIVE])
def test_a_critique_names_the_one_choice_that_a_date_lacks(rule: Any) -> None:
    said = set()
    for name, values in KINDS["date"].choices.items():
        for value in values:
            text = KINDS["date"].written(MAY_17, {**rule, name: value})
            broken = critiques.broken_choices(MAY_17, rule, text)
            assert broken == ([name] if value != rule[name] else [])
            if broken:
                said.add(critiques.draw_critique(random.Random(0), MAY_17, rule, text))
    assert [name for name, _ in sorted(said)] == sorted(rule)
    assert len({sentence for _, sentence in said}) == len(rule)
