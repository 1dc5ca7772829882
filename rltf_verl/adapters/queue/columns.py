"""Rows as columns of verl's transfer queue: written by the agent loop, read by the trainer and the
loss.

`rltf_role`   [T]     Role of each response token, CONTEXT where it trains nothing.
`rltf_turn`   [T]     position in the session of the turn that each response token is credited with.
`rltf_facts`  [M, F]  the session's facts (`SESSION_FACTS`), the same on each of its rows; NaN for
turns not played. `rm_scores`   [T]     verl's own column, holding this row's *own* rewards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from pydantic import ConfigDict, Field
from transfer_queue import KVBatchMeta
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput

from rltf_verl.algos.advantages import with_neutral_rewards
from rltf_verl.algos.sessions import Sessions
from rltf_verl.feedback import provider_names
from rltf_verl.runlog.record import turn_record
from rltf_verl.runlog.turns import Record, answer, line_to, says_nothing
from rltf_verl.types import CONTEXT, TECHNICAL_STOPS, Attempt, Episode, Feedback, Row

ROLE, TURN, FACTS, SAMPLER_LOG_PROBS = (
    "rltf_role",
    "rltf_turn",
    "rltf_facts",
    "rltf_sampler_log_probs",
)

SESSION_FACTS = (
    "parent",
    "correct",
    "format_ok",
    "ended",
    "reward",
    "response_tokens",
    "feedback",
    "feedback_words",
    "feedback_latency_s",
    "feedback_fallback",
    "feedback_failed",
    "grader_error",
    "ungraded",
    "prompt_too_long",
    "feedback_leak",
    "feedback_provider",
    "changed",
    "repeated",
    "no_op",
    "own_feedback_tokens",
    "not_asked",
    "graded",
    "cut",
    "version",
)


class RowOutput(AgentLoopOutput):
    """One row on its way to the transfer queue.

    verl copies the reward of a session's last output over its other outputs; the columns given here
    are laid over verl's own after that, so every row keeps its rewards.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    columns: dict[str, Any] = Field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """verl's fields of the row, with ours laid over them."""
        fields: dict[str, Any] = super().as_dict()
        fields.update(fields.pop("columns"))
        return fields


def row_columns(row: Row, facts: torch.Tensor) -> dict[str, torch.Tensor]:
    """The columns of one row beside verl's own."""
    return {
        ROLE: torch.tensor(row.role, dtype=torch.int32),
        TURN: torch.tensor(row.turn, dtype=torch.int32),
        FACTS: facts,
        "rm_scores": torch.tensor(row.rewards, dtype=torch.float32),
    }


def session_facts(episode: Episode, num_nodes: int) -> torch.Tensor:
    """[M, F] float32 facts of a session in the order of `SESSION_FACTS`, NaN rows for turns not
    played.
    """
    facts = torch.full((num_nodes, len(SESSION_FACTS)), float("nan"))
    records = [turn_record(turn) for turn in episode.turns]
    for k, turn in enumerate(episode.turns):
        feedback = turn.feedback
        facts[k] = torch.tensor(
            [
                float(-1 if turn.parent is None else turn.parent),
                float(turn.grade.correct),
                float(turn.grade.format_ok and turn.attempt.ended),
                float(turn.attempt.ended),
                turn.reward,
                float(len(turn.attempt.response_ids)),
                float(feedback is not None),
                float(len(feedback.text.split())) if feedback else 0.0,
                feedback.latency_s if feedback else 0.0,
                float(feedback is not None and feedback.fallback),
                float(turn.stop == "feedback_unavailable"),
                float(turn.grade.error is not None),
                float(turn.stop == "ungraded"),
                float(turn.stop == "prompt_too_long"),
                *_leak_facts(turn.withheld or feedback),
                *_answer_facts(line_to(records, k)),
                float(feedback is not None and says_nothing(feedback.text)),
                float(len(feedback.attempt.response_ids)) if feedback and feedback.attempt else 0.0,
                float(turn.stop == "not_asked"),
                turn.graded,
                float(turn.stop in TECHNICAL_STOPS),
                _version(turn.attempt),
            ]
        )
    return facts


