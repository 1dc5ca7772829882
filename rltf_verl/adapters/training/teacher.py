"""The teacher of logit distillation, in the trainer: its distributions at (x_T, y), a prompt from
the agent loop (`Row.teachers`) followed by the attempt.

One forward-only call of the actor's workers for each part of its mixture, so it runs wherever the
actor runs, split and packed in the same way. A few numbers per token come back: outcomes stay in
the transfer queue (`outcomes`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from rltf_verl.adapters.compat import required_batch_multiple
from rltf_verl.adapters.queue.columns import TEACHERS, episode_of, ragged, teacher_spans
from rltf_verl.adapters.queue.step_rows import StepRows, read_columns
from rltf_verl.adapters.training.kept_weights import KEPT_WEIGHTS
from rltf_verl.adapters.training.logit_loss import (
    FIRST_SHARE,
    TEACHER_CALL,
    TEACHER_LOG_PROB,
    TEACHER_PLACES,
    TEACHER_SPANS,
    TEACHER_TAIL,
    TEACHER_WEIGHTS,
    mix,
)
from rltf_verl.adapters.training.outcomes import ask_in_queue
from rltf_verl.algos.logit_distill import soft_clip
from rltf_verl.algos.targets import RowBatch
from rltf_verl.config import LogitDistillConfig, RLTFConfig, TeacherConfig
from rltf_verl.objectives.teacher import uses_lora


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
    against: Sequence[torch.Tensor] = ()
    """Prompts of the contrast."""


@dataclass(frozen=True)
class TeacherOutput:
    """The teacher's log-probs at the P tokens of the inputs, one input after the other."""

    inputs: Sequence[TeacherInput]
    log_probs: torch.Tensor
    """[P] log p(y_t | x_T) of the sampled token."""
    tail: torch.Tensor | None = None
    """[P] log-probs of all tokens but the likeliest k; None: not requested."""
    entropy: torch.Tensor | None = None
    """[P] nats; of a mixture, the mean of its parts' (at most its own). None: not requested."""
    seconds: float = 0.0
    """Duration of the calls."""
    against: torch.Tensor | None = None
    """[P] log of the mean p(y_t | x'_T) over the contrast's prompts; None without a contrast."""

    @property
    def student(self) -> torch.Tensor:
        """[P] log π_old(y_t | x)."""
        return torch.cat([self.log_probs[:0], *(x.log_probs for x in self.inputs)])

    @property
    def gap(self) -> torch.Tensor:
        """[P] log p(y_t | x_T) − log π_old(y_t | x), or minus `against`, softly clipped."""
        if self.against is None:
            return self.log_probs - self.student
        return soft_clip(self.log_probs - self.against)

    @property
    def target(self) -> torch.Tensor:
        """[P] log-probs that the policy is pulled towards: the teacher's; with a contrast those of
        π_old e^gap, up to a constant of each position, which no policy gradient depends on.
        """
        return self.log_probs if self.against is None else self.student + self.gap


@dataclass(frozen=True)
class Part:
    """A distribution in the teacher's mixture."""

    share: float
    settings: Mapping[str, Any]
    """Keys of the call that choose the weights."""


def mixture_of(teacher: TeacherConfig, lora: bool) -> list[Part]:
    """The distributions that the teacher's is made of.

    The mixture of a trust region is one of probabilities, c π_θ + (1 − c) π_base: two calls that do
    not see each other's logits give it exactly, of any outcome and of a single token. SDPO's code
    mixes logits, which is a product of powers and has to be normalised over the vocabulary. The
    largest part comes first: its likeliest tokens are the outcomes.

    Args:
        teacher: the settings.
        lora: the policy is an adapter, which the workers can switch off.
    """
    policy: dict[str, Any] = {}
    base = {"no_lora_adapter": True} if lora else {KEPT_WEIGHTS: True}
    share = teacher.kind.policy_share
    parts = {
        "policy": [Part(1.0, policy)],
        "base": [Part(1.0, base)],
        "ema": [Part(1.0, {KEPT_WEIGHTS: True})],
        "trust_region": [Part(share, policy), Part(1 - share, base)],
    }[teacher.kind.name]
    return sorted(parts, key=lambda part: -part.share)


def kept_share(teacher: TeacherConfig, lora: bool) -> float | None:
    """The share of the policy in each step of the weights that the workers have to keep
    (`KeptWeights`); None: they keep none.
    """
    if teacher.kind.name == "ema":
        return teacher.kind.policy_share
    return 0.0 if any(KEPT_WEIGHTS in part.settings for part in mixture_of(teacher, lora)) else None


