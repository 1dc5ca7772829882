"""The teacher of logit distillation, in the trainer: what it says at (x_T, y), a prompt that the
agent loop made for it (`Row.teachers`) followed by the attempt.

A forward-only call of the actor's own workers for each distribution that it is made of, so it runs
wherever the actor runs, split and packed in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.utils import tensordict_utils as tu

from rltf_verl.adapters.queue.columns import TEACHERS, episode_of, ragged, teacher_spans
from rltf_verl.adapters.queue.step_rows import StepRows, read_columns
from rltf_verl.adapters.training.kept_weights import KEPT_WEIGHTS
from rltf_verl.adapters.training.logit_loss import (
    TEACHER_CALL,
    TEACHER_IDS,
    TEACHER_LOG_PROBS,
    TEACHER_PLACES,
    TEACHER_SAID,
    TEACHER_WEIGHTS,
)
from rltf_verl.algos.targets import RowBatch
from rltf_verl.config import LogitDistillConfig, TeacherConfig


@dataclass(frozen=True)
class TeacherInput:
    """An attempt with a teacher: where the student's tokens are, and what the teacher reads."""

    row: int
    """Position of the attempt's row among the step's rows."""
    start: int
    """Position of the attempt's first token in the row's response."""
    prompt: torch.Tensor
    """x_T, the teacher's prompt."""
    response: torch.Tensor
    """y, the attempt."""
    log_probs: torch.Tensor
    """[T] log π_old(y | x) at the student's prompt."""


@dataclass(frozen=True)
class TeacherOutput:
    """What the teacher said at the M tokens of the inputs, one after the other."""

    inputs: Sequence[TeacherInput]
    log_probs: torch.Tensor
    """[M] log p(y_t | x_T) of the token that was said."""
    ids: torch.Tensor | None = None
    """[M, k] its likeliest tokens; None: they were not asked for."""
    outcomes: torch.Tensor | None = None
    """[M, k + 1] log-probs of them and of the tail; None without `ids`."""
    entropy: torch.Tensor | None = None
    """[M] nats; of a mixture, the mean of its parts' (at most its own). None: not asked for."""
    seconds: float = 0.0
    """What asking took."""

    @property
    def gap(self) -> torch.Tensor:
        """[M] log p(y_t | x_T) − log π_old(y_t | x): what the teacher makes of the token that was
        said.
        """
        student = [one.log_probs for one in self.inputs]
        return self.log_probs - torch.cat([self.log_probs[:0], *student])


@dataclass(frozen=True)
class Voice:
    """A distribution that the teacher's is a mixture of."""

    share: float
    settings: Mapping[str, Any]
    """Keys of the call that make the workers speak with it."""


def voices(teacher: TeacherConfig, lora: bool) -> list[Voice]:
    """Who is asked.

    The mixture of a trust region is one of probabilities, c π_θ + (1 − c) π_base: two calls that do
    not see each other's logits give it exactly, of any outcome and of a single token. SDPO's code
    mixes logits, which is a product of powers and has to be normalised over the vocabulary.

    Args:
        teacher: the settings.
        lora: the policy is an adapter, which the workers can switch off.
    """
    policy: dict[str, Any] = {}
    base = {"no_lora_adapter": True} if lora else {KEPT_WEIGHTS: True}
    share = teacher.policy_share
    return {
        "policy": [Voice(1.0, policy)],
        "base": [Voice(1.0, base)],
        "ema": [Voice(1.0, {KEPT_WEIGHTS: True})],
        "trust_region": [Voice(share, policy), Voice(1 - share, base)],
    }[teacher.kind]


def kept_share(teacher: TeacherConfig, lora: bool) -> float | None:
    """The share of the policy in each step of the weights that the workers have to keep
    (`KeptWeights`); None: they keep none.
    """
    if teacher.kind == "ema":
        return teacher.policy_share
    return 0.0 if any(KEPT_WEIGHTS in voice.settings for voice in voices(teacher, lora)) else None


