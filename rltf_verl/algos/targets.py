"""From rows to what the loss sees: advantages and reference log-probs, for every role of the batch
at once.

This is the code path of training *and* of `rltf parity`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce

import torch

from rltf_verl.algos.advantages import turn_advantages
from rltf_verl.algos.distill import distill_advantages, floor_mask, soft_floor
from rltf_verl.algos.returns import discounted_returns
from rltf_verl.algos.schedule import scheduled_weight
from rltf_verl.algos.sessions import Sessions, by_graded_rewards
from rltf_verl.algos.shapes import require_shape
from rltf_verl.config import RLTFConfig, Scheduled
from rltf_verl.types import SAMPLED, Role

ROUNDING = 1e-6
"""Advantages of equal rewards need not be exactly 0."""

STALE_ROLES = (Role.DISTILL, Role.FEEDBACK)
"""Roles that `RLTFConfig.max_staleness` is about."""

BLOCK = 1 << 16
"""Tokens that are looked up at a time."""


@dataclass(frozen=True)
class RowBatch:
    """N rows of S sessions, padded to T tokens. Padding rows of the trainer are not in here."""

    role: torch.Tensor
    """[N, T] integers: `Role` of each token, CONTEXT where it trains nothing."""
    turn: torch.Tensor
    """[N, T] integers: turn of the session that each token is credited with."""
    session: torch.Tensor
    """[N] integers, 0..S−1."""
    sessions: Sessions
    """The S sessions."""
    old_log_probs: torch.Tensor
    """[N, T] log π_old of the row's tokens under the *row's* prompt."""
    sampler_log_probs: torch.Tensor
    """[N, T] the sampler's log-probs under the prompt that the tokens were sampled from."""

    def __post_init__(self) -> None:
        shape = tuple(self.role.shape)
        require_shape(turn=(self.turn, shape), session=(self.session, shape[:1]))
        require_shape(
            old_log_probs=(self.old_log_probs, shape),
            sampler_log_probs=(self.sampler_log_probs, shape),
        )

    def tokens(self, *roles: Role) -> torch.Tensor:
        """[N, T] bool: tokens of these roles."""
        return has_role(self.role, *roles)


@dataclass(frozen=True)
class RowTargets:
    """What the loss is given beside the log-probs."""

    advantages: torch.Tensor
    """[N, T] float32, the objective's weight folded in, 0 on context."""
    ref_log_probs: torch.Tensor
    """[N, T] the denominator of the ratio (not read for reference `current`)."""
    floor_masked: torch.Tensor
    """[N, T] bool: tokens of distillation rows below the log-prob floor, whatever it makes of
    them.
    """


def has_role(role: torch.Tensor, *roles: Role) -> torch.Tensor:
    """[N, T] bool: which of the tokens have one of the roles."""
    return reduce(torch.logical_or, [role == int(r) for r in roles])


def objective_weight(objective: Scheduled, step: int, num_steps: int, resumed_at: int = 0) -> float:
    """The coefficient of an objective at a step.

    Args:
        objective: weight and ramp.
        step: 0-based training step.
        num_steps: steps of the whole run, where ramps without an end of their own end.
        resumed_at: the step from which this process goes on; read by ramps that restart on resume.
    """
    start = max(objective.start_step, resumed_at if objective.restart_on_resume else 0)
    return scheduled_weight(objective.weight, step, objective.ramp_steps or num_steps, start)


def role_shares(
    config: RLTFConfig, step: int, num_steps: int, resumed_at: int = 0
) -> dict[Role, float]:
    """The share of the gradient of each role that has one (`Shareable.grad_share`); arguments as
    `objective_weight`.
    """
    objectives = {
        Role.DISTILL: config.distill,
        Role.CRITIQUE: config.critique,
        Role.FEEDBACK: config.feedback_modeling,
        Role.IMITATE: config.imitate,
    }
    return {
        role: objective_weight(replace(own, weight=own.grad_share), step, num_steps, resumed_at)
        for role, own in objectives.items()
        if own.grad_share is not None
    }


def role_weights(
    config: RLTFConfig, step: int, num_steps: int, resumed_at: int = 0
) -> dict[Role, float]:
    """The coefficient of every role at a step; arguments as `objective_weight`."""

    def at(objective: Scheduled) -> float:
        return objective_weight(objective, step, num_steps, resumed_at)

    return {
        Role.ATTEMPT: config.attempt.weight,
        Role.DISTILL: at(config.distill),
        Role.CRITIQUE: at(config.critique),
        Role.FEEDBACK: at(config.feedback_modeling),
        Role.IMITATE: at(config.imitate),
    }


