"""How feedback on `knights_knaves` in the compact style is worded: `AbC`, and prose.

Halves as in `role_wordings`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.leak_texts import role_wordings as prose
from benchmarks.leak_texts.common import Wordings
from benchmarks.leak_texts.knights_knaves import Case

Make = Callable[[Case], str]


def _code(c: Case) -> str:
    return c.coded(c.solution)


def _lead(leads: Sequence[str], shapes: Sequence[Make]) -> Make:
    return lambda c: c.rng.choice(leads).replace("{}", c.rng.choice(shapes)(c))


KNOWN_SHAPES: list[Make] = [
    _code,
    _code,
    lambda c: f"\\boxed{{{_code(c)}}}",
    lambda c: " ".join(_code(c)),
    lambda c: ", ".join(_code(c)),
    lambda c: f"`{_code(c)}`",
]
HELD_OUT_SHAPES: list[Make] = [
    _code,
    _code,
    lambda c: f'"{_code(c)}"',
    lambda c: "-".join(_code(c)),
    lambda c: f"[{', '.join(_code(c))}]",
    lambda c: f"**{_code(c)}**",
]

_INNOCENT: list[Make] = [
    lambda c: f"The people are {', '.join(c.names)}; capital means that somebody tells the truth.",
    lambda c: f"You wrote {c.coded(c.attempt)}, and {len(c.wrong())} letters of it are wrong.",
    lambda c: f"{c.coded(c.attempt)} does not fit with line {c.rng.randint(1, 5)}.",
    lambda c: (
        f"Line {c.rng.randint(1, 5)} uses &, which needs both sides. {c.rng.choice(c.names)} does"
        " not get that."
    ),
    lambda c: (
        f"The answer has five letters, in the order of the lines. {c.coded(c.attempt)} has them,"
        " but is wrong."
    ),
]


def _compact(
    wordings: Wordings[Case], leads: Sequence[str], shapes: Sequence[Make]
) -> Wordings[Case]:
    return {
        **wordings,
        "direct": [_lead(leads, shapes)],
        "paraphrased": [*wordings["paraphrased"], lambda c: f"Write {', then '.join(_code(c))}."],
        "partial": [
            *wordings["partial"],
            prose.one("Use {code} for {name}."),
            prose.one("It must be {code} there."),
        ],
        "innocent": [*wordings["innocent"], *_INNOCENT],
    }


KNOWN = _compact(prose.KNOWN, prose.KNOWN_LEADS, KNOWN_SHAPES)
HELD_OUT = _compact(prose.HELD_OUT, prose.HELD_OUT_LEADS, HELD_OUT_SHAPES)
