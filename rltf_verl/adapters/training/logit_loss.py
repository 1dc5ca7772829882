"""Logit distillation in the workers: the teacher's outcomes in a forward-only call, the divergences
in the update.

verl 0.9.1 calls the loss function twice per micro-batch when `distillation_use_topk` is set: with
`student_logits` straight after the model, to reduce them to one number per token, and with
`model_output`, to make the loss. So the student needs no second forward: the loss acts on rows that
are in the update anyway. In the teacher's call the first reduces the logits to k+1 log-probs per
response token, which the second hands back as outputs of the model: both see the same micro-batch
object, and what the second puts into `model_output` is returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.padding import no_padding_2_padding

from rltf_verl.algos.log_probs import rows_per_chunk
from rltf_verl.algos.logit_distill import (
    clipped_ratio,
    logit_divergence,
    outcomes_of_rows,
    sampled_token,
    top_k_ids,
)
from rltf_verl.config import LogitDistillConfig

TEACHER_IDS, TEACHER_LOG_PROBS, TEACHER_PLACES = (
    "rltf_teacher_ids",
    "rltf_teacher_log_probs",
    "rltf_teacher_places",
)
"""Columns of a row with P tokens that have a teacher: [P, k] int32 tokens, [P, k + 1] float32
log-probs, the tail last, and [P] int32 positions in the response. A worker fetches the first two by
`TEACHER_SPANS` (`outcomes.fetch_outcomes`).
"""

TEACHER_SPANS, TEACHER_TAIL = "rltf_teacher_spans", "rltf_teacher_tail"
"""Columns: of a row, int64 positions of its taught attempts in the teacher's call; of a row of the
call, [T] float32 log-probs of the tail.
"""

TEACHER_LOG_PROB, TEACHER_WEIGHTS = "rltf_teacher_log_prob", "rltf_teacher_weights"
"""[P] float32 the teacher's log-prob of the sampled token, if no other token's is read; and the
token's weight.
"""

TEACHER_CALL = "rltf_teacher_call"
"""Key of a batch that asks for its outcomes instead of a loss."""

FIRST_SHARE = "rltf_first_share"
"""Key of a batch about the second of a mixture's two parts, whose rows have the outcomes of the
first: the share of the first.
"""

WEIGHT, NUM_TOKENS = "rltf_logit_weight", "rltf_logit_tokens"
"""Keys of the update: the objective's coefficient, and how many tokens with a teacher one update
has over all ranks.
"""

DIVERGENCE = "rltf_logit_divergence"
"""Model output: one divergence per token, 0 where there is no teacher."""

LOGIT_ROWS = "rltf_logit_rows"
"""Nested int64, as `input_ids`: the logits of each token, where an engine has those of the
responses only and equal ones once (`cpu/actor`).
"""

LossOutput = tuple[torch.Tensor, dict[str, Any]]


def loss_with_logits(
    loss: Callable[..., LossOutput],
    config: LogitDistillConfig,
    model_output: dict[str, Any] | None = None,
    data: TensorDict | None = None,
    dp_group: Any = None,
    student_logits: torch.Tensor | None = None,
) -> LossOutput | dict[str, torch.Tensor]:
    """Replaces verl's loss function when the objective reads logits.

    Args:
        loss: the loss of an update.
        config: the objective.
        model_output: outputs of the model, in the second call.
        data: the micro-batch.
        dp_group: handed on.
        student_logits: [1, L, V] of the packed micro-batch, in the first call; or, with
            `LOGIT_ROWS`, of the distinct ones.

    Returns:
        First call: [1, L] outputs by name. Second call: scalar loss and metrics.
    """
    assert data is not None
    teaching = TEACHER_CALL in data.keys()  # noqa: SIM118  (a TensorDict is not searched by its keys)
    if student_logits is not None:
        return (
            keep_outcomes(student_logits, data, config.top_k)
            if teaching
            else divergence(student_logits, data, config)
        )
    assert model_output is not None
    return return_outcomes(model_output, data) if teaching else loss(model_output, data, dp_group)


def logit_positions(data: TensorDict, places: Any) -> torch.Tensor:
    """Places in the packed micro-batch of the logits that predict response tokens.

    Args:
        data: a micro-batch with verl's nested `input_ids` and `responses`.
        places: nested tensor [N, P], positions in the responses.

    Returns:
        [Σ M] int64, in the order of the places.
    """
    ends, lengths = data["input_ids"].offsets()[1:], data["responses"].offsets().diff()
    starts = ends - lengths - 1  # logits are one position before their token
    return torch.repeat_interleave(starts, places.offsets().diff()) + places.values()


def rows_at(data: TensorDict, positions: torch.Tensor) -> torch.Tensor:
    """[Σ M] int64 rows of the logits at positions of the packed micro-batch."""
    rows: Any = data.get(LOGIT_ROWS, None)
    return positions if rows is None else rows.values()[positions]


def keep_outcomes(logits: torch.Tensor, data: TensorDict, top_k: int) -> dict[str, torch.Tensor]:
    """First call for the teacher: the outcomes of every response token, kept in the micro-batch.

    verl itself carries only one number per token, so there is nothing to return.
    """
    rows = rows_at(data, logit_positions(data, data[TEACHER_PLACES]))
    if FIRST_SHARE in data.keys():  # noqa: SIM118  (a TensorDict is not searched by its keys)
        ids = data[TEACHER_IDS].values().long()
        own = outcomes_of_rows(logits[0], rows, ids)
        outcomes = mix(data[TEACHER_LOG_PROBS].values(), own, data[FIRST_SHARE])
    else:
        chunks = rows.split(rows_per_chunk(logits))
        ids = torch.cat([top_k_ids(logits[0, chunk], top_k) for chunk in chunks])
        outcomes = outcomes_of_rows(logits[0], rows, ids)
    columns = {TEACHER_IDS: ids.int(), TEACHER_LOG_PROBS: outcomes, TEACHER_TAIL: outcomes[:, -1]}
    for name, values in columns.items():
        data[name] = torch.nested.nested_tensor_from_jagged(values, data["responses"].offsets())
    return {}


def mix(first: torch.Tensor, second: torch.Tensor, share: float) -> torch.Tensor:
    """log(share · e^first + (1 − share) e^second), of any shape."""
    of_first, of_second = first.new_tensor([share, 1 - share]).log()
    return torch.logaddexp(first + of_first, second + of_second)


def return_outcomes(model_output: dict[str, Any], data: TensorDict) -> LossOutput:
    """Second call for the teacher: the outcomes become outputs of the model."""
    model_output.update(
        {name: data[name] for name in (TEACHER_IDS, TEACHER_LOG_PROBS, TEACHER_TAIL)}
    )
    return torch.zeros((), device=data["responses"].device), {}


def divergence(
    logits: torch.Tensor, data: TensorDict, config: LogitDistillConfig
) -> dict[str, torch.Tensor]:
    """First call in the update: [1, L] divergences from the teacher's columns, with a graph."""
    positions = logit_positions(data, data[TEACHER_PLACES])
    values = logit_divergence(
        logits.squeeze(0),  # `logits[0]` would copy the gradient
        data[TEACHER_IDS].values().long(),
        data[TEACHER_LOG_PROBS].values(),
        config.divergence.name,
        config.divergence.beta,
        config.divergence.term_clip,
        rows_at(data, positions),
    )
    rows: Any = data.get(LOGIT_ROWS, None)
    size = logits.shape[1] if rows is None else len(rows.values())
    whole = values.new_zeros(size).index_put((positions,), values)
    return {DIVERGENCE: whole.unsqueeze(0)}


