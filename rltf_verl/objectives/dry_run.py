"""A user's own objectives, tried before a run: all that a batch asks of them but their rows, which
take an episode (`adapters.startup.own`).
"""

from __future__ import annotations

from typing import Any

import torch

from rltf_verl.algos.targets import RowBatch
from rltf_verl.config import ConfigError, RLTFConfig
from rltf_verl.objectives import own_objectives
from rltf_verl.objectives.base import Now, Objective
from rltf_verl.objectives.own import MADE_UP, made_up
from rltf_verl.objectives.targets import compute_targets
from rltf_verl.types import CONTEXT


def own_failures(config: RLTFConfig, group_size: int) -> list[str]:
    """A line for each own objective that fails on a batch that is made up.

    Args:
        config: the objectives.
        group_size: episodes of a problem.
    """
    failures = (_failure(objective, group_size) for objective in own_objectives(config))
    return [failure for failure in failures if failure is not None]


def _failure(objective: Objective[Any], group_size: int) -> str | None:
    try:
        _try(objective, group_size)
    except ConfigError as error:
        return f"{error} {MADE_UP}"
    return None


def _try(objective: Objective[Any], group_size: int) -> None:
    """Raises ConfigError."""
    now, batch = Now(0, 1), _batch(objective, group_size)
    objective.weight(now)
    targets = compute_targets(batch, objective.config, {objective.name: 1.0})
    tokens, shape = batch.tokens(objective.role), (len(batch.lengths), -1)
    log_prob = batch.old_log_probs.view(shape).clone().requires_grad_()
    reference, weights = targets.ref_log_probs.view(shape), targets.advantages.view(shape)
    objective.loss(log_prob, reference, weights, tokens.view(shape))
    if objective.share(now) is not None:
        objective.gradient_mass(batch, targets, None)
    objective.metrics(batch, targets, tokens.nonzero().squeeze(1))
    objective.trained_episodes(batch.episodes)


def _batch(objective: Objective[Any], group_size: int) -> RowBatch:
    """A row for each episode, with a token of the objective's and one of nobody's at each turn."""
    episodes = made_up(objective.config, group_size)
    size, num_turns = episodes.valid.shape
    last = episodes.valid.sum(1, keepdim=True) - 1
    turn = torch.arange(num_turns).minimum(last).repeat_interleave(2)
    log_probs = -torch.linspace(0.1, 3.0, len(turn))
    return RowBatch(
        role=torch.tensor([objective.role, CONTEXT]).repeat(size * num_turns),
        turn=turn,
        episode=torch.arange(size).repeat_interleave(2 * num_turns),
        lengths=torch.full((size,), 2 * num_turns),
        episodes=episodes,
        old_log_probs=log_probs,
        sampler_log_probs=log_probs,
    )
