"""Each gate, and the share of a batch that its gradient rests on, at points worked out by hand."""

import math
from dataclasses import replace

import pytest
import torch

from rltf_verl.algos.gate import GATES, Evidence, residual

TOLD = Evidence(
    gap=torch.tensor([math.log(2), math.log(0.5), math.log(1.1), 0.0]),
    advantage=torch.tensor([0.5, -0.5, -2.0, 0.0]),
    right=torch.tensor([True, False, False, True]),
    solved=torch.tensor([0.5, 0.2, 0.0, 1.0]),
)
BY_HAND = {  # (factor of the advantage, weight of the teacher)
    "route": ([1, 0, 0, 1], [0, 1, 1, 0]),
    # √(p(1 − p)) is 0.5, 0.4, 0 and 0, of mean 0.225
    "variance": ([1, 1, 1, 1], [0.5 / 0.225, 0.4 / 0.225, 0, 0]),
    # e^{sign(A) gap}: 2, 1 / (1/2), 1 / 1.1 and 1, cut to [0.8, 1.2]
    "magnitude": ([1.2, 1.2, 1 / 1.1, 1], [0, 0, 0, 0]),
    # 0.5 tanh(gap / 0.02) is added: ±0.5 to four digits; an advantage of 0 stays 0
    "residual": ([2, 2, 1 - 0.25 * math.tanh(math.log(1.1) / 0.02), 1], [0, 0, 0, 0]),
    # σ(log x) = x / (1 + x)
    "sigmoid": ([1, 1, 1, 1], [2 / 3, 1 / 3, 1.1 / 2.1, 0.5]),
}


@pytest.mark.parametrize("name", GATES)
def test_points_by_hand(name):
    gate, scale = GATES[name]
    factor, weight = gate(TOLD, scale)
    expected = [torch.tensor(values, dtype=torch.float32) for values in BY_HAND[name]]
    torch.testing.assert_close(factor.float(), expected[0])
    torch.testing.assert_close(weight.float(), expected[1])


def test_a_magnitude_never_turns_an_advantage_round_whatever_the_gap():
    gap = torch.tensor([-1e4, -3.0, 0.0, 3.0, 1e4])
    for sign in (-1.0, 1.0):
        advantage = torch.full_like(gap, sign)
        evidence = Evidence(gap, advantage, gap > 0, torch.full_like(gap, 0.5))
        factor, _ = GATES["magnitude"][0](evidence, 0.5)
        assert ((factor >= 0.5) & (factor <= 1.5)).all()
        assert (factor.diff() * sign >= 0).all()


def test_a_residual_is_added_to_the_advantage_whose_sign_the_verdict_has():
    """RLCSD's equation written out, on a grid of gaps and advantages."""
    gap, advantage = (
        grid.reshape(-1)
        for grid in torch.meshgrid(
            torch.tensor([-9.0, -0.01, -1e-4, 0.0, 1e-4, 0.02, 9.0], dtype=torch.float64),
            torch.tensor([-1.5, -0.2, -1e-8, 0.0, 1e-8, 0.2, 1.5], dtype=torch.float64),
            indexing="ij",
        )
    )
    told = Evidence(gap, advantage, advantage > 0, torch.full_like(gap, 0.5))
    factor, weight = residual(told, 0.5)
    columns = gap.tolist(), advantage.tolist(), (factor * advantage).tolist()
    for g, a, new in zip(*columns, strict=True):
        added = 0.5 * math.tanh(g / 0.02)
        raw = a + (added if abs(added) > 0.02 else 0.0)
        kept = max(raw, 0.0) if a > 0 else min(raw, 0.0)
        assert new == pytest.approx(a if abs(a) <= 1e-6 else kept, abs=1e-12), (g, a)
    assert not weight.any()


@pytest.mark.parametrize(
    ("name", "scale", "solved", "weights"),
    [
        ("variance", 0.0, [0.0, 0.0, 1.0, 1.0], [0, 0, 0, 0]),  # no problem is solved in part
        ("sigmoid", 2.0, [0.5] * 4, [4 / 5, 1 / 5, 1.21 / 2.21, 1 / 2]),  # x² / (1 + x²)
    ],
)
def test_weights_of_a_scale_and_where_nothing_is_to_be_divided_by(name, scale, solved, weights):
    told = replace(TOLD, solved=torch.tensor(solved))
    torch.testing.assert_close(GATES[name][0](told, scale)[1], torch.tensor(weights).float())
