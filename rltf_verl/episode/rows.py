"""Rows of an episode: the parts that objectives make theirs of. Ids in, ids out."""

from __future__ import annotations

from itertools import groupby

from rltf_verl.types import CONTEXT, Attempt, Episode, Role, Row


def attempt_rows(episode: Episode) -> list[Row]:
    """One row per turn; a turn whose prompt continues the row of the turn before shares it."""
    rows: list[Row] = []
    for k, turn in enumerate(episode.turns):
        new = whole_row(Role.ATTEMPT, turn.attempt, turn.attempt.prompt_ids, k, turn.reward)
        if rows and _continues(rows[-1], turn.attempt):
            rows[-1] = _merged(rows[-1], new, k - 1)
        else:
            rows.append(new)
    # verl takes an episode's verdict from its last row, which holds the last attempt.
    return rows


def first_prompt_row(episode: Episode, turn: int, role: int) -> Row:
    """(x_0, y_k): the answer of a turn as if it had been given to the first prompt; a retry from a
    step follows the steps before, without the feedback.
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
        (max(turn - 1, 0),) * n + row.turn,
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
    """Append `nxt` to `row`. Text between them (feedback, chat headers) is context."""
    start = len(row.prompt_ids) + len(row.response_ids)
    between = nxt.prompt_ids[start:]
    gap = len(between)
    zeros = [0.0] * gap
    log_probs = None
    if row.log_probs is not None and nxt.log_probs is not None:
        log_probs = (*row.log_probs, *zeros, *nxt.log_probs)
    return Row(
        prompt_ids=row.prompt_ids,
        response_ids=row.response_ids + between + nxt.response_ids,
        role=(*row.role, *([CONTEXT] * gap), *nxt.role),
        turn=(*row.turn, *([before] * gap), *nxt.turn),
        log_probs=log_probs,
        rewards=(*row.rewards, *zeros, *nxt.rewards),
    )
