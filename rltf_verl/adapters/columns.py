"""Rows as columns of verl's transfer queue: written by the agent loop, read by the trainer and the loss.

`rltf_role`   []      Role of the row.
`rltf_turn`   [T]     0-based turn that each response token is credited with.
`rltf_facts`  [H, F]  the session's facts (`SESSION_FACTS`), the same on each of its rows; NaN for turns not played.
`rm_scores`   [T]     verl's own column, holding this row's *own* rewards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import transfer_queue as tq
from pydantic import ConfigDict, Field
from transfer_queue import KVBatchMeta
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput

from rltf_verl.algos.targets import RowBatch
from rltf_verl.types import Episode, Row

ROLE, TURN, FACTS, SAMPLER_LOG_PROBS = "rltf_role", "rltf_turn", "rltf_facts", "rltf_sampler_log_probs"

SESSION_FACTS = (
    "correct", "format_ok", "ended", "reward", "response_tokens",
    "feedback", "feedback_words", "feedback_latency_s", "feedback_fallback", "feedback_failed",
    "grader_error", "prompt_too_long",
)  # fmt: skip


class RowOutput(AgentLoopOutput):
    """One row on its way to the transfer queue.

    verl copies the reward of a session's last output over its other outputs; the columns given here are laid over
    verl's own after that, so every row keeps its rewards.
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
        ROLE: torch.tensor(int(row.role)),
        TURN: torch.tensor(row.turn, dtype=torch.int64),
        FACTS: facts,
        "rm_scores": torch.tensor(row.rewards, dtype=torch.float32),
    }


def session_facts(episode: Episode, horizon: int) -> torch.Tensor:
    """[H, F] float32 facts of a session in the order of `SESSION_FACTS`, NaN rows for turns not played."""
    facts = torch.full((horizon, len(SESSION_FACTS)), float("nan"))
    last = len(episode.turns) - 1
    for k, turn in enumerate(episode.turns):
        feedback = turn.feedback
        facts[k] = torch.tensor([
            float(turn.grade.correct), float(turn.grade.format_ok and turn.attempt.ended), float(turn.attempt.ended),
            turn.reward, float(len(turn.attempt.response_ids)),
            float(feedback is not None), float(len(feedback.text.split())) if feedback else 0.0,
            feedback.latency_s if feedback else 0.0, float(feedback is not None and feedback.fallback),
            float(k == last and episode.stop == "feedback_unavailable"),
            float(turn.grade.error is not None), float(k == last and episode.stop == "prompt_too_long"),
        ])  # fmt: skip
    return facts


def real_rows(batch: KVBatchMeta) -> list[int]:
    """Positions of the rows that are not padding (padding rows copy the first row's fields)."""
    return [i for i, tag in enumerate(batch.tags) if not tag.get("is_padding", False)]


def session_of(key: str) -> tuple[str, str]:
    """Transfer-queue key `{uid}_{session}_{row}` -> (uid, `{uid}_{session}`)."""
    uid, session, _ = key.rsplit("_", 2)
    return uid, f"{uid}_{session}"


def read_columns(batch: KVBatchMeta, rows: Sequence[int], fields: Sequence[str]) -> dict[str, torch.Tensor]:
    """Fetch columns of the given rows; ragged ones padded with zeros on the right."""
    keys = [batch.keys[i] for i in rows]
    data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=list(fields))
    missing = [f for f in fields if f not in data]
    if missing:
        raise ValueError(
            f"the rollout's rows have no column {', '.join(missing)}: they were not made by the agent loop `rltf`. "
            "Set actor_rollout_ref.rollout.agent.default_agent_loop=rltf (or the dataset's agent_name column)."
        )
    return {f: _dense(data[f]) for f in fields}


def _dense(values: torch.Tensor) -> torch.Tensor:
    return values.to_padded_tensor(0) if values.is_nested else values


def row_batch(batch: KVBatchMeta, rows: Sequence[int]) -> RowBatch:
    """The rows as the equations want them; sessions and groups numbered in order of appearance."""
    fields = [ROLE, TURN, "response_mask", "rm_scores", "old_log_probs", SAMPLER_LOG_PROBS]
    columns = read_columns(batch, rows, fields)
    sessions: dict[str, int] = {}
    groups: dict[str, int] = {}
    row_session, session_group = [], []
    for i in rows:
        uid, session = session_of(batch.keys[i])
        if session not in sessions:
            sessions[session] = len(sessions)
            session_group.append(groups.setdefault(uid, len(groups)))
        row_session.append(sessions[session])
    return RowBatch(
        role=columns[ROLE].reshape(-1),
        session=torch.tensor(row_session),
        group=torch.tensor(session_group),
        turn=columns[TURN],
        mask=columns["response_mask"].bool(),
        rewards=columns["rm_scores"],
        old_log_probs=columns["old_log_probs"],
        sampler_log_probs=columns[SAMPLER_LOG_PROBS],
    )


def ragged(values: Sequence[torch.Tensor]) -> torch.Tensor:
    """1-D tensors -> the jagged nested tensor that the transfer queue stores."""
    return torch.nested.as_nested_tensor(list(values), layout=torch.jagged)