def teacher_loss(
    config: LogitDistillConfig,
    model_output: dict[str, Any],
    data: TensorDict,
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
) -> tuple[torch.Tensor, dict[str, Metric]]:
    """Second call in the update: weight · Σ_t w_t D_t over the tokens with a teacher, and their
    mean divergence.

    Args:
        config: the objective.
        model_output: divergences of all tokens, where the logits were read.
        data: the micro-batch.
        log_prob: [N, T] log π_θ.
        old_log_prob: [N, T] log π_old.

    Returns:
        Scalar token sum (the caller divides it as it does its own), and metrics that add up over
        micro-batches.
    """
    places = data[TEACHER_PLACES]
    counts = places.offsets().diff()
    row = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
    at = (row, places.values().long())
    if config.reads_logits:
        values = no_padding_2_padding(model_output[DIVERGENCE], data)[at]
    else:
        values = sampled_token(log_prob[at], data[TEACHER_LOG_PROB].values())
    weights = data[TEACHER_WEIGHTS].values()
    if config.ratio_clip is not None:
        weights = weights * clipped_ratio(log_prob[at], old_log_prob[at], config.ratio_clip)
    # verl averages over ranks
    mean = values.detach().sum() * data["dp_size"] / data[NUM_TOKENS]
    return data[WEIGHT] * (weights * values).sum(), {
        "rltf/logit_distill/divergence": Metric(value=mean, aggregation=AggregationType.SUM)
    }
