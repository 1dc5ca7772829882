"""From an episode to the rows that are trained on. Ids in, ids out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from rltf_verl.config import MentionsConfig, RLTFConfig
from rltf_verl.episode.mentions import mentioning_tokens, mentions
from rltf_verl.policy import Policy
from rltf_verl.prompts import template_of
from rltf_verl.prompts.fit import fitted_prompt
from rltf_verl.prompts.quote import shown_of
from rltf_verl.types import CONTEXT, Attempt, Episode, Message, Role, Row, Turn


async def session_rows(
    policy: Policy, messages: Sequence[Message], episode: Episode, config: RLTFConfig
) -> list[Row]:
    """All rows of one training session, the last attempt last (verl takes a session's verdict from
    its last row).

    attempt: one per turn, or of the first turn only; turns whose prompt continues a row token for
        token share it (`attempt_rows`).
    critique, distill, imitate, feedback: for the objectives that have a weight.

    Args:
        policy: encodes feedback, and knows the text of tokens.
        messages: the first prompt.
        episode: what was played.
        config: the objectives.
    """
    inline = config.feedback_modeling.enabled and config.feedback_modeling.form == "inline"
    trained = (
        episode if config.attempt.turns == "all" else replace(episode, turns=episode.turns[:1])
    )
    attempts = attempt_rows(trained, inline_feedback=inline)
    extra: list[Row] = []
    if config.critique.enabled:
        extra += critique_rows(episode)
    if config.distill.enabled:
        extra += distill_rows(episode, config.distill.answer)
    if config.imitate.enabled:
        extra += imitate_rows(episode, first_turn_too=config.imitate.source == "all")
    extra = [
        kept
        for row in extra
        if (kept := _without_mentions(row, policy, config.mentions)) is not None
    ]
    if config.feedback_modeling.enabled and not inline:
        extra += await _feedback_rows(policy, messages, episode, config)
    return [*attempts[:-1], *extra, attempts[-1]]


def attempt_rows(episode: Episode, *, inline_feedback: bool = False) -> list[Row]:
    """One row per turn; a turn whose prompt continues the row of the turn before shares that row.

    In a tree the first revision continues the row; its siblings have rows of their own, with the
    shared turns in the prompt, so that nothing is trained twice.

    Args:
        episode: what was played.
        inline_feedback: give the feedback's tokens in a shared row the role FEEDBACK; else they are
            context.
    """
    rows: list[Row] = []
    row_of: dict[int, int] = {}  # turn -> row that ends with it
    for k, turn in enumerate(episode.turns):
        own = _whole_row(Role.ATTEMPT, turn.attempt, turn.attempt.prompt_ids, k, turn.reward)
        before = row_of.pop(turn.parent, None) if turn.parent is not None else None
        if before is not None and _continues(rows[before], turn.attempt):
            span = _span(episode.turns[turn.parent or 0]) if inline_feedback else None
            rows[before] = _merged(rows[before], own, turn.parent or 0, span)
            row_of[k] = before
        else:
            rows.append(own)
            row_of[k] = len(rows) - 1
    last = row_of[len(episode.turns) - 1]
    return [*rows[:last], *rows[last + 1 :], rows[last]]


def critique_rows(episode: Episode) -> list[Row]:
    """One row per critique that the policy itself wrote, credited with the turn that it led to."""
    rows = []
    for k, turn in enumerate(episode.turns):
        critique = episode.turns[turn.parent].feedback if turn.parent is not None else None
        if critique is not None and critique.attempt is not None:
            own = critique.attempt
            rows.append(_whole_row(Role.CRITIQUE, own, own.prompt_ids, k, turn.reward))
    return rows


def distill_rows(episode: Episode, answer: Literal["last", "first_right"] = "last") -> list[Row]:
    """(x_0, y_K) for every line of two or more turns, right or wrong, but not if nobody could say
    which.

    With `first_right` y_K is the line's first right answer instead, if there is one. One that lines
    of a tree share is one row. A first attempt is none: it stands behind the first prompt already.
    """
    ends = list(_last_turns(episode))
    if answer == "first_right":
        ends = list(dict.fromkeys(_first_right(episode, end) for end in ends))
    kept = [k for k in ends if k > 0 and episode.turns[k].stop != "ungraded"]
    return [_first_prompt_row(episode, k, Role.DISTILL) for k in kept]


def imitate_rows(episode: Episode, *, first_turn_too: bool) -> list[Row]:
    """(x_0, y_K) for every line whose last answer is correct; lines of one turn only if asked
    for.
    """
    ends = [
        k
        for k in _last_turns(episode)
        if episode.turns[k].grade.correct and (k > 0 or first_turn_too)
    ]
    return [_first_prompt_row(episode, k, Role.IMITATE) for k in ends]


async def _feedback_rows(
    policy: Policy, messages: Sequence[Message], episode: Episode, config: RLTFConfig
) -> list[Row]:
    """(critic prompt with y_k, f_k) for every feedback that led to another turn (paper section 4).

    Left out: what the policy wrote itself, which it need not learn to predict, and the fixed
    sentence of `on_error`.
    """
    rows, template = [], template_of("critic", config.feedback_modeling.critic)
    for k, turn in enumerate(episode.turns):
        if (
            turn.feedback is None
            or turn.stop is not None
            or turn.feedback.attempt
            or turn.feedback.fallback
        ):
            continue
        attempt = shown_of(turn.attempt.text, config.episode.quote)
        prompt = await fitted_prompt(policy, messages, template, attempt=attempt, unthinking=True)
        if prompt.ids is not None:
            ids = await policy.encode_answer(turn.feedback.text)
            unsampled = Attempt(prompt.ids, ids, (0.0,) * len(ids), turn.feedback.text, ended=True)
            rows.append(_whole_row(Role.FEEDBACK, unsampled, prompt.ids, k, turn.reward))
    return rows


def _last_turns(episode: Episode) -> Iterable[int]:
    revised = {turn.parent for turn in episode.turns}
    return (k for k in range(len(episode.turns)) if k not in revised)


def _first_right(episode: Episode, end: int) -> int:
    """The first right turn of the line to `end`; `end` if none is."""
    found, at = end, end
    while True:
        turn = episode.turns[at]
        found = at if turn.grade.correct else found
        if turn.parent is None:
            return found
        at = turn.parent


def _first_prompt_row(episode: Episode, turn: int, role: Role) -> Row:
    last = episode.turns[turn]
    return _whole_row(role, last.attempt, episode.turns[0].attempt.prompt_ids, turn, last.graded)


def _whole_row(
    role: Role, attempt: Attempt, prompt_ids: tuple[int, ...], turn: int, reward: float
) -> Row:
    n = len(attempt.response_ids)
    rewards = (*([0.0] * (n - 1)), reward)
    return Row(
        prompt_ids, attempt.response_ids, (int(role),) * n, (turn,) * n, attempt.log_probs, rewards
    )


def _without_mentions(row: Row, policy: Policy, config: MentionsConfig) -> Row | None:
    """The row by `rltf.mentions.action`; None when it is to be dropped. Concerns later answers on
    the first prompt.
    """
    if (
        config.action == "keep"
        or row.role[0] not in (Role.DISTILL, Role.IMITATE)
        or row.turn[0] == 0
    ):
        return row
    pieces = policy.pieces(row.response_ids)
    if not mentions("".join(pieces), config.phrases):
        return row
    if config.action == "drop":
        return None
    touched = mentioning_tokens(pieces, config.phrases)
    role = tuple(CONTEXT if t else r for r, t in zip(row.role, touched, strict=True))
    return replace(row, role=role) if any(r != CONTEXT for r in role) else None


def _continues(row: Row, attempt: Attempt) -> bool:
    sequence = row.prompt_ids + row.response_ids
    return attempt.prompt_ids[: len(sequence)] == sequence


def _span(turn: Turn) -> tuple[int, int] | None:
    """Where feedback that can be modelled stands: not the policy's own, not the fixed sentence of
    `on_error`.
    """
    feedback = turn.feedback
    return None if feedback is None or feedback.attempt or feedback.fallback else feedback.span


def _merged(row: Row, nxt: Row, before: int, span: tuple[int, int] | None) -> Row:
    """Append `nxt` to `row`. What stands between them (feedback, chat headers) is context, but for
    `span`.
    """
    start = len(row.prompt_ids) + len(row.response_ids)
    between = nxt.prompt_ids[start:]
    gap = len(between)
    low, high = span or (0, 0)
    role = [int(Role.FEEDBACK) if low <= start + i < high else CONTEXT for i in range(gap)]
    log_probs = None
    if row.log_probs is not None and nxt.log_probs is not None:
        log_probs = (*row.log_probs, *([0.0] * gap), *nxt.log_probs)
    return Row(
        prompt_ids=row.prompt_ids,
        response_ids=row.response_ids + between + nxt.response_ids,
        role=(*row.role, *role, *nxt.role),
        turn=(*row.turn, *([before] * gap), *nxt.turn),
        log_probs=log_probs,
        rewards=(*row.rewards, *([0.0] * gap), *nxt.rewards),
    )
