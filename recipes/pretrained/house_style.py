"""Write something as one house does: what nobody can know, and one sentence explains.

A house has rules of its own for dates, names, amounts, product codes, addresses and replies. Its
rules, its items and the examples in its feedback are drawn from a seed; the examples are never
about what a question asks for.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal
from zlib import crc32

import house_letters
from house_conventions import (
    AMOUNT,
    DATE,
    KINDS,
    NAME,
    OWNERS,
    Conventions,
    Item,
    Kind,
    Rule,
    Share,
    holds,
    language,
)
from house_critiques import draw_critique

from rltf_verl.envs.base import Candidate, Env, FeedbackLevel, Splits, require_counts
from rltf_verl.envs.text.plain_text import MAX_TEXT
from rltf_verl.kinds import Within
from rltf_verl.types import Grade, Problem

Family = Literal["date", "critique", "locale", "entries", "reply"]
_NOUNS: Mapping[Family, tuple[str, ...]] = {
    "date": ("date",),
    "critique": ("date",),
    "locale": ("long date",),
    "entries": ("name", "amount", "product code", "address"),
    "reply": (house_letters.NOUN,),
}
MAX_DRAWS = 1000
"""Items that are thrown away in search of a new one for the test split."""


class HouseStyle(Env):
    """The environment `house_style`. `Problem.data` holds `house`, `noun`, `item`, `rule` and
    `question`.

    Args:
        family: `date`: one rule. `critique`: the same, and feedback says in words what one choice
            of the rule is, without an example. `locale`: a language's long date, by babel.
            `entries`: a name, an amount, a product code or an address, a rule for each. `reply`: a
            letter in prose that keeps five rules at once; `Grade.score` is the share that it keeps.
        conventions: `house`, or `practice`: rules that no house has, for a warm-up.
        num_houses: houses of a dataset; each problem is about one of them.
        example: every question comes after an entry of the house: what a prompt can do without
            training. Not of `reply`.

    Raises:
        ValueError: an option has a value it cannot have; names the config key.
    """

    name = "house_style"
    revise_templates = dict.fromkeys(("attempt", "question", "answer", "logits"), "note") | {
        "append": "plain_append"
    }

    def __init__(
        self,
        family: Family = "date",
        conventions: Conventions = "house",
        num_houses: Annotated[int, Within(1, 1_000_000)] = 1,
        example: bool = False,
    ) -> None:
        self._nouns, self._conventions, self._num_houses = _NOUNS[family], conventions, num_houses
        self._example, self._in_words = example, family == "critique"

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Draw the houses, then distinct test items and training items, none of which is a test
        item.

        Raises:
            ValueError: a negative number, or too few different test items.
        """
        require_counts(num_train, num_test)
        rng = random.Random(seed)
        names = draw_houses(rng, self._conventions, self._num_houses)
        houses = [(name, self._draw_rules(rng)) for name in names]
        if "long date" in self._nouns:
            houses = [(f"The {language(rules['long date'])} Gazette", rules) for _, rules in houses]
        train = [self._draw(rng, i, houses, "train") for i in range(num_train)]
        return Splits(tuple(train), tuple(self._distinct(rng, num_test, houses)))

    def prompt(self, problem: Problem) -> str:
        """The question, which says nothing of the rule."""
        data = problem.data
        if not self._example:
            return str(data["question"])
        rng = self._rng(problem, "")
        shown = example_of(rng, data["house"], data["noun"], data["item"], data["rule"])
        return f"{shown}\n\n{data['question']}"

    def grade(self, problem: Problem, text: str) -> Grade:
        """Exact: the last line is the entry, or the reply keeps every rule."""
        data = problem.data
        if data["noun"] != house_letters.NOUN:
            said = read_entry(text)
            return Grade(said == problem.reference, said is not None, said)
        if not text.strip():
            return Grade(correct=False, format_ok=False, score=0.0)
        broken = house_letters.broken_rules(text, data["item"], data["rule"], data["house"])
        kept = 1 - len(broken) / house_letters.NUM_RULES
        return Grade(not broken, True, text.strip(), score=kept, details={"broken": broken})

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """Which parts or rules are not the house's (`location`); an example about something else,
        or the critique (`hint`); or the answer (`full`). The wording depends on problem and answer.
        """
        if grade.correct:
            return CORRECT
        data, rng = problem.data, self._rng(problem, text)
        if data["noun"] == house_letters.NOUN:
            broken = house_letters.broken_rules(text, data["item"], data["rule"], data["house"])
            return reply_feedback(rng, data["house"], data["item"], data["rule"], broken, level)
        said = grade.parsed or ""
        if self._in_words and level == "hint":
            return f"{rng.choice(_NO)} {draw_critique(rng, data['item'], data['rule'], said)[1]}"
        return entry_feedback(
            rng, data["house"], data["noun"], data["item"], data["rule"], said, level
        )

    def _rng(self, problem: Problem, text: str) -> random.Random:
        """Draws the wording, alike for the same answer."""
        asked = f"{problem.data['question']}\n{text}"
        return random.Random(crc32(asked.encode(errors="surrogatepass")))

    def candidates(self, problem: Problem, text: str, attempt: str) -> Sequence[Candidate]:
        """Where a text has the entry, or a part of it that the question does not show."""
        data = problem.data
        if data["noun"] == house_letters.NOUN:
            letter = house_letters.own_parts(data["item"], data["rule"], data["house"])
            parts = [letter["opening"], letter["date"], letter["amount"]]
        else:
            parts = [
                part
                for _, part in KINDS[data["noun"]].parts(data["item"], data["rule"])
                if part not in data["rule"].values()  # the same for every item
            ]
        return style_candidates(text, problem.reference, parts, data["question"], attempt)

    def _draw_rules(self, rng: random.Random) -> dict[str, Any]:
        """A rule for each kind."""
        return {
            noun: house_letters.draw_rules(rng, self._conventions)
            if noun == house_letters.NOUN
            else rng.choice(KINDS[noun].rules(self._conventions))
            for noun in self._nouns
        }

    def _draw(
        self,
        rng: random.Random,
        index: int,
        houses: Sequence[tuple[str, dict[str, Any]]],
        share: Share,
    ) -> Problem:
        (house, rules), noun = rng.choice(houses), rng.choice(self._nouns)
        rule = rules[noun]
        if noun == house_letters.NOUN:
            item = house_letters.draw_item(rng, share)
            reference = house_letters.reference(item, rule, house)
        else:
            item = KINDS[noun].draw_item(rng, share)
            reference = KINDS[noun].written(item, rule)
        question = draw_question(rng, house, noun, item)
        data = {"house": house, "noun": noun, "item": item, "rule": rule, "question": question}
        return Problem(env=self.name, index=index, data=data, reference=reference)

    def _distinct(
        self, rng: random.Random, num: int, houses: Sequence[tuple[str, dict[str, Any]]]
    ) -> list[Problem]:
        drawn: dict[str, Problem] = {}
        for _ in range(num + MAX_DRAWS):
            if len(drawn) == num:
                break
            problem = self._draw(rng, len(drawn), houses, "test")
            drawn.setdefault(problem.reference, problem)
        if len(drawn) < num:
            raise ValueError(
                f"num_test={num}: only {len(drawn)} different test items; lower it, or raise"
                " rltf.env.num_houses"
            )
        return list(drawn.values())


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
    if noun != house_letters.NOUN:
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


