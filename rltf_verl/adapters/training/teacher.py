"""The teacher of logit distillation, in the trainer: the policy as it is before the update, at
(x_T, y), a prompt that the agent loop made for it (`Row.teachers`) followed by the attempt.

One forward-only call of the actor's own workers, so it runs wherever the actor runs, split and
packed in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.utils import tensordict_utils as tu

from rltf_verl.adapters.queue.columns import (
    TEACHERS,
    ragged,
    real_rows,
    session_of,
    teacher_spans,
)
from rltf_verl.adapters.queue.step_rows import read_columns
from rltf_verl.adapters.training.logit_loss import (
    TEACHER_CALL,
    TEACHER_IDS,
    TEACHER_LOG_PROBS,
    TEACHER_PLACES,
)


@dataclass(frozen=True)
class Lesson:
    """An attempt with a teacher: where the student's tokens are, and what the teacher reads."""

    row: int
    """Position of the attempt's row in the batch."""
    start: int
    """Position of the attempt's first token in the row's response."""
    prompt: torch.Tensor
    """x_T, the teacher's prompt."""
    response: torch.Tensor
    """y, the attempt."""
    log_probs: torch.Tensor
    """[T] log π_old(y | x) at the student's prompt."""


@dataclass(frozen=True)
class Taught:
    """What the teacher said at M tokens of a batch."""

    num_sessions: int
    """Sessions in which an attempt has a teacher."""
    tail: torch.Tensor
    """[M] its probability of all tokens outside the top k."""
    gap: torch.Tensor
    """[M] log π_T(y_t | x_T) − log π_old(y_t | x): what the teacher's prompt changes about the
    token that was said.
    """
    seconds: float
    """What asking took."""


def read_lessons(batch: KVBatchMeta) -> list[Lesson]:
    """The attempts with a teacher, in the order of rows and of tokens."""
    rows, fields = real_rows(batch), [TEACHERS, "responses", "old_log_probs"]
    data = read_columns(batch, rows, fields)
    lessons = []
    for row, column, said, old in zip(rows, *(data[name].unbind() for name in fields), strict=True):
        for span in teacher_spans(column):
            tokens = slice(span.start, span.end)
            prompt = torch.tensor(span.prompt_ids, dtype=said.dtype)
            lessons.append(Lesson(row, span.start, prompt, said[tokens], old[tokens]))
    return lessons


def teacher_batch(lessons: Sequence[Lesson], *, multiple: int, temperature: float) -> TensorDict:
    """The rows (x_T, y) of the forward-only call, filled up with copies of the shortest.

    Args:
        lessons: at least one.
        multiple: what the number of rows must be divisible by.
        temperature: the sampler's; verl divides the logits by it, here as for every log-prob.
    """
    inputs = [torch.cat([lesson.prompt, lesson.response]) for lesson in lessons]
    shortest = min(range(len(lessons)), key=lambda i: len(inputs[i]))
    order = [*range(len(lessons)), *[shortest] * (-len(lessons) % multiple)]
    tensors: dict[str, torch.Tensor | list[Any]] = {
        "prompts": ragged([lessons[i].prompt for i in order]),
        "responses": ragged([lessons[i].response for i in order]),
        "input_ids": ragged([inputs[i] for i in order]),
        "position_ids": ragged([torch.arange(len(inputs[i])) for i in order]),
        "loss_mask": ragged([torch.ones_like(lessons[i].response) for i in order]),
    }
    settings = {
        TEACHER_CALL: True,
        "temperature": temperature,
        "compute_loss": True,
        "calculate_entropy": False,
        "distillation_use_topk": True,
        "distillation_only": False,
    }
    return tu.get_tensordict(tensors, settings)


def ask_teacher(
    batch: KVBatchMeta,
    forward: Callable[[TensorDict], TensorDict],
    *,
    multiple: int,
    temperature: float,
) -> tuple[KVBatchMeta, Taught]:
    """Ask the teacher about the attempts and write its columns beside all rows.

    Args:
        batch: the rows, with `old_log_probs`.
        forward: the workers' forward-only call.
        multiple: what the number of rows of that call must be divisible by.
        temperature: the sampler's.

    Returns:
        The batch, which knows of the columns if any row has a teacher, and what was said.
    """
    lessons = read_lessons(batch)
    if not lessons:
        return batch, Taught(0, torch.zeros(0), torch.zeros(0), 0.0)
    start = time.monotonic()
    output = forward(teacher_batch(lessons, multiple=multiple, temperature=temperature))
    seconds = time.monotonic() - start
    ids, log_probs, own = (
        output[name].unbind() for name in (TEACHER_IDS, TEACHER_LOG_PROBS, "log_probs")
    )
    places, gaps = [], []
    for lesson, said in zip(lessons, own, strict=False):
        places.append(torch.arange(len(lesson.response), dtype=torch.int32) + lesson.start)
        gaps.append(said[len(lesson.prompt) - 1 : -1] - lesson.log_probs)
    columns = {TEACHER_IDS: ids, TEACHER_LOG_PROBS: log_probs, TEACHER_PLACES: places}
    fields = {name: by_row(values, lessons, len(batch)) for name, values in columns.items()}
    batch = tq.kv_batch_put(
        keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict(fields, len(batch))
    )
    tail = torch.cat([values[:, -1] for values in log_probs[: len(lessons)]]).exp()
    num_sessions = len({session_of(batch.keys[lesson.row]) for lesson in lessons})
    return batch, Taught(num_sessions, tail, torch.cat(gaps), seconds)


def by_row(
    values: Sequence[torch.Tensor], lessons: Sequence[Lesson], num_rows: int
) -> torch.Tensor:
    """The lessons' values ([T, …] each) as a ragged column of rows; empty without a lesson."""
    rows: list[list[torch.Tensor]] = [[] for _ in range(num_rows)]
    for lesson, value in zip(lessons, values, strict=False):  # copies fill up the call
        rows[lesson.row].append(value)
    return ragged([torch.cat(row) if row else values[0][:0] for row in rows])


def teacher_metrics(taught: Taught, batch: KVBatchMeta, weight: float) -> dict[str, float]:
    """`rltf/logit_distill/…` of a step; the loss and the divergence come from the workers.

    Args:
        taught: what the teacher said.
        batch: the rows.
        weight: the objective's coefficient at this step.
    """
    name, rows = "rltf/logit_distill", real_rows(batch)
    num_sessions = len({session_of(batch.keys[i]) for i in rows})
    num_tokens = sum(batch.tags[i]["response_len"] for i in rows)
    metrics = {
        f"{name}/weight": weight,
        f"{name}/session_share": taught.num_sessions / num_sessions,
        f"{name}/token_share": taught.tail.numel() / num_tokens,
    }
    if taught.num_sessions:
        metrics[f"{name}/teacher_s"] = taught.seconds
        metrics[f"{name}/teacher_tail"] = float(taught.tail.mean())
        metrics[f"{name}/teacher_gap"] = float(taught.gap.mean())
        metrics[f"{name}/teacher_gap_abs"] = float(taught.gap.abs().mean())
    return metrics
