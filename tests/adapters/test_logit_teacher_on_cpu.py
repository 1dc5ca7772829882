"""Logit distillation around the engine: what is refused, who has a teacher, which logits predict
which token.
"""

import dataclasses
import re

import pytest
import torch
from tensordict import TensorDict

from rltf_verl.adapters.queue.columns import (
    TEACHERS,
    ragged,
    row_columns,
    teacher_column,
    teacher_spans,
)
from rltf_verl.adapters.startup import checks
from rltf_verl.adapters.training.logit_loss import (
    TEACHER_CALL,
    response_positions,
    whole_responses,
)
from rltf_verl.adapters.training.teacher import Lesson, by_row, teacher_batch
from rltf_verl.config import ConfigError, LogitDistillConfig
from rltf_verl.types import Row, TeacherSpan
from tests.support.configs import composed

ACTOR = "actor_rollout_ref.actor"
SD_LOGIT = ("rltf/method=sd_logit", "actor_rollout_ref.model.path=/nowhere")


def logit(*overrides):
    return composed("rltf", *SD_LOGIT, *overrides)


def test_the_preset_is_multi_turn_grpo_and_the_defaults():
    config = checks.check_config(logit())
    assert config.logit_distill == dataclasses.replace(LogitDistillConfig(), weight=1.0)
    assert (config.attempt.weight, config.distill.enabled, config.episode.horizon) == (
        1.0,
        False,
        2,
    )
    assert checks.check_config(logit("rltf.attempt.weight=0")).attempt.weight == 0
    for place in ("rltf.episode.context=append", "rltf.episode.horizon=1"):
        checks.check_config(logit(place))


REFUSED = {  # what is set, and how the message starts
    "a sibling alone": (
        ["rltf.teacher.reads=sibling", "actor_rollout_ref.rollout.n=1"],
        "actor_rollout_ref.rollout.n=1: rltf.teacher.reads=sibling needs other sessions of the",
    ),
    "divergence": (
        ["rltf.logit_distill.divergence=kl"],
        "rltf.logit_distill.divergence=kl: must be one of forward_kl",
    ),
    "beta": (
        ["rltf.logit_distill.beta=1"],
        "rltf.logit_distill.beta=1: must lie strictly between 0 and 1",
    ),
    "top_k": (["rltf.logit_distill.top_k=0"], "rltf.logit_distill.top_k=0: must be at least 1"),
    "megatron": (
        ["model_engine=megatron"],
        f"{ACTOR}.strategy=megatron: rltf.logit_distill reads logits ",
    ),
    "veomni": (
        ["model_engine=veomni"],
        f"{ACTOR}.strategy=veomni: rltf.logit_distill reads logits ",
    ),
    "fused": (
        ["actor_rollout_ref.model.use_fused_kernels=true"],
        "actor_rollout_ref.model.use_fused_kernels=True: ",
    ),
    "sequence parallel": (
        [f"{ACTOR}.ulysses_sequence_parallel_size=2"],
        f"{ACTOR}.ulysses_sequence_parallel_size=2: ",
    ),
    "static shapes": (
        [f"{ACTOR}.fsdp_config.pad_to_length=true"],
        f"{ACTOR}.pad_to_length=True: verl refuses it ",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_with_key_value_and_fix(case):
    overrides, message = REFUSED[case]
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        checks.check_config(logit(*overrides))


@pytest.mark.parametrize("case", ["megatron", "fused", "sequence parallel", "static shapes"])
def test_without_the_objective_it_is_not_refused(case):
    checks.check_config(logit(*REFUSED[case][0], "rltf.logit_distill.weight=0"))


def test_a_rows_teachers_come_through_the_queue_as_they_were():
    spans = [TeacherSpan(2, 5, (7, 8, 9)), TeacherSpan(9, 10, (4,))]
    assert teacher_spans(teacher_column(spans)) == spans
    assert teacher_spans(teacher_column([])) == []
    row = Row((1,), (2,), (0,), (0,), None, (0.0,))
    assert TEACHERS not in row_columns(row, torch.zeros(1, 1)), "without a teacher no column"


def test_what_is_said_of_several_attempts_of_a_row_stands_in_one_line_of_the_column():
    some = torch.zeros(1)
    lessons = [Lesson(1, 0, some, some, some), Lesson(1, 4, some, some, some)]
    values = [torch.tensor([1, 2]), torch.tensor([3]), torch.tensor([9])]  # the last one fills up
    assert [row.tolist() for row in by_row(values, lessons, 3).unbind()] == [[], [1, 2, 3], []]


def test_the_teachers_rows_are_revise_prompt_and_first_attempt_filled_up_with_the_shortest():
    ids = lambda start, n: torch.arange(start, start + n)  # noqa: E731
    lessons = [
        Lesson(0, 0, ids(10, 4), ids(50, 3), torch.zeros(3)),
        Lesson(2, 5, ids(20, 1), ids(60, 2), torch.zeros(2)),
    ]
    batch = teacher_batch(lessons, multiple=4, temperature=0.7)
    rows = [[10, 11, 12, 13, 50, 51, 52], [20, 60, 61], [20, 60, 61], [20, 60, 61]]
    assert [row.tolist() for row in batch["input_ids"].unbind()] == rows
    assert [row.tolist() for row in batch["position_ids"].unbind()] == [
        list(range(len(row))) for row in rows
    ]
    assert [len(row) for row in batch["responses"].unbind()] == [3, 2, 2, 2]
    assert batch[TEACHER_CALL] is True
    assert batch["temperature"] == 0.7


def test_the_logits_that_predict_a_token_stand_one_place_before_it():
    """Tokens are numbered by their place in the packed micro-batch."""
    lengths = [(3, 2), (2, 4), (5, 1)]
    whole, start = [], 0
    for prompt, response in lengths:
        whole.append(torch.arange(start, start + prompt + response))
        start += prompt + response
    fields = {
        "input_ids": ragged(whole),
        "responses": ragged([ids[p:] for ids, (p, _) in zip(whole, lengths, strict=True)]),
    }
    data = TensorDict(fields, batch_size=3)
    every = response_positions(data, whole_responses(data))
    assert (every + 1).tolist() == data["responses"].values().tolist()
    places = ragged([torch.tensor(at, dtype=torch.int32) for at in ([], [1, 3], [0])])
    expected = [whole[1][3], whole[1][5], whole[2][5]]
    assert (response_positions(data, places) + 1).tolist() == expected
