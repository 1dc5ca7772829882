"""Share of a reference program that a text repeats outside of code blocks, counted in tokens of the
program.
"""

from __future__ import annotations

import re

MIN_TOKENS = 3
"""Shorter expressions are written by chance."""
SHARE = 0.5
"""A text with this share of the tokens that the attempt lacks is a leak."""

_TOKEN = re.compile(r"[A-Za-z_]\w{0,60}|\d{1,20}|[^\w\s`\"']")
# `return `, `print(` up to the end of the line, `x = `
_STATEMENT = re.compile(r"^(?:return\s+|print\s*\((?=.*\)$)|\w+\s*=(?!=)\s*)")
_READS_OR_OPENS = re.compile(r"\binput\s*\(|\bstdin\b|^(?:def|import|from|class|else|try)\b")


def repeated_share(text: str, solution: str, attempt: str) -> float:
    """Share of the solution's expressions in the text, of those that the attempt lacks; in tokens.

    >>> reference = "a, b = map(int, input().split())\\nprint(max(a, b) + 1)"
    >>> repeated_share("You want max(a,b) + 1.", reference, "print(a)")
    1.0
    """
    words, known = _token_string(text), _token_string(attempt)
    cores = {
        _core(line) for line in solution.splitlines() if not _READS_OR_OPENS.search(line.strip())
    }
    # Each token is between zeros, so there is one zero more than tokens.
    sizes = {core: core.count("\0") - 1 for core in map(_token_string, cores)}
    news = {core: size for core, size in sizes.items() if size >= MIN_TOKENS and core not in known}
    if not news:
        return 0.0
    return sum(size for core, size in news.items() if core in words) / sum(news.values())


def _core(line: str) -> str:
    """The expression of a line: without `return`, `print(…)`, an assignment, and brackets around it
    all.
    """
    core = line.strip()
    opened = _STATEMENT.match(core)
    if opened:
        core = core[opened.end() :].removesuffix(")") if "(" in opened[0] else core[opened.end() :]
    if core.startswith("(") and core.endswith(")") and core.find(")") == len(core) - 1:
        return core[1:-1]
    return core


def _token_string(text: str) -> str:
    """Tokens between zeros: one text holds another token by token if its string does."""
    return "\0" + "".join(f"{token}\0" for token in _TOKEN.findall(text))
