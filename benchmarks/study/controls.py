"""Controls for feedback modelling: the same rows, with targets that say nothing about the answer
they stand behind.

`derange`: the feedback of another problem. `marginal`: every token is another row's at the same
place, so that only the frequencies are left. The second turn still reads the true feedback.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import count, takewhile
from typing import TypeVar

from rltf_verl.types import Role, Row

T = TypeVar("T")

CONTROLS = ("derange", "marginal")


def control_rows(
    control: str, rows: Sequence[Row], problem: Sequence[int], rng: random.Random
) -> dict[int, Row | None]:
    """What the control puts in the place of feedback rows; None drops a row that has no partner of
    another problem.

    Args:
        control: one of `CONTROLS`, or "" for none.
        rows: N rows of one batch.
        problem: [N] problem of each row; rows of a problem stand together.
        rng: for `marginal`.
    """
    at = [i for i, row in enumerate(rows) if row.role[0] == Role.FEEDBACK]
    if control == "derange":
        shift = max(Counter(problem[i] for i in at).values(), default=0)
        pairs = zip(at, [*at[shift:], *at[:shift]], strict=True)
        return {
            i: replace(rows[j], prompt_ids=rows[i].prompt_ids) if problem[i] != problem[j] else None
            for i, j in pairs
        }
    if control == "marginal":
        shuffled = shuffle_places([rows[i].response_ids for i in at], rng)
        return {i: replace(rows[i], response_ids=ids) for i, ids in zip(at, shuffled, strict=True)}
    return {}


def shuffle_places(texts: Sequence[Sequence[T]], rng: random.Random) -> list[tuple[T, ...]]:
    """Per place, the texts that reach it swap what they have there. Lengths stay."""
    mixed = [list(text) for text in texts]
    for place in takewhile(lambda k: any(len(text) > k for text in texts), count()):
        reach = [i for i, text in enumerate(texts) if len(text) > place]
        for i, j in zip(reach, rng.sample(reach, len(reach)), strict=True):
            mixed[i][place] = texts[j][place]
    return [tuple(text) for text in mixed]