def _version(attempt: Attempt) -> float:
    """Training step of the oldest parameters that sampled it; −1 where the engine does not say."""
    oldest = attempt.info.get("min_global_steps")
    return -1.0 if oldest is None else float(oldest)


def stale_turns(facts: torch.Tensor, step: int, limit: int | None) -> torch.Tensor | None:
    """[S, M] bool: turns sampled by parameters more than `limit` steps older than those that `step`
    updates.

    Args:
        facts: [S, M, F].
        step: training step, from 1; its update starts from the parameters of step − 1.
        limit: `rltf.max_staleness`; without one there is nothing to tell.
    """
    if limit is None:
        return None
    version = facts[..., SESSION_FACTS.index("version")]
    return (version >= 0) & (step - 1 - version > limit)


def _answer_facts(line: Sequence[Record]) -> tuple[float, float]:
    """Whether the last answer of a line differs from the one before, and whether it stood anywhere
    before.
    """
    *before, last = map(answer, line)
    return float(bool(before) and last != before[-1]), float(last in before)


def _leak_facts(said: Feedback | None) -> tuple[float, float]:
    """Whether feedback gave the answer away (-1: nobody looked), and who spoke, as a position in
    `provider_names()`.

    Of the text that was said first: one that the guard mended or kept back is a leak of its
    provider all the same.
    """
    if said is None or said.leak is None:
        return -1.0, -1.0
    names = provider_names()
    return float(said.leak != ""), (
        float(names.index(said.provider)) if said.provider in names else -1.0
    )


def sessions_of(facts: torch.Tensor, group: torch.Tensor) -> Sessions:
    """[S, M, F] facts as the equations want them; a turn that nobody could grade has its siblings'
    mean reward.
    """
    column = {name: facts[..., i] for i, name in enumerate(SESSION_FACTS)}
    valid = ~torch.isnan(column["parent"])
    sessions = Sessions(
        rewards=column["reward"].nan_to_num(),
        correct=column["correct"].nan_to_num() > 0,
        valid=valid,
        parent=torch.where(valid, column["parent"].nan_to_num(), -1).long(),
        group=group,
        graded=column["graded"].nan_to_num(),
        cut=column["cut"].nan_to_num() > 0,
    )
    ungraded = column["ungraded"].nan_to_num() > 0
    return with_neutral_rewards(sessions, ungraded) if bool(ungraded.any()) else sessions


def real_rows(batch: KVBatchMeta) -> list[int]:
    """Positions of the rows that are not padding (padding rows copy the first row's fields)."""
    return [i for i, tag in enumerate(batch.tags) if not tag.get("is_padding", False)]


def session_of(key: str) -> tuple[str, str]:
    """Transfer-queue key `{uid}_{session}_{row}` -> (uid, `{uid}_{session}`)."""
    uid, session, _ = key.rsplit("_", 2)
    return uid, f"{uid}_{session}"


def dense(values: torch.Tensor, fill: int) -> torch.Tensor:
    """A ragged column as a rectangle."""
    return values.to_padded_tensor(fill) if values.is_nested else values


def token_roles(role: torch.Tensor, response_mask: torch.Tensor) -> torch.Tensor:
    """[N, T] role of each response token, CONTEXT where the response mask is 0.

    verl makes padding rows of one masked token that copy the other columns of the first row, its
    roles too.

    Args:
        role: the column `rltf_role`, ragged or [N, T'] with T' ≥ T.
        response_mask: verl's column, ragged or [N, T].
    """
    mask = dense(response_mask, 0).bool()
    return torch.where(mask, dense(role, CONTEXT)[:, : mask.shape[1]], CONTEXT)


def ragged(values: Sequence[torch.Tensor]) -> torch.Tensor:
    """1-D tensors -> the jagged nested tensor that the transfer queue stores."""
    return torch.nested.as_nested_tensor(list(values), layout=torch.jagged)
