"""Dry run of a user's objectives before a run: every call on a batch. Their rows need an episode
(`adapters.startup.user_code`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from rltf_verl.algos.targets import RowBatch
from rltf_verl.findings import Finding
from rltf_verl.objectives.base import Now, Objective
from rltf_verl.objectives.method import Method
from rltf_verl.objectives.targets import compute_targets
from rltf_verl.objectives.user_code import dry_run, example_episodes
from rltf_verl.types import CONTEXT


def own_failures(method: Method, group_size: int) -> Iterator[Finding]:
    """A refusal for each objective of a user that fails on a made-up batch.

    Args:
        method: the objectives.
        group_size: episodes of a problem.
    """
    for each in method.user_objectives:
        yield from dry_run(partial(_try, each, method, group_size))


def _try(objective: Objective[Any], method: Method, group_size: int) -> None:
    """Raises ConfigError."""
    now, batch = Now(0, 1), _batch(objective, group_size)
    objective.weight(now)
    targets = compute_targets(batch, method, {objective.name: 1.0})
    tokens, shape = batch.tokens(objective.role), (len(batch.lengths), -1)
    log_prob = batch.old_log_probs.view(shape).clone().requires_grad_()
    reference, weights = targets.ref_log_probs.view(shape), targets.advantages.view(shape)
    objective.loss(log_prob, reference, weights, tokens.view(shape))
    objective.metrics(batch, targets, tokens.nonzero().squeeze(1))
    objective.batch_metrics(batch)
    objective.trained_episodes(batch.episodes)


def _batch(objective: Objective[Any], group_size: int) -> RowBatch:
    """A row for each episode: at each turn a token of the objective and one of context."""
    episodes = example_episodes(objective.config, group_size)
    size, num_turns = episodes.valid.shape
    last = episodes.valid.sum(1, keepdim=True) - 1
    # [S, M], flattened to [2 S M]: each turn twice. A shorter episode repeats its last turn, so
    # that all rows have one length and the batch can be viewed as a rectangle.
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