class Teacher:
    """Asks the actor's workers for the teacher's log-probs.

    Args:
        config: the whole trainer config.
        rltf: its `rltf:` block.
        workers: verl's worker group of the actor.
    """

    def __init__(self, config: DictConfig, rltf: RLTFConfig, workers: Any) -> None:
        self._config, self._asked, self._workers = config, rltf.logit_distill, workers
        self._parts = mixture_of(rltf.teacher, uses_lora(partial(OmegaConf.select, config)))

    def ask(self, rows: StepRows) -> TeacherOutput | None:
        """The teacher's answer about a step's rows; None: no attempt has a teacher."""
        inputs = read_teacher_inputs(rows)
        if not inputs:
            return None
        asked = with_contrast(inputs)
        return fold_contrast(ask_teacher(asked, self._parts, partial(self._call, asked)), inputs)

    def _call(self, inputs: Sequence[TeacherInput], settings: Mapping[str, Any]) -> TensorDict:
        data = teacher_batch(
            inputs,
            multiple=required_batch_multiple(self._config, self._workers.world_size),
            temperature=self._config.actor_rollout_ref.rollout.temperature,
            asked=self._asked,
        )
        tu.assign_non_tensor(data, **settings)
        call = self._workers.compute_log_prob
        answer: TensorDict = ask_in_queue(call, data) if self._asked.reads_logits else call(data)
        return answer


def read_teacher_inputs(step: StepRows) -> list[TeacherInput]:
    """The attempts of a step that have a teacher."""
    data = read_columns(step.meta, step.at, [TEACHERS, "responses"])
    old = step.batch.by_row(step.batch.old_log_probs)
    columns = zip(data[TEACHERS].unbind(), data["responses"].unbind(), old, strict=True)
    inputs = []
    for row, (column, response, log_probs) in enumerate(columns):
        for span in teacher_spans(column):
            tokens = slice(span.start, span.end)
            prompt, *against = (
                torch.tensor(ids, dtype=response.dtype) for ids in (span.prompt_ids, *span.against)
            )
            of_student = response[tokens], log_probs[tokens]
            inputs.append(TeacherInput(row, span.start, prompt, *of_student, against))
    return inputs


def with_contrast(inputs: Sequence[TeacherInput]) -> list[TeacherInput]:
    """The inputs, then the same attempts after each prompt of their contrasts: one forward pass."""
    return [*inputs, *(replace(x, prompt=prompt) for x in inputs for prompt in x.against)]


def fold_contrast(output: TeacherOutput, inputs: Sequence[TeacherInput]) -> TeacherOutput:
    """The answer about `with_contrast(inputs)` as one about the inputs."""
    if len(output.inputs) == len(inputs):
        return output
    num_own = sum(len(x.response) for x in inputs)
    lengths = [len(x.response) for x in output.inputs[len(inputs) :]]
    voices = iter(output.log_probs[num_own:].split(lengths))
    # The mean of probabilities over an attempt's prompts: logsumexp less the log of their number.
    against = [
        torch.stack([*islice(voices, len(x.against))]).logsumexp(dim=0) - math.log(len(x.against))
        for x in inputs
    ]
    return TeacherOutput(
        inputs,
        output.log_probs[:num_own],
        entropy=None if output.entropy is None else output.entropy[:num_own],
        against=torch.cat(against),
        seconds=output.seconds,
    )


def teacher_batch(
    inputs: Sequence[TeacherInput],
    *,
    multiple: int,
    temperature: float,
    asked: LogitDistillConfig,
) -> TensorDict:
    """The rows (x_T, y) of the forward-only call, filled up with copies of the shortest.

    Args:
        inputs: at least one.
        multiple: what the number of rows must be divisible by.
        temperature: the sampler's; verl divides the logits by it, here as for every log-prob.
        asked: what the loss needs: outcomes or only log-probs, and the entropy.
    """
    shortest = min(
        range(len(inputs)), key=lambda i: len(inputs[i].prompt) + len(inputs[i].response)
    )
    # Copies come last, where `_unpack` drops them and no row's `TEACHER_SPANS` names them.
    rows = [*inputs, *[inputs[shortest]] * (-len(inputs) % multiple)]
    whole = [torch.cat([row.prompt, row.response]) for row in rows]
    tensors: dict[str, torch.Tensor | list[Any]] = {
        "prompts": ragged([row.prompt for row in rows]),
        "responses": ragged([row.response for row in rows]),
        "input_ids": ragged(whole),
        "position_ids": ragged([torch.arange(len(ids)) for ids in whole]),
        "loss_mask": ragged([torch.ones_like(row.response) for row in rows]),
    }
    settings = {
        "temperature": temperature,
        "compute_loss": asked.reads_logits,
        "calculate_entropy": asked.entropy_decay > 0,
        "distillation_use_topk": asked.reads_logits,
        "distillation_only": False,
    }
    if asked.reads_logits:
        settings[TEACHER_CALL] = True
        tensors[TEACHER_PLACES] = ragged([torch.arange(len(row.response)).int() for row in rows])
    return tu.get_tensordict(tensors, settings)


