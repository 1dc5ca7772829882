"""What a house says about a text that is not in its style."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

from rltf_verl.envs.base import FeedbackLevel
from rltf_verl.envs.house_style import letters
from rltf_verl.envs.house_style.conventions import DATE, KINDS, Item, Kind, Rule, holds

DRAWS = 40
"""Examples that are drawn for a feedback, to take the one least like the question."""
CORRECT = "That is how we write it."
INDRAWS = 40
"""Examples that are drawn for a feedback, to take the one least like the question."""
CORRECT = "That is how we write it."
INCORRECT = "That is not how we write it."
_NO = (
    INCORRECT,
    "No, we write it in another way.",
    "Not in our style.",
    "We would not write that.",
)
_EXAMPLES = (
    "At {house} we write {plain} as {written}.",
    "{house} writes {plain} as {written}.",
    "Our files have {plain} as {written}.",
    "For example, {plain} is {written} in our books.",
    "Last week we entered {plain} like this: {written}",
    "In our style, {plain} becomes {written}.",
)
_ANSWERS = (
    "We write it as {written}.",
    "In our style it is {written}",
    "Our files have it as {written}.",
)
_RULES = {
    "opening": "the opening line",
    "date": "the date",
    "amount": "the amount",
    "words": "the choice of words",
    "closing": "the closing line",
}
_LETTERS = (
    "We would have written to someone else like this:\n{written}",
    "A reply of ours to another person:\n{written}",
    "Here is one of our letters, about another purchase:\n{written}",
)


def entry_feedback(
    rng: random.Random,
    house: str,
    noun: str,
    item: Item,
    rule: Rule,
    text: str,
    level: FeedbackLevel,
) -> str:
    """About one date, name, amount, product code or address; `text` is wrong.

    `location` names the parts that are not written the house's way, `hint` writes something else
    its way, `full` writes this.
    """
    kind, said = KINDS[noun], rng.choice(_NO)
    if level == "verdict":
        return INCORRECT
    if level == "location":
        return f"{said} {_where(kind, item, rule, text)}"
    if level == "full":
        return f"{said} {rng.choice(_ANSWERS).format(written=kind.written(item, rule))}"
    other = _other_item(rng, kind, item, rule)
    example = rng.choice(_EXAMPLES).format(
        house=house, plain=kind.plain(other), written=kind.written(other, rule)
    )
    return f"{said} {example}"


def _where(kind: Kind, item: Item, rule: Rule, text: str) -> str:
    wrong = [name for name, part in kind.parts(item, rule) if name and not holds(text, part)]
    if wrong:
        return f"Look at the {' and the '.join(wrong)}."
    return f"Each part is right, but not how they make one {kind.noun}."


def _other_item(rng: random.Random, kind: Kind, item: Item, rule: Rule) -> Item:
    """Of the items that no question asks for, one of the same case (it shows what the rule does to
    such an item) with hardly a part in common.
    """
    drawn = [kind.draw_item(rng, "example") for _ in range(DRAWS)]
    return _least_alike(item, drawn, kind.case, lambda one: kind.parts(one, rule))


def _least_alike(
    item: Item,
    drawn: Sequence[Item],
    case: Callable[[Item], object],
    parts: Callable[[Item], Iterable[object]],
) -> Item:
    own, own_case = set(parts(item)), case(item)
    return min(drawn, key=lambda other: (case(other) != own_case, len(own & set(parts(other)))))


def reply_feedback(
    rng: random.Random,
    house: str,
    item: Item,
    rule: Rule,
    broken: Sequence[str],
    level: FeedbackLevel,
) -> str:
    """About a reply that breaks rules. `location` names them, `hint` shows a reply to someone else,
    and `full` the reply.
    """
    if level == "verdict":
        return INCORRECT
    said = f"{rng.choice(_NO)} Look at {', '.join(_RULES[name] for name in broken)}."
    if level == "location":
        return said
    if "words" in broken:
        words = " or ".join(f'"{word}"' for word in rule["forbidden"])
        said += f" We never write {words}."
    if level == "full":
        return f"{said} Our reply would be:\n{letters.reference(item, rule, house)}"
    other = letters.reference(_other_letter(rng, item, rule, house), rule, house)
    return f"{said} {rng.choice(_LETTERS).format(written=other)}"


def _other_letter(rng: random.Random, item: Item, rule: Rule, house: str) -> Item:
    """As `_other_item`; the case is the date's."""
    drawn = [letters.draw_item(rng, "example") for _ in range(DRAWS)]
    return _least_alike(
        item,
        drawn,
        lambda one: DATE.case(one["date"]),
        lambda one: letters.own_parts(one, rule, house).values(),
    )
