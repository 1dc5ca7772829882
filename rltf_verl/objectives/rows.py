"""From an episode to the rows that are trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rltf_verl.config import MentionsConfig
from rltf_verl.episode.classes import with_classes
from rltf_verl.episode.mentions import mentions, touching
from rltf_verl.episode.rows import attempt_rows
from rltf_verl.objectives.method import Method
from rltf_verl.policy import Policy
from rltf_verl.types import CONTEXT, Episode, Message, Row


async def episode_rows(
    policy: Policy, messages: Sequence[Message], episode: Episode, method: Method
) -> list[Row]:
    """All rows of one training episode, the last attempt last (verl takes an episode's verdict from
    its last row).

    Attempt rows: one per turn, or of the first turn only (`rltf.attempt.turns`); turns whose prompt
    continues a row token for token share it. Then those of every objective that is enabled.

    Args:
        policy: encodes feedback, and knows the text of tokens.
        messages: the first prompt.
        episode: what was played.
        method: the objectives.
    """
    config = method.config
    first_only = config.attempt.turns == "first"
    attempts = attempt_rows(replace(episode, turns=episode.turns[:1]) if first_only else episode)
    chosen = config.chosen_classes
    if chosen is not None:
        attempts = [with_classes(policy, row, episode, chosen) for row in attempts]
    extra: list[Row] = []
    for objective in method.objectives:
        if not objective.enabled:
            continue
        attempts = [objective.with_roles(policy, row, episode) for row in attempts]
        rows = await objective.rows(policy, messages, episode)
        if chosen is not None and objective.has_answers:
            cut = (with_classes(policy, row, episode, chosen) for row in rows)
            rows = [row for row in cut if any(role != CONTEXT for role in row.role)]
        extra += rows
    first_prompt = episode.turns[0].attempt.prompt_ids
    kept = (_without_mentions(row, first_prompt, policy, config.mentions) for row in extra)
    # A recorded answer in a row of its own trains nothing. An episode of it alone keeps the row:
    # verl needs one.
    before = (row for row in attempts[:-1] if not _is_recorded(row, episode))
    return [*before, *(row for row in kept if row is not None), attempts[-1]]


def _is_recorded(row: Row, episode: Episode) -> bool:
    return all(episode.turns[turn].attempt.recorded for turn in set(row.turn))


def _without_mentions(
    row: Row, first_prompt: tuple[int, ...], policy: Policy, config: MentionsConfig
) -> Row | None:
    """The row by `rltf.mentions.action`; None when it is to be dropped. Concerns later answers
    after the first prompt, in rows of any objective.
    """
    if config.action == "keep" or row.turn[-1] == 0 or row.prompt_ids != first_prompt:
        return row
    texts = zip(policy.pieces(row.response_ids), row.role, strict=True)
    pieces = ["\n" if role == CONTEXT else text for text, role in texts]  # no observation counts
    spans = mentions("".join(pieces), config.phrases)
    if not spans:
        return row
    if config.action == "drop":
        return None
    touched = touching(pieces, spans)
    role = tuple(CONTEXT if t else r for r, t in zip(row.role, touched, strict=True))
    return replace(row, role=role) if any(r != CONTEXT for r in role) else None