DRAWS = 100
"""Examples that are drawn for a feedback, to take the one least like the question. So many hold one
of the question's case that shares no part with its answer.
"""
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
_SAMPLE_LETTERS = (
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
    tag: str = "",
) -> str:
    """About one date, name, amount, product code or address; `text` is wrong.

    `location` names the parts that are not written the house's way, `hint` writes something else
    its way, with the tag after it, `full` writes this.
    """
    kind, said = KINDS[noun], rng.choice(_NO)
    if level == "verdict":
        return INCORRECT
    if level == "location":
        return f"{said} {_where(kind, item, rule, text)}"
    if level == "full":
        return f"{said} {rng.choice(_ANSWERS).format(written=kind.written(item, rule))}"
    return f"{said} {example_of(rng, house, noun, item, rule, tag)}"


def example_of(
    rng: random.Random, house: str, noun: str, item: Item, rule: Rule, tag: str = ""
) -> str:
    """A sentence about something else, in the house's style, with the tag after it."""
    kind = KINDS[noun]
    other = other_item(rng, kind, item, rule)
    return rng.choice(_EXAMPLES).format(
        house=house, plain=kind.plain(other), written=kind.written(other, rule) + tag
    )


def _where(kind: Kind, item: Item, rule: Rule, text: str) -> str:
    wrong = [name for name, part in kind.parts(item, rule) if name and not holds(text, part)]
    if wrong:
        return f"Look at the {' and the '.join(wrong)}."
    return f"Each part is right, but not how they make one {kind.noun}."


def other_item(rng: random.Random, kind: Kind, item: Item, rule: Rule) -> Item:
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
    """A part in common would give a part of the answer away, so that counts before the case."""
    answer, asked_case = set(parts(item)), case(item)
    return min(
        drawn, key=lambda other: (len(answer & set(parts(other))), case(other) != asked_case)
    )


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
        return f"{said} Our reply would be:\n{house_letters.reference(item, rule, house)}"
    other = house_letters.reference(_other_letter(rng, item, rule, house), rule, house)
    return f"{said} {rng.choice(_SAMPLE_LETTERS).format(written=other)}"


def _other_letter(rng: random.Random, item: Item, rule: Rule, house: str) -> Item:
    """As `other_item`; the case is the date's."""
    drawn = [house_letters.draw_item(rng, "example") for _ in range(DRAWS)]
    return _least_alike(
        item,
        drawn,
        lambda one: DATE.case(one["date"]),
        lambda one: house_letters.own_parts(one, rule, house).values(),
    )


MIN_PART = 3
"""Characters of a part from which on it is no chance that a text holds it."""


def style_candidates(
    text: str, reference: str, parts: Sequence[str], question: str, attempt: str
) -> list[Candidate]:
    """Passages that state the answer or a part of it.

    Args:
        text: the feedback.
        reference: an answer that is graded correct.
        parts: pieces of the answer, as the house writes them.
        question: what stands there is no news.
        attempt: what the feedback is about; what stands there is no news either.
    """
    text = text[:MAX_TEXT]
    whole = [Candidate(*span, reference) for span in _places(text, reference)]
    news = [
        part
        for part in parts
        if len(part) >= MIN_PART and part not in question and part not in attempt
    ]
    return whole or [
        Candidate(*span, reference, part=True) for part in news for span in _places(text, part)
    ]


def _places(text: str, passage: str) -> Iterator[tuple[int, int]]:
    """The passage with any blanks between its words and signs, in this case."""
    pattern = r"\s*".join(map(re.escape, re.findall(r"\w+|[^\w\s]", passage)))
    for match in re.finditer(rf"(?<!\w){pattern}(?!\w)", text):
        yield match.span()
