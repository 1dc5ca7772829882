"""Rows of a step without padding: the same numbers as padded rows, back in the places they came
from.
"""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta

from rltf_verl.adapters.metrics.roles import role_metrics, sampling_metrics
from rltf_verl.adapters.queue.columns import FACTS, ROLE, SCORED, TURN
from rltf_verl.adapters.queue.step_rows import StepRows
from rltf_verl.adapters.training.step import (
    LIVE,
    StepSettings,
    is_exact,
    needs_scoring,
    row_pulls,
    rows_with_tag,
    target_columns,
)
from rltf_verl.adapters.training.teacher import TeacherInput, TeacherOutput
from rltf_verl.algos.targets import RowTargets
from rltf_verl.config import AttemptConfig, DistillConfig, RLTFConfig
from rltf_verl.objectives import Method
from rltf_verl.types import CONTEXT, Role
from tests.support.methods import ONLY, targets_of
from tests.support.step_queue import StepQueue, facts_of

ATTEMPT, DISTILL = int(Role.ATTEMPT), int(Role.DISTILL)

# Two groups; in the first an episode of two turns and one of one; in between a row that only fills
# the batch up.
KEYS = ["x_a_0_0", "pad_0_0", "x_a_1_0", "x_a_0_1", "x_b_0_0", "x_a_0_2"]
ROLES = [
    [ATTEMPT] * 2,
    [ATTEMPT] * 2,
    [ATTEMPT],
    [DISTILL, CONTEXT, DISTILL],
    [ATTEMPT] * 2,
    [ATTEMPT] * 3,
]
TURNS = [[0, 0], [0, 0], [0], [1, 1, 1], [0, 0], [1, 1, 1]]
OLD = [[-1.0, -2.0], [-1.0, -2.0], [-3.0], [-4.0, -5.0, -6.0], [-0.5, -0.25], [-0.1, -0.2, -0.3]]
REWARDS = {"x_a_0": [0.0, 1.0], "x_a_1": [0.5], "x_b_0": [1.0]}
CONFIG = RLTFConfig(distill=DistillConfig(weight=0.5))


@pytest.fixture
def queue(monkeypatch):
    tags = [
        {"response_len": len(r), "is_padding": k.startswith("pad")}
        for k, r in zip(KEYS, ROLES, strict=True)
    ]
    tags[1]["response_len"] = 1
    episodes = [key.rpartition("_")[0].replace("pad", "x_a") for key in KEYS]
    columns = {
        ROLE: ROLES,
        TURN: TURNS,
        "old_log_probs": OLD,
        "entropy": [[-x for x in row] for row in OLD],
        "rollout_log_probs": [[x - 0.5 for x in row] for row in OLD],
        FACTS: [facts_of(REWARDS[episode]) for episode in episodes],
    }
    return StepQueue(monkeypatch, KVBatchMeta(KEYS, tags, "train"), columns)


METHOD = Method(CONFIG)


def test_rows_are_read_one_after_the_other_without_padding_rows(queue):
    step = StepRows.read(queue.batch)
    assert step.keys == [key for key in KEYS if not key.startswith("pad")]
    assert step.batch.episodes.rewards.tolist() == [[0.0, 1.0], [0.5, 0.0], [1.0, 0.0]]
    assert step.batch.episodes.group.tolist() == [0, 0, 1]
    for values, column in ((step.batch.role, ROLES), (step.batch.turn, TURNS)):
        assert [row.tolist() for row in step.batch.by_row(values)] == [column[i] for i in step.at]
    episodes = [row.unique().tolist() for row in step.batch.by_row(step.batch.episode)]
    assert episodes == [[0], [1], [0], [2], [0]]


def test_columns_in_bfloat16_become_float32_before_any_sum(queue):
    """What a GPU run in bfloat16 sends, by the functions that the trainer calls."""
    for name in ("old_log_probs", "rollout_log_probs", "entropy"):
        queue.dtypes[name] = torch.bfloat16
    step, weights = StepRows.read(queue.batch), METHOD.weights(ONLY)
    assert step.batch.old_log_probs.dtype == step.entropy.dtype == torch.float32
    targets = targets_of(step.batch, CONFIG)
    metrics = role_metrics(METHOD.token_owners, step.batch, targets, weights)
    metrics |= sampling_metrics(step.batch, step.entropy)
    assert all(math.isfinite(value) for value in metrics.values())
    step.write({"advantages": targets.advantages})
    assert queue.written[0]["advantages"].dtype == torch.float32


@pytest.mark.parametrize(("most", "distance"), [(8, 1), (4, 2)])
def test_metrics_of_sampling_leave_out_what_nobody_sampled(queue, monkeypatch, most, distance):
    """Of many tokens some are compared, at a fixed distance."""
    step = StepRows.read(queue.batch)
    sampled = torch.tensor([x for n in (0, 2, 4, 5) for x in OLD[n]])
    monkeypatch.setattr("rltf_verl.adapters.metrics.roles.MOST_COMPARED", most)
    metrics = sampling_metrics(step.batch, step.entropy)
    difference = (sampled.exp() - (sampled - 0.5).exp())[::distance]
    assert metrics["training/rollout_probs_diff_max"] == pytest.approx(float(difference.max()))
    assert metrics["training/rollout_probs_diff_mean"] == pytest.approx(float(difference.mean()))
    assert metrics["actor/entropy"] == pytest.approx(float(-sampled.mean()))


