"""Rows as columns of verl's transfer queue: written by the agent loop, read by the trainer and the
loss.

`rltf_role`   [T]     Role of each response token, CONTEXT where it trains nothing.
`rltf_turn`   [T]     position in the episode of the turn that each response token is credited with.
`rltf_facts`  [M, F]  the episode's facts (`EPISODE_FACTS`), the same on each of its rows; NaN for
turns not played.
`rltf_teachers` [·]   the row's `TeacherSpan`s, one after the other: start, end, number of prompts,
then each prompt after its length; only where a teacher is on.
`rm_scores`   [T]     verl's own column, holding this row's *own* rewards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import islice

import numpy as np
import torch
from transfer_queue import KVBatchMeta

from rltf_verl.algos.advantages import with_neutral_rewards
from rltf_verl.algos.episodes import EpisodeBatch
from rltf_verl.runlog.numbers import EpisodeTable, TurnFacts, turn_facts
from rltf_verl.runlog.record import turn_record
from rltf_verl.types import CONTEXT, Episode, Row, TeacherSpan

DRAW = "rltf_draw"
"""Earlier draws of the problem in the step; of a dataset's row, on its way to an episode."""
ROLE, TURN, FACTS, TEACHERS, SAMPLER_LOG_PROBS = (
    "rltf_role",
    "rltf_turn",
    "rltf_facts",
    "rltf_teachers",
    "rltf_sampler_log_probs",
)

SCORED = "rltf_scored"
"""Tag of a row, where there is one: whether the actor computes the old log-probs of its tokens."""

FOR_FORWARD = ("prompts", "responses", "response_mask", "input_ids", "position_ids", "loss_mask")
"""Columns of a text row that verl's workers read; the queue ignores a name that no row has."""

EPISODE_FACTS = tuple(field.name for field in fields(TurnFacts))
"""The columns of the facts' tensor."""


def row_columns(row: Row, facts: torch.Tensor, *, teaches: bool = False) -> dict[str, torch.Tensor]:
    """Our columns of one row; `teaches`: a teacher is on."""
    teachers = {TEACHERS: teacher_column(row.teachers)} if teaches else {}
    return teachers | {
        ROLE: torch.tensor(row.role, dtype=torch.int32),
        TURN: torch.tensor(row.turn, dtype=torch.int32),
        FACTS: facts,
        "rm_scores": torch.tensor(row.rewards, dtype=torch.float32),
    }


def teacher_column(spans: Sequence[TeacherSpan]) -> torch.Tensor:
    """[·] int32 of a row's spans; `teacher_spans` reads it."""
    values: list[int] = []
    for span in spans:
        values += [span.start, span.end, 1 + len(span.against)]
        for prompt in (span.prompt_ids, *span.against):
            values += [len(prompt), *prompt]
    return torch.tensor(values, dtype=torch.int32)


def teacher_spans(column: torch.Tensor) -> list[TeacherSpan]:
    """The spans of a row's column.

    Example:
        >>> teacher_spans(teacher_column([TeacherSpan(0, 3, (7, 8), ((9,),))]))
        [TeacherSpan(start=0, end=3, prompt_ids=(7, 8), against=((9,),))]
    """
    values, spans = iter(column.tolist()), []
    # One iterator: the loop takes the first number of a span, and its body the rest of that span.
    for start in values:
        end, num_prompts = next(values), next(values)
        prompts = [tuple(islice(values, next(values))) for _ in range(num_prompts)]
        spans.append(TeacherSpan(start, end, prompts[0], tuple(prompts[1:])))
    return spans


def episode_facts(episode: Episode, most_turns: int) -> torch.Tensor:
    """[M, F] float32 facts of an episode in the order of `EPISODE_FACTS`, NaN rows for turns not
    played.
    """
    table = torch.full((most_turns, len(EPISODE_FACTS)), float("nan"))
    recorded = turn_facts([turn_record(turn) for turn in episode.turns])
    for k, (turn, facts) in enumerate(zip(episode.turns, recorded, strict=True)):
        written = turn.feedback.attempt if turn.feedback else None
        facts = replace(
            facts,
            own_feedback_tokens=float(len(written.response_ids)) if written else 0.0,
            graded=turn.graded,
        )
        table[k] = torch.tensor([getattr(facts, name) for name in EPISODE_FACTS])
    return table


def episode_table(facts: torch.Tensor) -> EpisodeTable:
    """[S, M, F] facts as `runlog.numbers` counts them."""
    # NaN: a turn that was not played.
    valid = ~torch.isnan(facts[..., EPISODE_FACTS.index("reward")])
    turns = facts[valid].double().numpy()
    return EpisodeTable(
        {name: turns[:, i] for i, name in enumerate(EPISODE_FACTS)},
        # [n] episode of each played turn, as `turns` is [n, F].
        valid.nonzero()[:, 0].numpy(),
        np.full(len(facts), np.inf),
    )


def episode_batch(facts: torch.Tensor, group: torch.Tensor) -> EpisodeBatch:
    """[S, M, F] facts for the equations; an ungraded turn gets its siblings' mean reward."""
    column = {name: facts[..., i] for i, name in enumerate(EPISODE_FACTS)}
    valid = ~torch.isnan(column["reward"])
    episodes = EpisodeBatch(
        rewards=column["reward"].nan_to_num(),
        correct=column["correct"].nan_to_num() > 0,
        valid=valid,
        group=group,
        graded=column["graded"].nan_to_num(),
        cut=column["cut"].nan_to_num() > 0,
        has_teacher=column["has_teacher"].nan_to_num() > 0,
    )
    ungraded = column["ungraded"].nan_to_num() > 0
    return with_neutral_rewards(episodes, ungraded) if bool(ungraded.any()) else episodes


def real_rows(batch: KVBatchMeta) -> list[int]:
    """Positions of the rows that are not padding (padding rows copy the first row's fields)."""
    return [i for i, tag in enumerate(batch.tags) if not tag.get("is_padding", False)]


def episode_of(key: str) -> tuple[str, str]:
    """Transfer-queue key `{uid}_{session}_{row}` -> (uid, `{uid}_{session}`)."""
    # From the right, so that a uid may hold `_`.
    uid, session, _ = key.rsplit("_", 2)
    return uid, f"{uid}_{session}"


def to_dense(values: torch.Tensor, fill: int) -> torch.Tensor:
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
    mask = to_dense(response_mask, 0).bool()
    # The column may be wider: a padding row of one token copies the roles of a whole row.
    return torch.where(mask, to_dense(role, CONTEXT)[:, : mask.shape[1]], CONTEXT)


def ragged(values: Sequence[torch.Tensor]) -> torch.Tensor:
    """1-D tensors -> the jagged nested tensor that the transfer queue stores."""
    return torch.nested.as_nested_tensor(list(values), layout=torch.jagged)
