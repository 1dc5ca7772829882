"""From an episode to the rows that are trained on. Ids in, ids out."""

from __future__ import annotations

from rltf_verl.types import Attempt, Episode, Role, Row, Turn


def episode_to_rows(episode: Episode, *, distill: bool) -> list[Row]:
    """The rows of one session, the last attempt last (verl takes a session's verdict from its last row).

    attempt: one row per turn; turns whose prompt continues the previous row token for token share its row, with the
        tokens between them masked.
    critique: one row per critique that the policy itself wrote, credited with the turn that it led to.
    distill: (x_0, y_K) for every session of two or more turns, right or wrong.

    Args:
        episode: what was played.
        distill: make the distillation row.
    """
    attempts = _attempt_rows(episode.turns)
    extra = [
        _critique_row(episode, k, t.feedback.attempt)
        for k, t in enumerate(episode.turns)
        if t.feedback is not None and t.feedback.attempt is not None and k + 1 < len(episode.turns)
    ]
    if distill and len(episode.turns) > 1:
        extra.append(_distill_row(episode))
    return [*attempts[:-1], *extra, attempts[-1]]


def _attempt_rows(turns: tuple[Turn, ...]) -> list[Row]:
    rows: list[Row] = []
    for k, turn in enumerate(turns):
        row = _own_row(Role.ATTEMPT, turn.attempt, turn.attempt.prompt_ids, k, turn.reward)
        if rows and _continues(rows[-1], turn.attempt):
            rows[-1] = _merged(rows[-1], row)
        else:
            rows.append(row)
    return rows


def _critique_row(episode: Episode, turn: int, critique: Attempt) -> Row:
    return _own_row(Role.CRITIQUE, critique, critique.prompt_ids, turn + 1, episode.turns[-1].reward)


def _distill_row(episode: Episode) -> Row:
    first, last = episode.turns[0].attempt, episode.turns[-1]
    return _own_row(Role.DISTILL, last.attempt, first.prompt_ids, len(episode.turns) - 1, last.reward)


def _own_row(role: Role, attempt: Attempt, prompt_ids: tuple[int, ...], turn: int, reward: float) -> Row:
    n = len(attempt.response_ids)
    rewards = (*([0.0] * (n - 1)), reward)
    return Row(role, prompt_ids, attempt.response_ids, (1,) * n, (turn,) * n, attempt.log_probs, rewards)


def _continues(row: Row, attempt: Attempt) -> bool:
    sequence = row.prompt_ids + row.response_ids
    return attempt.prompt_ids[: len(sequence)] == sequence


def _merged(row: Row, nxt: Row) -> Row:
    """Append `nxt` to `row`; the context between them (feedback, chat headers) is masked out."""
    between = nxt.prompt_ids[len(row.prompt_ids) + len(row.response_ids) :]
    gap = len(between)
    log_probs = None
    if row.log_probs is not None and nxt.log_probs is not None:
        log_probs = (*row.log_probs, *([0.0] * gap), *nxt.log_probs)
    return Row(
        role=row.role,
        prompt_ids=row.prompt_ids,
        response_ids=row.response_ids + between + nxt.response_ids,
        mask=(*row.mask, *([0] * gap), *nxt.mask),
        turn=(*row.turn, *([nxt.turn[0]] * gap), *nxt.turn),
        log_probs=log_probs,
        rewards=(*row.rewards, *([0.0] * gap), *nxt.rewards),
    )