def read_teacher_inputs(step: StepRows) -> list[TeacherInput]:
    """The attempts with a teacher, in the order of rows and of tokens."""
    data = read_columns(step.meta, step.at, [TEACHERS, "responses"])
    old = step.batch.by_row(step.batch.old_log_probs)
    columns = zip(data[TEACHERS].unbind(), data["responses"].unbind(), old, strict=True)
    inputs = []
    for row, (column, said, log_probs) in enumerate(columns):
        for span in teacher_spans(column):
            tokens = slice(span.start, span.end)
            prompt = torch.tensor(span.prompt_ids, dtype=said.dtype)
            inputs.append(TeacherInput(row, span.start, prompt, said[tokens], log_probs[tokens]))
    return inputs


def teacher_batch(
    inputs: Sequence[TeacherInput],
    *,
    multiple: int,
    temperature: float,
    asked: LogitDistillConfig,
    ids: Sequence[torch.Tensor] | None = None,
) -> TensorDict:
    """The rows (x_T, y) of the forward-only call, filled up with copies of the shortest.

    Args:
        inputs: at least one.
        multiple: what the number of rows must be divisible by.
        temperature: the sampler's; verl divides the logits by it, here as for every log-prob.
        asked: what the loss needs: outcomes or only log-probs, and the entropy.
        ids: [T, k] of each input: tokens that are asked about instead of the likeliest.
    """
    whole = [torch.cat([one.prompt, one.response]) for one in inputs]
    shortest = min(range(len(whole)), key=lambda i: len(whole[i]))
    order = [*range(len(inputs)), *[shortest] * (-len(inputs) % multiple)]
    tensors: dict[str, torch.Tensor | list[Any]] = {
        "prompts": ragged([inputs[i].prompt for i in order]),
        "responses": ragged([inputs[i].response for i in order]),
        "input_ids": ragged([whole[i] for i in order]),
        "position_ids": ragged([torch.arange(len(whole[i])) for i in order]),
        "loss_mask": ragged([torch.ones_like(inputs[i].response) for i in order]),
    }
    if ids is not None:
        tensors[TEACHER_IDS] = ragged([ids[i] for i in order])
    settings = {
        "temperature": temperature,
        "compute_loss": asked.reads_logits,
        "calculate_entropy": asked.entropy_decay > 0,
        "distillation_use_topk": asked.reads_logits,
        "distillation_only": False,
    }
    if asked.reads_logits:
        settings[TEACHER_CALL] = True
    return tu.get_tensordict(tensors, settings)


def ask_teacher(
    inputs: Sequence[TeacherInput],
    voices: Sequence[Voice],
    call: Callable[[Sequence[torch.Tensor] | None, Mapping[str, Any]], TensorDict],
) -> TeacherOutput:
    """Ask every voice about the inputs, and mix what they say.

    Args:
        inputs: at least one.
        voices: one, or two that share their outcomes: the first one's likeliest.
        call: (`ids` of `teacher_batch`, settings of a voice) -> the workers' answer.
    """
    start, said = time.monotonic(), []
    ids: list[torch.Tensor] | None = None
    for voice in voices:
        output = call(ids, voice.settings)
        said.append(_said(inputs, output))
        ids = list(output[TEACHER_IDS].unbind()) if TEACHER_IDS in output else None
    first, seconds = said[0], time.monotonic() - start
    if len(said) == 1:
        return replace(first, seconds=seconds)
    (a, b), shares = said, [voice.share for voice in voices]
    outcomes = entropy = None
    if a.outcomes is not None and b.outcomes is not None:
        outcomes = _mixed(a.outcomes, b.outcomes, *shares)
    if a.entropy is not None and b.entropy is not None:
        entropy = shares[0] * a.entropy + shares[1] * b.entropy
    log_probs = _mixed(a.log_probs, b.log_probs, *shares)
    return TeacherOutput(inputs, log_probs, first.ids, outcomes, entropy, seconds)


def _mixed(a: torch.Tensor, b: torch.Tensor, *shares: float) -> torch.Tensor:
    """log(share_a e^a + share_b e^b)."""
    of_a, of_b = torch.tensor(shares).log()
    return torch.logaddexp(a + of_a, b + of_b)