def compute_targets(
    batch: RowBatch,
    config: RLTFConfig,
    weights: Mapping[Role, float],
    stale: torch.Tensor | None = None,
) -> RowTargets:
    """Advantages of every token (paper Algorithm 1: g_RL + g_SD, and the terms of section 4).

    attempt, critique: weight · A of the turn (`advantages.turn_advantages`).
    distill: weight · a of the turn · m_t (`distill.distill_advantages`, `distill.floor_mask` or
        `soft_floor`), from rewards before shaping: a first prompt knows no turn before it.
    feedback: weight. imitate: weight · 1[correct].

    Args:
        batch: the rows.
        config: γ, estimators, baselines, floor.
        weights: coefficient of each role at this step (`role_weights`).
        stale: [S, M] bool: turns whose answer is too old to be distilled, or its feedback to be
            modelled.

    Returns:
        RowTargets, [N, T] each.
    """
    sessions = batch.sessions
    returns = discounted_returns(sessions, config.gamma)
    by_turn = turn_advantages(
        returns, sessions, config.attempt.estimator, config.attempt.norm_by_std
    )
    unshaped = by_graded_rewards(sessions)
    unshaped_returns = discounted_returns(unshaped, config.gamma)
    tables = {
        Role.ATTEMPT: by_turn,
        Role.CRITIQUE: by_turn,
        Role.DISTILL: distill_advantages(
            unshaped_returns, unshaped, config.distill.baseline, config.attempt.norm_by_std
        ),
        Role.FEEDBACK: torch.ones_like(returns),
        Role.IMITATE: sessions.correct.to(returns.dtype),
    }
    if stale is not None:
        tables.update({r: tables[r].masked_fill(stale, 0.0) for r in STALE_ROLES})
    # Role by role, and ahead of the first one the zeros that CONTEXT = −1 finds.
    stacked = torch.stack(
        [torch.zeros_like(returns), *(weights[r] * tables[r] for r in Role)], dim=1
    )  # [S, 1 + R, M]
    advantages = torch.empty(batch.role.shape)
    below_floor = torch.empty(batch.role.shape, dtype=torch.bool)
    for at in _blocks(batch.role):
        role, old = batch.role[at], batch.old_log_probs[at]
        below_floor[at] = has_role(role, Role.DISTILL) & ~floor_mask(
            old, config.distill.log_prob_floor
        )
        found = _look_up(stacked, batch.session[at], role + 1, batch.turn[at])
        if config.distill.floor == "soft" and config.distill.log_prob_floor is not None:
            found = torch.where(
                below_floor[at], found * soft_floor(old, config.distill.log_prob_floor), found
            )
        else:
            found = found.masked_fill_(below_floor[at], 0.0)
        advantages[at] = found

    ref_log_probs = batch.old_log_probs
    if config.distill.reference == "sampler":
        ref_log_probs = torch.where(
            batch.tokens(Role.DISTILL), batch.sampler_log_probs, ref_log_probs
        )
    return RowTargets(advantages, ref_log_probs, below_floor)


def live_groups(
    batch: RowBatch, config: RLTFConfig, weights: Mapping[Role, float], logit_weight: float
) -> torch.Tensor:
    """Groups that an objective gets something from: some token of their rows has an advantage that
    is not 0.

    It can be asked before the actor has scored the rows, so the log-prob floor of distillation is
    not applied.

    Args:
        batch: the rows.
        config: as of `compute_targets`.
        weights: as of `compute_targets`.
        logit_weight: coefficient of `rltf.logit_distill`, which trains where a second turn follows.

    Returns:
        [G] bool.
    """
    sessions = batch.sessions
    no_floor = replace(config, distill=replace(config.distill, log_prob_floor=None))
    advantages = compute_targets(batch, no_floor, weights).advantages
    rows = (advantages.abs() > ROUNDING).any(dim=1).long()
    num = torch.zeros(sessions.num_groups, dtype=torch.long).index_add_(
        0, sessions.group[batch.session.long()], rows
    )
    if logit_weight > 0:
        num.index_add_(0, sessions.group, sessions.valid[:, 1:].any(dim=1).long())
    return num > 0


def _look_up(
    tables: torch.Tensor, session: torch.Tensor, table: torch.Tensor, turn: torch.Tensor
) -> torch.Tensor:
    """`tables[session, table, turn]` of [S, R, M] tables; by one index, which may be of 32 bits, in
    half the time.
    """
    _, num_tables, num_turns = tables.shape
    place = (session.unsqueeze(1) * num_tables).add(table).mul_(num_turns).add_(turn)
    return tables.flatten().index_select(0, place.flatten()).view(turn.shape)


def _blocks(tokens: torch.Tensor) -> Iterator[slice]:
    """Rows in blocks of some thousand tokens, so that what is computed on the way stays in the
    processor's cache.
    """
    step = max(BLOCK // max(tokens.shape[1], 1), 1)
    return (slice(n, n + step) for n in range(0, tokens.shape[0], step))


def sampled_tokens(role: torch.Tensor) -> torch.Tensor:
    """[N, T] bool: tokens that the policy sampled under their row's own prompt."""
    return has_role(role, *SAMPLED)
