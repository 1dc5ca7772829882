"""The teacher of logit distillation, in the trainer: the policy as it is before the update, at
(x_1, y), the revise prompt of turn 2 followed by the first attempt.

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

from rltf_verl.adapters.queue.columns import ROLE, TURN, ragged, real_rows, session_of
from rltf_verl.adapters.training.logit_loss import TEACHER_CALL, TEACHER_IDS, TEACHER_LOG_PROBS
from rltf_verl.types import Role


@dataclass(frozen=True)
class Lesson:
    """A session with feedback: what the student said, and where the teacher stands."""

    row: int
    """Position in the batch of the row (x_0, y_1)."""
    prompt: torch.Tensor
    """x_1."""
    response: torch.Tensor
    """y_1."""
    log_probs: torch.Tensor
    """[T] log π_old(y_1 | x_0)."""


@dataclass(frozen=True)
class Taught:
    """What the teacher said at M tokens of a batch."""

    num_sessions: int
    """Sessions that have a teacher."""
    tail: torch.Tensor
    """[M] its probability of all tokens outside the top k."""
    gap: torch.Tensor
    """[M] log π_old(y_t | x_1) − log π_old(y_t | x_0): what the feedback changes about the token
    that was said.
    """
    seconds: float
    """What asking took."""


def read_lessons(batch: KVBatchMeta) -> list[Lesson]:
    """The first attempts that a second turn follows; x_1 is that turn's prompt."""
    rows, fields = real_rows(batch), [ROLE, TURN, "prompts", "responses", "old_log_probs"]
    keys = [batch.keys[i] for i in rows]
    data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=fields)
    column = {name: data[name].unbind() for name in fields}
    lessons = []
    for first, second in first_and_second(keys, column[ROLE], column[TURN]):
        response, old = column["responses"][first], column["old_log_probs"][first]
        lessons.append(Lesson(rows[first], column["prompts"][second], response, old))
    return lessons


def first_and_second(
    keys: Sequence[str], role: Sequence[torch.Tensor], turn: Sequence[torch.Tensor]
) -> list[tuple[int, int]]:
    """(row of turn 0, row of turn 1) of every session that has both, among its attempt rows.

    Args:
        keys: transfer-queue keys of the rows.
        role: [T] of each row.
        turn: [T] of each row.
    """
    found: dict[tuple[str, int], int] = {}
    for i, key in enumerate(keys):
        if role[i][0] == Role.ATTEMPT:
            found[session_of(key)[1], int(turn[i][0])] = i
    return [
        (i, found[session, 1])
        for (session, k), i in found.items()
        if k == 0 and (session, 1) in found
    ]


def teacher_batch(lessons: Sequence[Lesson], *, multiple: int, temperature: float) -> TensorDict:
    """The rows (x_1, y_1) of the forward-only call, filled up with copies of the shortest.

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
    """Ask the teacher about the first attempts and write its columns beside all rows.

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
    all_ids, all_log_probs = [ids[0][:0]] * len(batch), [log_probs[0][:0]] * len(batch)
    gaps = []
    for i, lesson in enumerate(lessons):
        all_ids[lesson.row], all_log_probs[lesson.row] = ids[i], log_probs[i]
        gaps.append(own[i][len(lesson.prompt) - 1 : -1] - lesson.log_probs)
    columns = {TEACHER_IDS: ragged(all_ids), TEACHER_LOG_PROBS: ragged(all_log_probs)}
    batch = tq.kv_batch_put(
        keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict(columns, len(batch))
    )
    tail = torch.cat([values[:, -1] for values in log_probs[: len(lessons)]]).exp()
    return batch, Taught(len(lessons), tail, torch.cat(gaps), seconds)


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
