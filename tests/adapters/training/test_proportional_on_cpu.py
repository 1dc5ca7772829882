"""A step whose rate follows its evidence, on a plain optimiser."""

import math

import pytest
import torch
import verl.trainer.ppo.v1  # noqa: F401  # registers our trainers, which extend its classes

from rltf_verl.adapters.training.proportional import ProportionalWorker

RATE = 0.5


class Engine:
    """An optimiser, and what verl's engines do with it."""

    def __init__(self):
        self.weight = torch.nn.Parameter(torch.zeros(64))
        self.optimizer = torch.optim.SGD([self.weight], lr=RATE)
        self.fails = False

    def initialize(self):
        pass

    def optimizer_step(self):
        self.weight.grad = torch.ones(64)
        if self.fails:
            raise RuntimeError("in the step")
        self.optimizer.step()
        return 8.0


def worker():
    made = object.__new__(ProportionalWorker)
    made.engine = Engine()
    made.reset()
    return made


@pytest.mark.parametrize(("evidence", "step"), [(1.0, RATE), (0.25, RATE / 2), (0.0, 0.0)])
def test_the_rate_follows_the_root_of_the_evidence_for_one_step(evidence, step):
    made = worker()
    made._evidence = evidence
    assert made.engine.optimizer_step() == 8.0
    torch.testing.assert_close(made.engine.weight.detach(), torch.full((64,), -step))
    assert made._moved == pytest.approx(8 * step)  # √64 weights that moved alike
    assert made.engine.optimizer.param_groups[0]["lr"] == RATE


def test_the_gradients_norm_is_compared_with_those_before():
    made = worker()
    ratios = []
    for norm in (2.0, math.inf, 4.0, 2.2):  # verl leaves the second update out
        made._compare(norm)
        ratios.append(made._norm_ratio)
    assert ratios == pytest.approx([1.0, math.inf, 2.0, 1.0])


def test_a_step_that_fails_leaves_the_rate():
    made = worker()
    made._evidence, made.engine.fails = 0.25, True
    with pytest.raises(RuntimeError, match="in the step"):
        made.engine.optimizer_step()
    assert made.engine.optimizer.param_groups[0]["lr"] == RATE