def _said(inputs: Sequence[TeacherInput], output: TensorDict) -> TeacherOutput:
    """One voice's answer, without what filled up the call."""

    def of_responses(name: str) -> torch.Tensor:
        whole = zip(inputs, output[name].unbind(), strict=False)
        return torch.cat([values[len(one.prompt) - 1 : -1] for one, values in whole]).float()

    def kept(name: str) -> torch.Tensor | None:
        if name not in output:
            return None
        return torch.cat(output[name].unbind()[: len(inputs)])

    entropy = of_responses("entropy") if "entropy" in output else None
    ids, outcomes = kept(TEACHER_IDS), kept(TEACHER_LOG_PROBS)
    return TeacherOutput(inputs, of_responses("log_probs"), ids, outcomes, entropy)


def write_teacher_output(
    step: StepRows, output: TeacherOutput, weights: torch.Tensor, asked: LogitDistillConfig
) -> KVBatchMeta:
    """Write the teacher's columns beside all rows.

    Args:
        step: the rows.
        output: what the teacher said.
        weights: [M] of each token.
        asked: which columns the loss reads.

    Returns:
        All rows, which know of the columns.
    """
    meta, lengths = step.meta, [len(one.response) for one in output.inputs]
    places = [torch.arange(n) + one.start for n, one in zip(lengths, output.inputs, strict=True)]
    columns = {TEACHER_PLACES: torch.cat(places).int(), TEACHER_WEIGHTS: weights.float()}
    if asked.reads_logits:
        assert output.ids is not None
        assert output.outcomes is not None
        columns |= {TEACHER_IDS: output.ids, TEACHER_LOG_PROBS: output.outcomes}
    else:
        columns[TEACHER_SAID] = output.log_probs
    rows = [step.at[one.row] for one in output.inputs]
    fields = {
        name: by_row(values.split(lengths), rows, len(meta)) for name, values in columns.items()
    }
    return tq.kv_batch_put(
        keys=meta.keys, partition_id=meta.partition_id, fields=TensorDict(fields, len(meta))
    )


def by_row(values: Sequence[torch.Tensor], rows: Sequence[int], num_rows: int) -> torch.Tensor:
    """Values ([T, …] each) as a ragged column, each in its row, in order; a row may be empty."""
    column: list[list[torch.Tensor]] = [[] for _ in range(num_rows)]
    for row, value in zip(rows, values, strict=True):
        column[row].append(value)
    return ragged([torch.cat(row) if row else values[0][:0] for row in column])


def token_places(inputs: Sequence[TeacherInput], batch: RowBatch) -> torch.Tensor:
    """[M] where the tokens of the attempts, at least one, are among those of the
    batch.
    """
    first = batch.lengths.cumsum(0) - batch.lengths
    return torch.cat([torch.arange(len(a.response)) + first[a.row] + a.start for a in inputs])


def teacher_metrics(
    output: TeacherOutput | None, step: StepRows, weights: Mapping[str, float]
) -> dict[str, float]:
    """`rltf/logit_distill/…` of a step; the loss and the divergence come from the workers.

    Args:
        output: what the teacher said; None: nobody has one.
        step: the rows.
        weights: `weight`, the objective's coefficient at this step, and further means.
    """
    name, keys = "rltf/logit_distill", step.keys
    inputs = output.inputs if output else []
    episodes = {episode_of(keys[one.row]) for one in inputs}
    num_tokens = sum(len(one.response) for one in inputs)
    metrics = {f"{name}/{key}": value for key, value in weights.items()} | {
        f"{name}/session_share": len(episodes) / len(step.batch.episodes.group),
        f"{name}/token_share": num_tokens / len(step.batch.role),
    }
    if output:
        metrics[f"{name}/teacher_s"] = output.seconds
        metrics[f"{name}/teacher_gap"] = float(output.gap.mean())
        metrics[f"{name}/teacher_gap_abs"] = float(output.gap.abs().mean())
        if output.outcomes is not None:
            metrics[f"{name}/teacher_tail"] = float(output.outcomes[:, -1].exp().mean())
        if output.entropy is not None:
            metrics[f"{name}/teacher_entropy"] = float(output.entropy.mean())
    return metrics
