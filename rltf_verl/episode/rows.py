"""Rows of an episode: the parts that objectives make theirs of. Ids in, ids out."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from rltf_verl.types import CONTEXT, Attempt, Episode, Role, Row


def attempt_rows(episode: Episode) -> list[Row]:
    """One row per turn; a turn whose prompt continues the row of the turn before shares that row.

    In a tree the first revision continues the row; its siblings have rows of their own, with the
    shared turns in the prompt, so that nothing is trained twice.
    """
    rows: list[Row] = []
    row_of: dict[int, int] = {}  # turn -> row that ends with it
    for k, turn in enumerate(episode.turns):
        new = whole_row(Role.ATTEMPT, turn.attempt, turn.attempt.prompt_ids, k, turn.reward)
        # Taken out: the turn's next revision finds no row to continue and begins its own.
        before = row_of.pop(turn.parent, None) if turn.parent is not None else None
        if before is not None and _continues(rows[before], turn.attempt):
            rows[before] = _merged(rows[before], new, turn.parent or 0)
            row_of[k] = before
        else:
            rows.append(new)
            row_of[k] = len(rows) - 1
    # verl takes an episode's verdict from its last row, which must hold the last attempt.
    last = row_of[len(episode.turns) - 1]
    return [*rows[:last], *rows[last + 1 :], rows[last]]


def last_turns(episode: Episode) -> Iterable[int]:
    """The turns that nothing revises: one per branch."""
    revised = {turn.parent for turn in episode.turns}
    return (k for k in range(len(episode.turns)) if k not in revised)


def first_prompt_row(episode: Episode, turn: int, role: int) -> Row:
    """(x_0, y_k): the answer of a turn as if it had been given to the first prompt; a retry from a
    step stands behind the steps before, without the feedback.
    """
    last = episode.turns[turn]
    prefix, n = last.attempt.prefix_ids, len(last.attempt.prefix_ids)
    row = whole_row(role, last.attempt, episode.turns[0].attempt.prompt_ids, turn, last.graded)
    if not prefix:
        return row
    zeros = (0.0,) * n
    return Row(
        row.prompt_ids,
        prefix + row.response_ids,
        (CONTEXT,) * n + row.role,
        (last.parent or 0,) * n + row.turn,
        None if row.log_probs is None else zeros + row.log_probs,
        zeros + row.rewards,
    )


def whole_row(
    role: int, attempt: Attempt, prompt_ids: tuple[int, ...], turn: int, reward: float
) -> Row:
    """A row whose sampled tokens all have one role; observations are context. All tokens are
    credited with one turn.
    """
    n = len(attempt.response_ids)
    roles = [CONTEXT] * n
    for start, end in attempt.spans:
        roles[start:end] = [int(role)] * (end - start)
    rewards = (*([0.0] * (n - 1)), reward)
    return Row(
        prompt_ids, attempt.response_ids, tuple(roles), (turn,) * n, attempt.log_probs, rewards
    )


def spans_of(row: Row, wanted: Role = Role.ATTEMPT) -> dict[int, list[tuple[int, int]]]:
    """Turn -> [start, end) of each stretch of its tokens of a role.

    Example:
        >>> spans_of(Row((1,), (2, 3, 4, 5), (0, -1, 0, 0), (0, 0, 0, 1), None, (0.0,) * 4))
        {0: [(0, 1), (2, 3)], 1: [(3, 4)]}
    """
    spans: dict[int, list[tuple[int, int]]] = {}
    start = 0
    for (role, turn), tokens in groupby(zip(row.role, row.turn, strict=True)):
        end = start + sum(1 for _ in tokens)
        if role == wanted:
            spans.setdefault(turn, []).append((start, end))
        start = end
    return spans


def _continues(row: Row, attempt: Attempt) -> bool:
    sequence = row.prompt_ids + row.response_ids
    return attempt.prompt_ids[: len(sequence)] == sequence


def _merged(row: Row, nxt: Row, before: int) -> Row:
    """Append `nxt` to `row`. What stands between them (feedback, chat headers) is context."""
    start = len(row.prompt_ids) + len(row.response_ids)
    between = nxt.prompt_ids[start:]
    gap = len(between)
    log_probs = None
    if row.log_probs is not None and nxt.log_probs is not None:
        log_probs = (*row.log_probs, *([0.0] * gap), *nxt.log_probs)
    return Row(
        prompt_ids=row.prompt_ids,
        response_ids=row.response_ids + between + nxt.response_ids,
        role=(*row.role, *([CONTEXT] * gap), *nxt.role),
        turn=(*row.turn, *([before] * gap), *nxt.turn),
        log_probs=log_probs,
        rewards=(*row.rewards, *([0.0] * gap), *nxt.rewards),
    )
