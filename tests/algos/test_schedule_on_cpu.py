"""The coefficient's ramp is a pure function of the step."""

import inspect
import itertools

import pytest

from rltf_verl.algos.schedule import scheduled_weight

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


def test_a_resumed_run_continues_the_ramp():
    """The release restarts it; here nothing but the step enters, so where the run was cut cannot matter."""
    whole = [scheduled_weight(RAMP, k, 20) for k in range(20)]
    resumed = [scheduled_weight(RAMP, k, 20) for k in [*range(12, 20), *range(12)]]
    assert resumed == [*whole[12:], *whole[:12]]
    assert all(a < b for a, b in itertools.pairwise(whole))
    assert list(inspect.signature(scheduled_weight).parameters) == ["weight", "step", "num_steps", "start_step"]
