"""How much of a worked solution a text repeats, by n-grams of words."""

from __future__ import annotations

from rltf_verl.feedback.guard.equality import tokens_of

N = 5
"""Words of one n-gram: fewer are shared by chance, more are broken by one changed word."""


def copied_share(text: str, solution: str, attempt: str = "") -> float:
    """Share of the solution's n-grams, of those that the attempt lacks, that stand in the text; 0
    if there are none.

    >>> copied_share("so: add two and three to get five", "Add two and three to get five.")
    1.0
    """
    wanted = _ngrams(tokens_of(solution)) - _ngrams(tokens_of(attempt))
    return len(wanted & _ngrams(tokens_of(text))) / len(wanted) if wanted else 0.0


def _ngrams(tokens: list[str]) -> set[tuple[str, ...]]:
    return {tuple(tokens[i : i + N]) for i in range(len(tokens) - N + 1)}
