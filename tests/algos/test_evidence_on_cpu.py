"""The share of a batch that its gradient rests on."""

import pytest
import torch

from rltf_verl.algos.evidence import evidence


@pytest.mark.parametrize(
    ("pulls", "share"),
    [
        ([2.0, 2.0, 2.0, 2.0], 1.0),
        ([0.0, 0.0, 3.0, 0.0], 0.25),
        ([1.0, 3.0], 0.8),  # 4² / (2 · 10)
        ([0.0, 0.0], 0.0),
        ([], 0.0),
    ],
)
def test_it_is_kishs_effective_sample_size_over_the_number_of_rows(pulls, share):
    assert evidence(torch.tensor(pulls)) == pytest.approx(share)


def test_the_unit_of_advantages_does_not_matter():
    pulls = torch.rand(50, generator=torch.Generator().manual_seed(0))
    assert evidence(pulls) == pytest.approx(evidence(1e-3 * pulls), rel=1e-5)
