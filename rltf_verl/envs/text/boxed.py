r"""Find the final answer, `\boxed{…}`, in a text: by the release's rules, or as a human would."""

from __future__ import annotations

import re

WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|mbox)\s*\{([^{}]*)\}")
"""Words in LaTeX."""
_BRACE = re.compile(r"[{}]")
# `\boxed 5`
_BARE = re.compile(r"\\boxed\s+([a-zA-Z0-9]+)")
_OPEN = re.compile(r"\\boxed\s*\{")
# A box with more than white space in it.
_FILLED = re.compile(rf"{_OPEN.pattern}(?!\s*\}})")


def extract_boxed(text: str) -> str:
    r"""The last `\boxed{…}` to be closed, with the release's quirks: use it to match its numbers.

    A `}` that closes nothing, anywhere, makes the whole text unreadable; a `{` that is never closed
    is ignored. Without any box, `\boxed word` counts.

    Raises:
        ValueError: nothing is boxed, or there is an unmatched `}`.

    >>> extract_boxed(r"x \boxed{1} y \boxed{a{b}c}")
    'a{b}c'
    """
    opened: list[int] = []
    inside: slice | None = None  # cut out at the end: boxes in boxes are long
    for brace in _BRACE.finditer(text):
        if brace[0] == "{":
            opened.append(brace.start())
            continue
        if not opened:
            raise ValueError(f"unmatched }} at character {brace.start()}")
        start = opened.pop()
        # The brace is a box's if `\boxed` is right before it.
        if text.endswith("\\boxed", 0, start):
            inside = slice(start + 1, brace.start())
    if inside is not None:
        return text[inside]
    bare = _BARE.search(text)
    if bare is None:
        raise ValueError("no \\boxed{} in the text")
    return bare[1]


def released_box(text: str) -> str | None:
    """Result of `extract_boxed`; None where it raises."""
    try:
        return extract_boxed(text)
    except ValueError:
        return None


def last_box(text: str) -> str | None:
    r"""Contents of the last `\boxed{`, up to its closing brace or the end of the text; None without
    a box.

    Braces elsewhere in the text do not matter. An empty box counts only where there is no other: an
    answer may end with words of the prompt, "the final answer is within \boxed{}".

    >>> last_box(r"} is odd, so \boxed{\frac{1}{2}} }")
    '\\frac{1}{2}'
    """
    # An empty box at the end is often a repetition of the prompt.
    boxes = list(_FILLED.finditer(text)) or list(_OPEN.finditer(text))
    if not boxes:
        return None
    start = boxes[-1].end()
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[start : brace.start()]
    return text[start:]


HASHES = "####"
"""Mark before the answer in GSM8K's solutions."""
# `####` inside a line; or at its beginning, with nothing, a sign or `the final answer` behind it.
_ASKS_HASHES = re.compile(
    r"(?<=[^#\n])####(?!#)|^####[ \t]*(?:$|[^\w\s#]|(?:the |your )?(?:final"
    r" )?(?:answer|number|result|x)\b)",
    re.I | re.M,
)
# `18 dollars`: the number alone, as verl's own grader of GSM8K takes it.
_COUNTED = re.compile(r"(\$?[+-]?\d[\d,.]*)\s+[^\W\d_]{3,}\D*")
_HASHED = re.compile(r"(?<!#)####(?!#)[ \t]*([^\n]*)")


def asks_for_hashes(question: str) -> bool:
    r"""True if a prompt asks for the answer behind `####`, and for no box. The heading
    `#### Problem 3` does not.

    >>> asks_for_hashes('Output the final answer after "####".')
    True
    """
    return "\\boxed" not in question and _ASKS_HASHES.search(question) is not None


def last_hashed(text: str) -> str | None:
    """The line's text after the last `####`; None if it is empty.

    >>> last_hashed("9 * 7 = 63\\n#### **63**.")
    '63'
    """
    answers = _HASHED.findall(text)
    if not answers:
        return None
    # `**63.**`, `**63**.`: the point may be inside or outside of the emphasis.
    answer = answers[-1].strip().strip("*_ ").removesuffix(".").strip("*_ ")
    counted = _COUNTED.fullmatch(answer)
    return (counted[1] if counted else answer) or None
