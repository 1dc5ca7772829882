"""From rows to what the loss sees: advantages and reference log-probs, for every role of the batch at once.

This is the code path of training *and* of `rltf parity`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from rltf_verl.algos.distill import Baseline, distill_advantages, floor_mask
from rltf_verl.algos.returns import center_by_group_and_turn, discounted_returns
from rltf_verl.algos.shapes import require_shape
from rltf_verl.types import Role

Reference = Literal["current", "old", "sampler"]
"""π_ref of a distillation row: the policy as it is being trained (ratio 1, AWR) or as it was before the update, both
given the first prompt, or the sampler given the prompt with the feedback."""


@dataclass(frozen=True)
class RowBatch:
    """N rows of S sessions, padded to T tokens. Padding rows of the trainer are not in here."""

    role: torch.Tensor
    """[N] int64, `Role`."""
    session: torch.Tensor
    """[N] int64, 0..S−1."""
    group: torch.Tensor
    """[S] int64, 0..G−1."""
    turn: torch.Tensor
    """[N, T] int64, 0-based turn that each token is credited with."""
    mask: torch.Tensor
    """[N, T] bool, True on the policy's own tokens."""
    rewards: torch.Tensor
    """[N, T] reward of turn k on its last token."""
    old_log_probs: torch.Tensor
    """[N, T] log π_old of the row's tokens under the *row's* prompt."""
    sampler_log_probs: torch.Tensor
    """[N, T] the sampler's log-probs under the prompt that the tokens were sampled from."""

    def __post_init__(self) -> None:
        n, t = self.mask.shape
        require_shape(role=(self.role, (n,)), session=(self.session, (n,)), turn=(self.turn, (n, t)))
        require_shape(rewards=(self.rewards, (n, t)), old_log_probs=(self.old_log_probs, (n, t)))
        require_shape(sampler_log_probs=(self.sampler_log_probs, (n, t)))

    def has_role(self, role: Role) -> torch.Tensor:
        """[N] bool: rows of this role."""
        return self.role == int(role)


@dataclass(frozen=True)
class TurnTable:
    """The sessions as they were played, rebuilt from their attempt rows."""

    rewards: torch.Tensor
    """[S, K] r_{s,k}, 0 where not valid."""
    valid: torch.Tensor
    """[S, K] bool: session s played turn k."""
    group: torch.Tensor
    """[S] int64."""


@dataclass(frozen=True)
class RowTargets:
    """What the loss is given beside the log-probs."""

    advantages: torch.Tensor
    """[N, T] float32, the objective's weight folded in, 0 outside the mask."""
    ref_log_probs: torch.Tensor
    """[N, T] the denominator of the ratio (not read for reference `current`)."""
    floor_masked: torch.Tensor
    """[N, T] bool: tokens of distillation rows below the log-prob floor."""


def turn_table(batch: RowBatch) -> TurnTable:
    """Read the turns back from the attempt rows (merged rows hold several turns; other roles play no turn)."""
    num_sessions, num_turns = batch.group.shape[0], int(batch.turn.max()) + 1
    played = batch.mask & batch.has_role(Role.ATTEMPT).unsqueeze(1)
    cell = (batch.session.unsqueeze(1) * num_turns + batch.turn)[played]
    flat = torch.zeros(num_sessions * num_turns, dtype=torch.float64)
    rewards = flat.clone().index_add_(0, cell, batch.rewards[played].double()).float()
    valid = flat.index_add_(0, cell, torch.ones_like(cell, dtype=torch.float64)) > 0
    return TurnTable(rewards.view(num_sessions, -1), valid.view(num_sessions, -1), batch.group)


def compute_targets(
    batch: RowBatch,
    *,
    gamma: float,
    distill_weight: float,
    baseline: Baseline = "first_turn",
    reference: Reference = "current",
    log_prob_floor: float | None = -5.0,
) -> RowTargets:
    """Advantages of every row (paper Algorithm 1: g_RL + g_SD).

    attempt, critique: A_{s,k} on the tokens of turn k (`center_by_group_and_turn`).
    distill: weight · a_s · m_t (`distill_advantages`, `floor_mask`).

    Args:
        batch: the rows.
        gamma: discount per turn.
        distill_weight: coefficient of the distillation rows at this step.
        baseline: of the distillation advantage.
        reference: π_ref of the distillation rows.
        log_prob_floor: distillation tokens with log π_old below it get advantage 0; None keeps all.

    Returns:
        RowTargets, [N, T] each.
    """
    table = turn_table(batch)
    returns = discounted_returns(table.rewards, table.valid, gamma)
    by_turn = center_by_group_and_turn(returns, table.valid, table.group)
    advantages = by_turn[batch.session.unsqueeze(1), batch.turn]

    distill = batch.has_role(Role.DISTILL).unsqueeze(1)
    per_session = distill_advantages(table.rewards, returns, table.valid, table.group, baseline)
    below_floor = distill & batch.mask & ~floor_mask(batch.old_log_probs, log_prob_floor)
    distilled = distill_weight * per_session[batch.session].unsqueeze(1) * ~below_floor
    advantages = torch.where(distill, distilled, advantages) * batch.mask

    ref_log_probs = batch.old_log_probs
    if reference == "sampler":
        ref_log_probs = torch.where(distill, batch.sampler_log_probs, ref_log_probs)
    return RowTargets(advantages.float(), ref_log_probs, below_floor)
