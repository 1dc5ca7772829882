"""Write something as one house does: what nobody can know, and one sentence explains.

A house has rules of its own for dates, names, amounts, product codes, addresses and replies. Its
rules, its items and the examples in its feedback are drawn from a seed; the examples are never
about what a question asks for.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal
from zlib import crc32

from rltf_verl.envs.base import Candidate, FeedbackLevel, Splits, require_counts
from rltf_verl.envs.house_style import letters
from rltf_verl.envs.house_style.conventions import KINDS, Conventions, Share
from rltf_verl.envs.house_style.feedback import CORRECT, entry_feedback, reply_feedback
from rltf_verl.envs.house_style.leaks import style_candidates
from rltf_verl.envs.house_style.text import draw_houses, draw_question, read_entry
from rltf_verl.kinds import Within
from rltf_verl.types import Grade, Problem

Family = Literal["date", "entries", "reply"]
_NOUNS: Mapping[Family, tuple[str, ...]] = {
    "date": ("date",),
    "entries": ("name", "amount", "product code", "address"),
    "reply": (letters.NOUN,),
}
MAX_DRAWS = 1000
"""Items that are thrown away in search of a new one for the test split."""


class HouseStyle:
    """The environment `house_style`. `Problem.data` holds `house`, `noun`, `item`, `rule` and
    `question`.

    Args:
        family: `date`: one rule. `entries`: a name, an amount, a product code or an address, a rule
            for each. `reply`: a letter in prose that keeps five rules at once; `Grade.score` is the
            share that it keeps.
        conventions: `house`, or `practice`: rules that no house has, for a warm-up.
        num_houses: houses of a dataset; each problem is about one of them.

    Raises:
        ValueError: an option has a value it cannot have; names the config key.
    """

    name = "house_style"
    revise_templates: ClassVar = dict.fromkeys(
        ("attempt", "question", "answer", "logits"), "note"
    ) | {"append": "plain_append"}

    def __init__(
        self,
        family: Family = "date",
        conventions: Conventions = "house",
        num_houses: Annotated[int, Within(1, 1_000_000)] = 1,
    ) -> None:
        self._nouns, self._conventions, self._num_houses = _NOUNS[family], conventions, num_houses

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
        train = [self._draw(rng, i, houses, "train") for i in range(num_train)]
        return Splits(tuple(train), tuple(self._distinct(rng, num_test, houses)))

    def prompt(self, problem: Problem) -> str:
        """The question, which says nothing of the rule."""
        return str(problem.data["question"])

    def grade(self, problem: Problem, text: str) -> Grade:
        """Exact: the last line is the entry, or the reply keeps every rule."""
        data = problem.data
        if data["noun"] != letters.NOUN:
            said = read_entry(text)
            return Grade(said == problem.reference, said is not None, said)
        if not text.strip():
            return Grade(correct=False, format_ok=False, score=0.0)
        broken = letters.broken_rules(text, data["item"], data["rule"], data["house"])
        kept = 1 - len(broken) / letters.NUM_RULES
        return Grade(not broken, True, text.strip(), score=kept, details={"broken": broken})

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """Which parts or rules are not the house's (`location`); an example about something else
        (`hint`); or the answer (`full`). The wording depends on problem and answer.
        """
        if grade.correct:
            return CORRECT
        data = problem.data
        rng = random.Random(crc32(f"{data['question']}\n{text}".encode(errors="surrogatepass")))
        if data["noun"] == letters.NOUN:
            broken = letters.broken_rules(text, data["item"], data["rule"], data["house"])
            return reply_feedback(rng, data["house"], data["item"], data["rule"], broken, level)
        said = grade.parsed or ""
        return entry_feedback(
            rng, data["house"], data["noun"], data["item"], data["rule"], said, level
        )

    def candidates(self, problem: Problem, text: str, attempt: str) -> Sequence[Candidate]:
        """Where a text has the entry, or a part of it that the question does not show."""
        data = problem.data
        if data["noun"] == letters.NOUN:
            own = letters.own_parts(data["item"], data["rule"], data["house"])
            whole, parts = [problem.reference], [own["opening"], own["date"], own["amount"]]
        else:
            whole = [problem.reference]
            parts = [
                part
                for _, part in KINDS[data["noun"]].parts(data["item"], data["rule"])
                if part not in data["rule"].values()  # the same for every item
            ]
        return style_candidates(text, problem.reference, whole, parts, data["question"], attempt)

    def _draw_rules(self, rng: random.Random) -> dict[str, Any]:
        """A rule for each kind."""
        return {
            noun: letters.draw_rules(rng, self._conventions)
            if noun == letters.NOUN
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
        if noun == letters.NOUN:
            item = letters.draw_item(rng, share)
            reference = letters.reference(item, rule, house)
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
