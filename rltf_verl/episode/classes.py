"""The classes of tokens: what of an answer an objective trains (`rltf.<objective>.classes`)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from rltf_verl.config.objectives import TokenClass
from rltf_verl.episode.mentions import touching
from rltf_verl.policy import Policy
from rltf_verl.texts import THOUGHTS, THOUGHTS_END
from rltf_verl.types import CONTEXT, Attempt, Episode, Row


def token_classes(policy: Policy, attempt: Attempt) -> list[TokenClass | None]:
    """Per token: `think` up to the end of an answer's thoughts, `action` in its calls (in the whole
    answer where there are none), `format` between them; None: an observation.
    """
    classes: list[TokenClass | None] = [None] * len(attempt.response_ids)
    steps = attempt.trajectory.steps if attempt.trajectory is not None else ()
    acted = [step.acted for step in steps] or [(0, len(attempt.response_ids))]
    for (start, end), (first, last) in zip(attempt.spans, acted, strict=True):
        thoughts = _thoughts(policy, attempt.response_ids[start:end])
        for i in range(start, end):
            called: TokenClass = "action" if first <= i < last else "format"
            classes[i] = "think" if thoughts[i - start] else called
    return classes


def _thoughts(policy: Policy, ids: tuple[int, ...]) -> list[bool]:
    """Per token whether it belongs to the thoughts or to their marks."""
    pieces = policy.pieces(ids)
    text = "".join(pieces)
    before, closed, after = text.rpartition(THOUGHTS_END)
    end = len(before) + len(closed)
    return touching(pieces, [(0, end), (end, len(text))] if THOUGHTS in after else [(0, end)])


def with_classes(policy: Policy, row: Row, episode: Episode, chosen: Collection[TokenClass]) -> Row:
    """The row of an episode's answers, whose tokens of other classes are context."""
    role = list(row.role)
    for turn in set(row.turn):
        begin = row.turn.index(turn)
        classes = token_classes(policy, episode.turns[turn].attempt)
        for i, kind in zip(range(begin, len(role)), classes, strict=False):
            if row.turn[i] == turn and kind not in chosen:
                role[i] = CONTEXT
    return replace(row, role=tuple(role))
