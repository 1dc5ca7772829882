"""Texts that no grader may stumble over."""

import random

from hypothesis import strategies as st

PIECES = [
    "\\boxed{",
    "\\boxed ",
    "}",
    "{",
    "\\text{",
    "\\",
    "\\\\",
    "[",
    "]",
    "(",
    ")",
    '"',
    "'",
    ",",
    ";",
    ".",
    ":",
    "|",
    "\n",
    "\r",
    "\x00",
    "\x1c",
    "\u2028",
    "\ufeff",
    "\ud800",
    "→",
    "ß",
    "İ",
    "ı",
    "\U0001f600",
    "9" * 5000,
    "-1",
    "1.",
    "[" * 3000,
    "right",
    "down",
    "up",
    "left",
    "R",
    "rdlu",
    "infeasible",
    "no path",
    "not",
    "and",
    "or",
    "is",
    "a",
    "knight",
    "knaves",
    "Emma",
    "AbC",
    "A",
    "None",
    "null",
    "NaN",
    "1e999",
    "__import__('os')",
    "if",
    "=",
    " " * 2000,
    "RRDD" * 500,
]


def hostile_texts(num: int, *more: str) -> list[str]:
    """`num` random joins of pieces, always the same ones; `more` pieces fit the problem at hand."""
    rng, pieces = random.Random(0), [*PIECES, *more]
    return [
        "".join(rng.choice(pieces) + rng.choice(["", " "]) for _ in range(rng.randint(0, 12)))
        for _ in range(num)
    ]


def texts(*more: str) -> st.SearchStrategy[str]:
    """Any text, and texts with pieces of answers in them."""
    return st.text() | st.lists(st.sampled_from([*PIECES, *more])).map(" ".join)
