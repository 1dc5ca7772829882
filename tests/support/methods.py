"""What training makes of a config: an objective, and the targets of a run's first and only step."""

from typing import Any

from rltf_verl.algos.targets import RowBatch, RowTargets
from rltf_verl.config import RLTFConfig
from rltf_verl.objectives import Method, Objective
from rltf_verl.objectives.base import Now
from rltf_verl.objectives.targets import compute_targets

ONLY = Now(0, 1)


def objective_of(config: RLTFConfig, name: str) -> Objective[Any]:
    """The objective of that name."""
    (own,) = [own for own in Method(config).objectives if own.name == name]
    return own


def targets_of(batch: RowBatch, config: RLTFConfig) -> RowTargets:
    """With the weights of the config."""
    method = Method(config)
    return compute_targets(batch, method, method.weights(ONLY))
