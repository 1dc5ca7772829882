"""Feedback texts on `knights_knaves`: problems, wrong attempts, and how texts are put together from
wordings.

`direct` states everyone's role in a list or sentence, `paraphrased` says who tells the truth and
who lies, `spelled` gives the roles in order or in other signs, `partial` says what one person is,
`oblique` lets the reader work it out (who is wrong, who is like whom, how many there are).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from rltf_verl.envs.knights_knaves import KnightsKnaves
from rltf_verl.types import Problem

NUM = {
    "direct": 120,
    "paraphrased": 70,
    "spelled": 60,
    "partial": 80,
    "oblique": 15,
    "innocent": 240,
}
ORDINALS = ("first", "second", "third", "fourth", "fifth")
COUNTS = ("none", "one", "two", "three", "four", "five")


@dataclass(frozen=True)
class Case:
    """What a text is about."""

    env: KnightsKnaves
    problem: Problem
    attempt: list[bool]
    rng: random.Random

    @property
    def names(self) -> list[str]:
        return list(self.problem.data["names"])

    @property
    def solution(self) -> list[bool]:
        return list(self.problem.data["solution"])

    @property
    def attempt_text(self) -> str:
        return f"\\boxed{{{self.written(self.attempt)}}}"

    @property
    def compact(self) -> bool:
        return self.names[0] == "A"

    def written(self, roles: list[bool]) -> str:
        """Roles as the environment wants an answer."""
        if self.compact:
            return self.coded(roles)
        told = self.each("{name} is {a}", roles)
        return f"{', '.join(told[:-1])}, and {told[-1]}."

    def coded(self, roles: list[bool]) -> str:
        """`AbC`."""
        return "".join(n if r else n.lower() for n, r in zip(self.names, roles, strict=True))

    def a(self, role: bool) -> str:
        """`a knight`."""
        return str(self.problem.data["roles"][0 if role else 1])

    def noun(self, role: bool) -> str:
        return self.a(role).split(" ")[1]

    def nouns(self, role: bool) -> str:
        return self.noun(role) + ("es" if self.noun(role).endswith("o") else "s")

    def each(self, form: str, roles: list[bool] | None = None) -> list[str]:
        """The form filled in for everyone: name, a, noun, verb, word, nth."""
        roles = self.solution if roles is None else roles
        return [
            form.format(
                name=name,
                a=self.a(role),
                noun=self.noun(role),
                Noun=self.noun(role).capitalize(),
                i=i + 1,
                verb="tells the truth" if role else "lies",
                honest="truthful" if role else "lying",
                nth=ORDINALS[i],
                letter="T" if role else "F",
                word="true" if role else "false",
                bit=int(role),
            )
            for i, (name, role) in enumerate(zip(self.names, roles, strict=True))
        ]

    def who(self, role: bool, roles: list[bool] | None = None) -> list[str]:
        """Who has this role."""
        roles = self.solution if roles is None else roles
        return [name for name, r in zip(self.names, roles, strict=True) if r == role]

    def wrong(self) -> list[int]:
        """Whose role the attempt has wrong."""
        return [
            i for i, (a, s) in enumerate(zip(self.attempt, self.solution, strict=True)) if a != s
        ]

    def one_wrong(self) -> tuple[str, bool]:
        """One of them, and the right role."""
        i = self.rng.choice(self.wrong())
        return self.names[i], self.solution[i]

    def told(self, level: str) -> str:
        """What the environment itself says of the attempt."""
        grade = self.env.grade(self.problem, self.attempt_text)
        return self.env.explain(self.problem, self.attempt_text, grade, level)

    def other(self, name: str) -> str:
        """Somebody else."""
        return self.rng.choice([n for n in self.names if n != name])

    def said(self) -> tuple[str, str]:
        """Somebody and what they say, in the puzzle's words: a plain statement that the puzzle may
        well hold.
        """
        name = self.rng.choice(self.names)
        return name, f"{self.other(name)} is {self.a(self.rng.random() < 0.5)}"


def cases(style: str, seed: int) -> Iterator[Case]:
    """Problems with attempts of which one to three roles are wrong."""
    rng, env = random.Random(seed), KnightsKnaves(style=style)
    while True:
        for problem in env.build(rng.randrange(2**31), 500, 0).train:
            attempt = list(problem.data["solution"])
            for i in rng.sample(range(len(attempt)), rng.randint(1, 3)):
                attempt[i] = not attempt[i]
            yield Case(env, problem, attempt, rng)
