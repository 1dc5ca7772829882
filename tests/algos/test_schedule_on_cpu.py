"""The coefficient's ramp is a pure function of the step."""

import pytest

from rltf_verl.algos.schedule import scheduled_weight
from rltf_verl.config import (
    AttemptConfig,
    CritiqueConfig,
    DistillConfig,
    FeedbackModelingConfig,
    ImitateConfig,
    RLTFConfig,
    ScheduleConfig,
)
from rltf_verl.objectives import Method
from rltf_verl.objectives.base import Now
from rltf_verl.types import Role

RAMP = (0.0, 0.1)


@pytest.mark.parametrize(
    ("weight", "step", "num_steps", "start", "expected"),
    [
        # `rl_coef_schedule` of the release's numbers
        (0.1, 5, 100, 0, 0.1),
        (RAMP, 272, 544, 0, 0.05009208103130756),
        (RAMP, 100, 544, 50, 0.010141987829614604),
        # ends, clamping, downward ramps
        (RAMP, 0, 11, 0, 0.0),
        (RAMP, 5, 11, 0, 0.05),
        (RAMP, 10, 11, 0, 0.1),
        (RAMP, 500, 11, 0, 0.1),
        ((0.4, 0.2), 5, 11, 0, 0.3),
        ((0.4, 0.2), 0, 1, 0, 0.4),  # one step: nothing to divide by
        # before the start
        (0.1, 2, 100, 3, 0.0),
        (0.1, 3, 100, 3, 0.1),
        ((0.4, 0.2), 2, 100, 3, 0.0),
        ((0.4, 0.2), 3, 100, 3, 0.4),
    ],
)
def test_weight_at_a_step(weight, step, num_steps, start, expected):
    assert scheduled_weight(weight, step, num_steps, start) == pytest.approx(expected, abs=1e-15)


OBJECTIVES = {
    Role.DISTILL: ("distill", DistillConfig),
    Role.FEEDBACK_MODELING: ("feedback_modeling", FeedbackModelingConfig),
    Role.IMITATE: ("imitate", ImitateConfig),
    Role.CRITIQUE: ("critique", CritiqueConfig),
}
NUM = 20


def ramps(role, steps, resumed_at=0, weight=RAMP, **schedule):
    """The role's coefficient at these steps of a process that started at `resumed_at`."""
    block, kind = OBJECTIVES[role]
    config = RLTFConfig(schedule=ScheduleConfig(**schedule), **{block: kind(weight=weight)})
    method = Method(config)
    return [method.weights(Now(k, NUM, resumed_at))[block] for k in steps]


def test_every_role_has_its_own_coefficient():
    config = RLTFConfig(
        attempt=AttemptConfig(weight=0.5),
        schedule=ScheduleConfig(start_step=4),
        distill=DistillConfig(weight=0.1),
        feedback_modeling=FeedbackModelingConfig(weight=(0.0, 0.2)),
        imitate=ImitateConfig(weight=0.3),
        critique=CritiqueConfig(weight=2.0),
    )
    expected = {
        "attempt": 0.5,
        "distill": 0.0,
        "feedback_modeling": 0.0,
        "imitate": 0.0,
        "critique": 0.0,
        "logit_distill": 0.0,
    }
    assert Method(config).weights(Now(3, 11)) == expected
    later = {"distill": 0.1, "feedback_modeling": pytest.approx(0.1), "imitate": 0.3, "critique": 2}
    assert Method(config).weights(Now(7, 11)) == {**expected, **later}


@pytest.mark.parametrize("role", OBJECTIVES)
def test_a_ramp_runs_from_its_start_to_its_end(role):
    whole = ramps(role, range(NUM), start_step=4, ramp_steps=15)
    assert whole[:5] == [0.0] * 5
    assert whole[14:] == pytest.approx([0.1] * 6)
    assert whole[4:15] == pytest.approx([0.01 * k for k in range(11)])
    assert ramps(role, [NUM - 1]) == pytest.approx([0.1])  # without an end of its own: the run's


@pytest.mark.parametrize("role", OBJECTIVES)
def test_a_ramp_that_restarts_on_resume_is_the_releases(role):
    """p = (k − k₀)/(K − k₀ − 1) from the step of the resume; a constant knows no restart; nor does
    a first start.
    """
    restarted = ramps(role, range(10, NUM), 10, restart_on_resume=True)
    assert restarted == pytest.approx([0.1 * k / 9 for k in range(10)])
    assert ramps(role, range(2, 6), 2, restart_on_resume=True, start_step=4) == ramps(
        role, range(2, 6), start_step=4
    )
    assert ramps(role, [10], 10, restart_on_resume=True, weight=0.1) == [0.1]
    assert ramps(role, range(NUM), 0, restart_on_resume=True) == ramps(role, range(NUM))
