"""The rows of a batch, what the loss sees of them, and from values of turns to values of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import torch

from rltf_verl.algos.sessions import Sessions
from rltf_verl.algos.shapes import require_shape
from rltf_verl.types import SAMPLED

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

    def tokens(self, *roles: int) -> torch.Tensor:
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
    """[N, T] bool: tokens that an objective damps (distillation: below the log-prob floor)."""


def has_role(role: torch.Tensor, *roles: int) -> torch.Tensor:
    """[N, T] bool: which of the tokens have one of the roles."""
    return reduce(torch.logical_or, [role == int(r) for r in roles])


def look_up(
    tables: torch.Tensor, session: torch.Tensor, table: torch.Tensor, turn: torch.Tensor
) -> torch.Tensor:
    """`tables[session, table, turn]` of [S, R, M] tables; by one index, which may be of 32 bits, in
    half the time.
    """
    _, num_tables, num_turns = tables.shape
    place = (session.unsqueeze(1) * num_tables).add(table).mul_(num_turns).add_(turn)
    return tables.flatten().index_select(0, place.flatten()).view(turn.shape)


def blocks(tokens: torch.Tensor) -> Iterator[slice]:
    """Rows in blocks of some thousand tokens, so that what is computed on the way stays in the
    processor's cache.
    """
    step = max(BLOCK // max(tokens.shape[1], 1), 1)
    return (slice(n, n + step) for n in range(0, tokens.shape[0], step))


def sampled_tokens(role: torch.Tensor) -> torch.Tensor:
    """[N, T] bool: tokens that the policy sampled under their row's own prompt."""
    return has_role(role, *SAMPLED)


def of_turns(batch: RowBatch, turns: torch.Tensor) -> torch.Tensor:
    """[S, M] values of turns -> [N, T], that of the turn which each token is credited with."""
    return turns[batch.session.unsqueeze(1).long(), batch.turn.long()]