def ask_teacher(
    inputs: Sequence[TeacherInput],
    parts: Sequence[Part],
    call: Callable[[Mapping[str, Any]], TensorDict],
) -> TeacherOutput:
    """Ask every part of the mixture about the inputs, and mix the answers.

    Args:
        inputs: at least one.
        parts: one, or two that share their outcomes: the first one's likeliest.
        call: settings of a part -> the workers' answer; the second's outcomes are the mixture's.
    """
    start = time.monotonic()
    first, *others = parts
    answer = _unpack(inputs, call(first.settings))
    for part in others:
        own = _unpack(inputs, call({**part.settings, FIRST_SHARE: first.share}))
        log_probs, entropy = mix(answer.log_probs, own.log_probs, first.share), own.entropy
        if answer.entropy is not None and entropy is not None:
            entropy = first.share * answer.entropy + part.share * entropy
        answer = replace(own, log_probs=log_probs, entropy=entropy)
    return replace(answer, seconds=time.monotonic() - start)


def _unpack(inputs: Sequence[TeacherInput], output: TensorDict) -> TeacherOutput:
    """The workers' answer as tokens, without the rows that filled up the call (they are the last,
    so `zip` drops them).
    """

    def of_responses(name: str) -> torch.Tensor:
        whole = zip(inputs, output[name].unbind(), strict=False)
        # A token is predicted one position before it, and nothing follows the last.
        return torch.cat([values[len(x.prompt) - 1 : -1] for x, values in whole]).float()

    entropy = of_responses("entropy") if "entropy" in output else None
    whole = output[TEACHER_TAIL].unbind() if TEACHER_TAIL in output else ()
    tail = torch.cat(whole[: len(inputs)]) if whole else None
    return TeacherOutput(inputs, of_responses("log_probs"), tail, entropy)


def teacher_columns(
    step: StepRows, output: TeacherOutput, weights: torch.Tensor, asked: LogitDistillConfig
) -> dict[str, torch.Tensor]:
    """The teacher's columns of all rows in the queue, ragged.

    Args:
        step: the rows.
        output: the teacher's answer.
        weights: [P] of each token.
        asked: which columns the loss reads.
    """
    lengths = [len(x.response) for x in output.inputs]
    places = [torch.arange(n).int() + x.start for n, x in zip(lengths, output.inputs, strict=True)]
    columns: dict[str, Sequence[torch.Tensor]] = {
        TEACHER_PLACES: places,
        TEACHER_WEIGHTS: weights.float().split(lengths),
    }
    if asked.reads_logits:
        columns[TEACHER_SPANS] = torch.arange(len(lengths)).split(1)
    else:
        columns[TEACHER_LOG_PROB] = output.target.split(lengths)
    rows = [step.at[x.row] for x in output.inputs]
    return {name: by_row(values, rows, len(step.meta)) for name, values in columns.items()}


def by_row(values: Sequence[torch.Tensor], rows: Sequence[int], num_rows: int) -> torch.Tensor:
    """Values ([T, …] each) as a ragged column, each in its row, in order; a row may be empty."""
    column: list[list[torch.Tensor]] = [[] for _ in range(num_rows)]
    for row, value in zip(rows, values, strict=True):
        column[row].append(value)
    # `[:0]` keeps dtype and trailing dimensions of a row without values.
    return ragged([torch.cat(row) if row else values[0][:0] for row in column])


def token_places(inputs: Sequence[TeacherInput], batch: RowBatch) -> torch.Tensor:
    """[P] indices of the attempts' tokens (at least one attempt) among the tokens of the batch."""
    first = batch.lengths.cumsum(0) - batch.lengths  # index of each row's first token
    return torch.cat([torch.arange(len(a.response)) + first[a.row] + a.start for a in inputs])


def teacher_metrics(
    output: TeacherOutput | None, step: StepRows, weights: Mapping[str, float]
) -> dict[str, float]:
    """`rltf/logit_distill/…` of a step; the loss and the divergence come from the workers.

    Args:
        output: the teacher's answer; None: no attempt has a teacher.
        step: the rows.
        weights: `weight`, the objective's coefficient at this step, and further means.
    """
    inputs = output.inputs if output else []
    episodes = {episode_of(step.keys[x.row]) for x in inputs}
    num_tokens = sum(len(x.response) for x in inputs)
    metrics = {
        **weights,
        "session_share": len(episodes) / len(step.batch.episodes.group),
        "token_share": num_tokens / len(step.batch.role),
    }
    if output:
        metrics["teacher_s"] = output.seconds
        metrics["teacher_gap"] = float((output.log_probs - output.student).mean())
        metrics["teacher_gap_abs"] = float(output.gap.abs().mean())
        if output.against is not None:
            metrics["against_gap"] = float((output.against - output.student).mean())
        if output.tail is not None:
            metrics["teacher_tail"] = float(output.tail.exp().mean())
        if output.entropy is not None:
            metrics["teacher_entropy"] = float(output.entropy.mean())
    return {f"rltf/logit_distill/{name}": value for name, value in metrics.items()}