def test_without_the_actors_pass_the_samplers_log_probs_are_the_old_ones(queue):
    scored, step = StepRows.read(queue.batch), StepRows.read(queue.batch, scored=False)
    columns = target_columns(step.batch, targets_of(step.batch, CONFIG))
    assert columns["old_log_probs"].tolist() == scored.batch.sampler_log_probs.tolist()
    assert sampling_metrics(step.batch, step.entropy) == {
        "actor/entropy": pytest.approx(
            sampling_metrics(scored.batch, scored.entropy)["actor/entropy"] + 0.5
        )
    }


def test_rows_that_the_actor_has_not_scored_have_the_samplers_log_probs(queue):
    whole = StepRows.read(queue.batch)
    for i in (0, 4):
        queue.batch.tags[i][SCORED] = False
        for name in ("old_log_probs", "entropy"):  # nothing reads them
            queue.columns[name] = [
                x if n != i else x[:0] for n, x in enumerate(queue.columns[name])
            ]
    step = StepRows.read(queue.batch)
    known = torch.tensor([False] * 2 + [True] * 4 + [False] * 2 + [True] * 3)
    old = torch.where(known, whole.batch.old_log_probs, whole.batch.sampler_log_probs)
    assert step.batch.old_log_probs.tolist() == old.tolist()
    assert step.entropy.tolist() == (-old).tolist()
    metrics = sampling_metrics(step.batch, step.entropy)
    sampled = torch.tensor([x for n in (2, 5) for x in OLD[n]])
    difference = sampled.exp() - (sampled - 0.5).exp()
    assert metrics["training/rollout_probs_diff_mean"] == pytest.approx(float(difference.mean()))
    targets = targets_of(step.batch, CONFIG)
    assert target_columns(step.batch, targets)["old_log_probs"].tolist() == old.tolist()


@pytest.mark.parametrize(
    ("attempt", "needed"),
    [
        ({}, [True, True, True, False, False]),  # alone in its group and turn: no advantage
        ({"weight": 0.0}, [False, False, True, False, False]),  # the distilled answer's row
    ],
)
def test_the_actor_scores_what_has_an_advantage_or_was_not_sampled_there(queue, attempt, needed):
    config = replace(CONFIG, attempt=AttemptConfig(**attempt))
    settings = StepSettings(Method(config), OmegaConf.create(), ONLY)
    assert (
        needs_scoring(StepRows.read(queue.batch, scored=False).batch, settings).tolist() == needed
    )


def test_log_probs_are_exact_up_to_rounding(queue):
    scored = StepRows.read(queue.batch).batch
    assert not is_exact(scored)
    for gap, exact in ((1e-5, True), (1e-3, False), (float("nan"), False)):
        assert is_exact(replace(scored, sampler_log_probs=scored.old_log_probs + gap)) is exact


def test_what_is_written_stands_where_it_was_read_and_padding_rows_get_zeros(queue):
    step = StepRows.read(queue.batch)
    step.write({"advantages": step.batch.old_log_probs})
    values = [row.tolist() for row in queue.written[0]["advantages"].unbind()]
    assert values == [pytest.approx(row) for row in [OLD[0], [0.0], *OLD[2:]]]
    tags = queue.batch.tags
    kept = KVBatchMeta([KEYS[0], KEYS[2]], [tags[0], tags[2]], "train")  # without padding rows
    StepRows.read(kept).write({"x": torch.tensor([1.0, 2.0, 3.0])})
    assert [row.tolist() for row in queue.written[1]["x"].unbind()] == [[1.0, 2.0], [3.0]]


def test_the_update_needs_rows_with_an_advantage_or_a_teacher(queue):
    step = StepRows.read(queue.batch)
    rows = step.batch.by_row(torch.zeros_like(step.batch.old_log_probs))
    rows[2][-1] = -0.5
    zeros = torch.zeros_like(step.batch.old_log_probs)
    targets = RowTargets(torch.cat(rows), step.batch.old_log_probs, zeros.bool())
    inputs = [
        TeacherInput(row, 0, torch.tensor([1]), torch.ones(2, dtype=torch.int64), torch.zeros(2))
        for row in (0, 3)
    ]
    output = TeacherOutput(inputs, torch.zeros(4))
    none, weights = torch.zeros(0), torch.tensor([0.0, 0.0, 0.0, 1.0])
    live = (row_pulls(step.batch, targets, None, none) != 0).tolist()
    assert live == [False, False, True, False, False]
    assert row_pulls(step.batch, targets, output, weights).tolist() == [0.0, 0.0, 0.5, 1.0, 0.0]


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 9)), min_size=1, max_size=6),
    st.integers(1, 4),
)
def test_an_update_has_all_live_rows_and_the_shortest_others_that_fill_it_up(rows, multiple):
    tags = [{LIVE: live, "seq_len": length} for live, length in rows] * multiple
    batch = KVBatchMeta([str(i) for i in range(len(tags))], tags, "train", extra_info={"a": 1})
    chosen = rows_with_tag(LIVE, batch, multiple)
    live = [key for key, tag in zip(batch.keys, tags, strict=True) if tag[LIVE]]
    fill = [tag["seq_len"] for tag in chosen.tags if not tag[LIVE]]
    left_out = [tags[int(key)]["seq_len"] for key in batch.keys if key not in chosen.keys]
    assert len(chosen) == max(multiple, -(-len(live) // multiple) * multiple)
    assert [key for key in chosen.keys if tags[int(key)][LIVE]] == live
    assert max(fill, default=0) <= min(left_out, default=9)
    assert (chosen.partition_id, chosen.extra_info) == ("train", {"a": 1})
