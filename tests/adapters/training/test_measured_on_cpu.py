"""A step that is measured, on a plain optimiser."""

import math

import pytest
import torch
import verl.trainer.ppo.v1  # noqa: F401  # registers our trainers, which extend its classes

from rltf_verl.adapters.training.measured import MeasuringWorker

RATE = 0.5


class Engine:
    """An optimiser, and what verl's engines do with it."""

    def __init__(self):
        self.weight = torch.nn.Parameter(torch.zeros(64))
        self.optimizer = torch.optim.SGD([self.weight], lr=RATE)

    def initialize(self):
        pass

    def optimizer_step(self):
        self.weight.grad = torch.ones(64)
        self.optimizer.step()
        return 8.0


def worker():
    made = object.__new__(MeasuringWorker)
    made.engine = Engine()
    made.reset()
    return made


def test_a_step_is_as_long_as_the_weights_moved_and_the_rate_is_the_users():
    made = worker()
    assert made.engine.optimizer_step() == 8.0
    torch.testing.assert_close(made.engine.weight.detach(), torch.full((64,), -RATE))
    assert made._moved == pytest.approx(8 * RATE)  # √64 weights that moved alike


def test_the_gradients_norm_is_compared_with_those_before():
    made = worker()
    ratios = []
    for norm in (2.0, math.inf, 4.0, 2.2):  # verl leaves the second update out
        made._compare(norm)
        ratios.append(made._norm_ratio)
    assert ratios == pytest.approx([1.0, math.inf, 2.0, 1.0])
