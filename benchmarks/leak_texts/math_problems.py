"""Small problems of school mathematics, since the environment's own come from the hub."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from rltf_verl.types import Problem


@dataclass(frozen=True)
class Item:
    """A question, its answer, and what a judge may want to say about it."""

    question: str
    answer: str
    wrong: str
    step: str
    """A value on the way that is not the answer."""
    about: str
    """What is asked for."""
    same: tuple[str, ...] = ()
    """The answer written otherwise."""
    part: str = ""
    """A part of an answer with several values."""


Make = Callable[[random.Random], Item]


def _off(rng: random.Random, value: int) -> str:
    return str(value + rng.choice([-3, -2, -1, 1, 2, 4, 10]))


def _shop(rng: random.Random) -> Item:
    n, price, paid = rng.randint(3, 12), rng.randint(4, 25), rng.choice([500, 1000])
    return Item(
        f"Ann buys {n} books at ${price} each and pays with ${paid}. How many dollars does she get"
        " back?",
        str(paid - n * price),
        str(paid - n - price),
        str(n * price),
        "the change",
    )


def _remainder(rng: random.Random) -> Item:
    m, n = rng.randint(5, 11), rng.randint(100, 999)
    while n % m == 0:
        n += 1
    return Item(
        f"What is the remainder when {n} is divided by {m}?",
        str(n % m),
        str((n + 1) % m),
        str(n // m * m),
        "the remainder",
    )


def _count(rng: random.Random) -> Item:
    n = rng.randint(5, 12)
    pairs = math.comb(n, 2)
    return Item(
        f"In a group of {n} people everybody shakes hands with everybody else once. How many"
        " handshakes are there?",
        str(pairs),
        str(n * (n - 1)),
        str(n - 1),
        "the number of handshakes",
    )


def _linear(rng: random.Random) -> Item:
    x, a, b = rng.randint(-9, 9) or 4, rng.randint(2, 9), rng.randint(1, 30)
    return Item(f"Solve ${a}x + {b} = {a * x + b}$ for $x$.", str(x), _off(rng, x), str(a * x), "x")


def _chance(rng: random.Random) -> Item:
    red, blue = rng.randint(2, 9), rng.randint(2, 9)
    chance = Fraction(red, red + blue)
    if chance.numerator in (red, 0):
        return _chance(rng)
    top, bottom = chance.numerator, chance.denominator
    return Item(
        f"A bag holds {red} red and {blue} blue balls. What is the probability of drawing a red"
        " one?",
        f"\\frac{{{top}}}{{{bottom}}}",
        f"\\frac{{{red}}}{{{blue}}}",
        f"{red + blue}",
        "the probability",
        (f"{top}/{bottom}", f"\\dfrac{{{top}}}{{{bottom}}}", f"{top} over {bottom}"),
    )


def _half(rng: random.Random) -> Item:
    n = 2 * rng.randint(3, 30) + 1
    return Item(
        f"A rope of {n} m is cut into two equal parts. How long is each, in metres?",
        f"{n // 2}.5",
        str(n // 2),
        str(n),
        "the length",
        (f"\\frac{{{n}}}{{2}}", f"{n}/2", f"{n // 2}.50"),
    )


def _percent(rng: random.Random) -> Item:
    share, total = rng.choice([5, 12, 15, 30, 35, 40, 60, 75]), rng.choice([200, 300, 400, 600])
    return Item(
        f"Of {total} pupils {total * share // 100} play chess. What percentage is that?",
        f"{share}\\%",
        f"{100 - share}\\%",
        str(total * share // 100),
        "the percentage",
        (f"{share}%", f"{share} percent"),
    )


def _root(rng: random.Random) -> Item:
    k, m = rng.randint(2, 6), rng.choice([2, 3, 5, 7])
    return Item(
        f"Simplify $\\sqrt{{{k * k * m}}}$.",
        f"{k}\\sqrt{{{m}}}",
        f"{m}\\sqrt{{{k}}}",
        str(k * k),
        "the square root",
        (f"{k}√{m}", f"{k} \\sqrt{m}", f"{k} times the square root of {m}"),
    )


def _circle(rng: random.Random) -> Item:
    r = rng.randint(3, 15)
    return Item(
        f"What is the area of a circle with radius {r}?",
        f"{r * r}\\pi",
        f"{2 * r}\\pi",
        str(2 * r),
        "the area",
        (f"{r * r}π", f"{r * r} \\cdot \\pi", f"{r * r} pi"),
    )


def _roots(rng: random.Random) -> Item:
    a, b = sorted(rng.sample(range(1, 12), 2))
    return Item(
        f"Find the roots of $x^2 - {a + b}x + {a * b}$, smaller one first, as a pair.",
        f"({a}, {b})",
        f"({-b}, {-a})",
        str((a + b) ** 2 - 4 * a * b),
        "the pair of roots",
        (f"({a},{b})", f"\\left({a}, {b}\\right)", f"$x = {a}$ and $x = {b}$"),
        str(b),
    )


def _expand(rng: random.Random) -> Item:
    a, b = rng.randint(1, 5), rng.randint(6, 9)
    return Item(
        f"Expand $(x+{a})(x+{b})$.",
        f"x^2+{a + b}x+{a * b}",
        f"x^2+{a * b}x+{a + b}",
        f"{a}x+{b}x",
        "the product",
        (f"x^2 + {a + b}x + {a * b}", f"x² + {a + b}x + {a * b}", f"{a * b}+{a + b}x+x^2"),
    )


def _power(rng: random.Random) -> Item:
    b, e = rng.choice([2, 3, 5, 6, 7]), rng.randint(4, 7)
    value = b**e
    return Item(
        f"Compute ${b}^{e}$.",
        str(value),
        str(b * e),
        str(b * b),
        "the power",
        (f"{value:,}", f"{value}.0"),
    )


MAKERS: tuple[Make, ...] = (
    _shop,
    _remainder,
    _count,
    _linear,
    _chance,
    _half,
    _percent,
    _root,
    _circle,
    _roots,
    _expand,
    _power,
)


@dataclass(frozen=True)
class Case:
    """What a text is about."""

    item: Item
    problem: Problem
    rng: random.Random

    @property
    def attempt_text(self) -> str:
        return f"Let me see. So I get \\boxed{{{self.item.wrong}}}."


def cases(seed: int) -> Iterator[Case]:
    """Problems of every kind in turns, none whose wrong answer or intermediate value is the right
    one.
    """
    rng, index = random.Random(seed), 0
    while True:
        item = MAKERS[index % len(MAKERS)](rng)
        index += 1
        if item.answer not in (item.wrong, item.step):
            data = {"question": item.question, "subset": "school"}
            yield Case(item, Problem("math", index, data, item.answer), rng)
