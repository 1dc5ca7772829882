"""The words and operators of a shell script, with their quotes, as bash separates them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

OPERATORS = ("&&", "||", ";;", ";", "|", "&", "(", ")", "\n")
REDIRECTION = re.compile(r"\d*(&>>?|>>|>\||>&|<<<|<&|>|<)")
HEREDOC = re.compile(r"<<(-?)\s*(['\"]?)(\w+)\2")
ARRAY = re.compile(r"\w+\+?=\Z")


class ShellError(ValueError):
    """A script that cannot be read; the message names the line."""


@dataclass(frozen=True)
class Token:
    """A word as it is written, quotes and all, or an operator."""

    text: str
    line: int
    is_word: bool = True


def tokenize(script: str) -> list[Token]:
    """Words and operators; comments, redirections and here-documents are left out.

    Raises:
        ShellError: a quote or bracket is not closed.
    """
    return list(_tokens(script))


def _tokens(script: str) -> Iterator[Token]:
    place, heredocs = 0, list[tuple[str, bool]]()
    while place < len(script):
        line = script.count("\n", 0, place) + 1
        rest = script[place : place + 2]
        found = HEREDOC.match(script, place) if not script.startswith("<<<", place) else None
        if rest == "\\\n":
            place += 2
        elif rest[0] in " \t\r":
            place += 1
        elif rest[0] == "#":
            place = _end_of_line(script, place)
        elif found:
            heredocs.append((found[3], found[1] == "-"))
            place = found.end()
        elif rest == "((":
            end = _closed(script, place, line)
            yield Token(script[place:end], line)
            place = end
        elif redirection := REDIRECTION.match(script, place):
            place = _after_target(script, redirection.end(), line)
        elif operator := next((op for op in OPERATORS if script.startswith(op, place)), None):
            place += len(operator)
            yield Token(operator, line, is_word=False)
            if operator == "\n":
                for delimiter, strips in heredocs:
                    place = _after_heredoc(script, place, delimiter, strips)
                heredocs.clear()
        else:
            end = end_of_word(script, place, line)
            yield Token(script[place:end], line)
            place = end


def end_of_word(script: str, place: int, line: int) -> int:
    """Index after the word that starts at `place`."""
    start = place
    while place < len(script):
        char = script[place]
        if char == "(" and ARRAY.match(script[start:place]):
            place = _closed(script, place, line)
        elif char in " \t\r\n;&|()<>":
            break
        else:
            place = _after_part(script, place, line)
    return place


def _after_part(script: str, place: int, line: int) -> int:
    """Index after a character, or after what its quotes or brackets enclose."""
    char = script[place]
    if char == "\\":
        return place + 2
    if char == "'":
        end = script.find("'", place + 1)
        if end < 0:
            raise ShellError(f"line {line}: a quote ' is not closed")
        return end + 1
    if char in '"`':
        return _after_quote(script, place, line)
    if char == "$" and script[place + 1 : place + 2] in ("(", "{"):
        return _closed(script, place + 1, line)
    return place + 1


def _after_quote(script: str, place: int, line: int) -> int:
    quote, place = script[place], place + 1
    while place < len(script):
        if script[place] == quote:
            return place + 1
        if script[place] == "'":
            place += 1  # an apostrophe within double quotes
        else:
            place = _after_part(script, place, line)
    raise ShellError(f"line {line}: a quote {quote} is not closed")


def _closed(script: str, place: int, line: int) -> int:
    """Index after the bracket that closes the one at `place`."""
    opening = script[place]
    closing, place = {"(": ")", "{": "}"}[opening], place + 1
    while place < len(script):
        char = script[place]
        if char == closing:
            return place + 1
        if char == opening:
            place = _closed(script, place, line)
        elif char == "#" and opening == "(" and script[place - 1] in " \t\n":
            place = _end_of_line(script, place)
        else:
            place = _after_part(script, place, line)
    raise ShellError(f"line {line}: {opening} is not closed")


def _end_of_line(script: str, place: int) -> int:
    end = script.find("\n", place)
    return len(script) if end < 0 else end


def _after_target(script: str, place: int, line: int) -> int:
    """Index after the file that a redirection names."""
    while script[place : place + 1] in (" ", "\t"):
        place += 1
    return end_of_word(script, place, line)


def _after_heredoc(script: str, place: int, delimiter: str, strips: bool) -> int:
    while place < len(script):
        end = _end_of_line(script, place)
        text = script[place:end]
        place = end + 1
        if (text.strip() if strips else text) == delimiter:
            break
    return place
