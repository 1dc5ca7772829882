"""Programs in answers, and the words that the environment `code` uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})[ \t]*([^\s`]*)")
_BEHIND_WORDS = re.compile(r"()(?<!`)(`{3,})(python3?|py)[ \t]*$", re.IGNORECASE)
"""``Here it is:```python``. The first group matches the blanks: none."""
_PYTHON = re.compile(r"\{?\.?(?:python[\d.]*|py)?\}?", re.IGNORECASE)

READS_INPUT = "Write a Python program that reads standard input and prints to standard output."
DEFINES = (
    "Write a Python function `{entry}`; it is called with the arguments and returns the answer."
)
STARTER = "Start from this:\n```python\n{starter}\n```"
FORM = "Put the complete program into one ```python block."


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a text, `text[start:end]` with its fences."""

    start: int
    end: int
    source: str
    labelled: bool
    """It says that it is Python."""


@dataclass(frozen=True, slots=True)
class _Fence:
    """A line, `text[start:end]`, that opens or closes a block."""

    start: int
    end: int
    marks: str
    """Its backticks or tildes."""
    info: str
    """The word behind them."""
    indent: str
    """The blanks before them."""


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks that can be Python, in order. One that is never closed goes up to the end
    of the text.
    """
    opened: _Fence | None = None
    for fence in _fences(text):
        if opened is None:
            opened = fence
        # A closing fence has the opening one's sign, at least as often, no word behind it, and is
        # no deeper than its program's text may.
        elif (
            not fence.info
            and fence.marks.startswith(opened.marks)
            and len(fence.indent) <= len(opened.indent) + 3
        ):
            yield from _block(text, opened, fence.start, fence.end)
            opened = None
    if opened is not None:
        yield from _block(text, opened, len(text), len(text))


def _fences(text: str) -> Iterator[_Fence]:
    """Line by line: one expression for whole lines would try every split of a line that is no fence
    in the end.
    """
    start = 0
    for line in text.split("\n"):
        match = _FENCE.match(line) or _BEHIND_WORDS.search(line)
        if match is not None and "`" not in line[match.end() :]:
            yield _Fence(start + match.start(), start + len(line), match[2], match[3], match[1])
        start += len(line) + 1


def _block(text: str, opened: _Fence, stop: int, end: int) -> Iterator[Block]:
    lines = text[opened.end + 1 : stop].rstrip("\n").split("\n")
    # In Markdown the opening fence's blanks are not the program's.
    source = "\n".join(line.removeprefix(opened.indent) for line in lines)
    if _PYTHON.fullmatch(opened.info) and source.strip():
        yield Block(opened.start, end, source, bool(opened.info))


def last_program(text: str) -> str | None:
    """The source in the last fenced block that says it is Python, else in the last one that can be;
    None without one.
    """
    last = max(enumerate(blocks(text)), key=lambda pair: (pair[1].labelled, pair[0]), default=None)
    return None if last is None else last[1].source


def fenced(source: str) -> str:
    """The source as an answer."""
    return f"```python\n{source}\n```"


def shorten(text: str, most: int) -> str:
    """`text`, with its middle left out if it has more than `most` characters.

    >>> shorten("abcdefghij", 4)
    'ab[… 6 characters …]ij'
    """
    left_out = len(text) - most
    if left_out <= 0:
        return text
    head = most - most // 2
    return f"{text[:head]}[… {left_out} characters …]{text[len(text) - most // 2 :]}"


def question(statement: str, entry: str | None, starter: str) -> str:
    """The first prompt."""
    task = READS_INPUT if entry is None else DEFINES.format(entry=entry)
    parts = [
        statement.strip(),
        task,
        STARTER.format(starter=starter.rstrip()) if starter.strip() else "",
        FORM,
    ]
    return "\n\n".join(part for part in parts if part)
