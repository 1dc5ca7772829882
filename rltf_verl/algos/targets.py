"""The rows of a batch, what the loss sees of them, and from values of turns to values of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import torch

from rltf_verl.algos.episodes import EpisodeBatch
from rltf_verl.algos.shapes import require_shape
from rltf_verl.types import SAMPLED

BLOCK = 1 << 16
"""Tokens that are looked up at a time."""


@dataclass(frozen=True)
class RowBatch:
    """L tokens: the responses of N rows of S episodes, one row after the other. Padding rows of the
    trainer are not in here.
    """

    role: torch.Tensor
    """[L] integers: `Role` of each token, CONTEXT where it trains nothing."""
    turn: torch.Tensor
    """[L] integers: turn of the episode that each token is credited with."""
    episode: torch.Tensor
    """[L] integers, 0..S−1: episode of each token."""
    lengths: torch.Tensor
    """[N] tokens of each row, 1 or more."""
    episodes: EpisodeBatch
    """The S episodes."""
    old_log_probs: torch.Tensor
    """[L] log π_old of the tokens under their *row's* prompt."""
    sampler_log_probs: torch.Tensor
    """[L] the sampler's log-probs under the prompt that the tokens were sampled from."""
    scored: torch.Tensor | None = None
    """[L] bool: tokens scored by the actor; elsewhere the sampler's log-probs count. None: all."""

    def __post_init__(self) -> None:
        shape = (int(self.lengths.sum()),)
        require_shape(
            role=(self.role, shape),
            turn=(self.turn, shape),
            episode=(self.episode, shape),
            old_log_probs=(self.old_log_probs, shape),
            sampler_log_probs=(self.sampler_log_probs, shape),
            **({} if self.scored is None else {"scored": (self.scored, shape)}),
        )

    def tokens(self, *roles: int) -> torch.Tensor:
        """[L] bool: tokens of these roles."""
        return has_role(self.role, *roles)

    def by_row(self, values: torch.Tensor) -> list[torch.Tensor]:
        """[L, …] values of tokens -> N tensors, those of each row."""
        return list(torch.split(values, self.lengths.tolist()))


@dataclass(frozen=True)
class RowTargets:
    """Inputs of the loss beside the log-probs."""

    advantages: torch.Tensor
    """[L] float32, the objective's weight folded in, 0 on context."""
    ref_log_probs: torch.Tensor
    """[L] the denominator of the ratio (not read for reference `current`)."""
    floor_masked: torch.Tensor
    """[L] bool: tokens that an objective damps (distillation: below the log-prob floor)."""


def has_role(role: torch.Tensor, *roles: int) -> torch.Tensor:
    """Bool, of the shape of `role`: which of the tokens have one of the roles."""
    return reduce(torch.logical_or, [role == int(r) for r in roles])


def look_up(
    tables: torch.Tensor, episode: torch.Tensor, table: torch.Tensor, turn: torch.Tensor
) -> torch.Tensor:
    """[L] `tables[session, table, turn]` of [S, R, M] tables; by one index, which may be of 32
    bits, in half the time.
    """
    _, num_tables, num_turns = tables.shape
    # One flat index in place of three, built in place: no [L] copies, and 32 bits stay 32 bits.
    place = (episode * num_tables).add(table).mul_(num_turns).add_(turn)
    return tables.flatten().index_select(0, place)


def blocks(num_tokens: int) -> Iterator[slice]:
    """Some thousand tokens at a time, so that what is computed on the way stays in the processor's
    cache.
    """
    return (slice(n, n + BLOCK) for n in range(0, num_tokens, BLOCK))


def sampled_tokens(role: torch.Tensor) -> torch.Tensor:
    """Bool, of the shape of `role`: tokens that the policy sampled under their row's own prompt."""
    return has_role(role, *SAMPLED)


def of_turns(batch: RowBatch, turns: torch.Tensor) -> torch.Tensor:
    """[S, M] values of turns -> [L], that of the turn which each token is credited with."""
    return turns[batch.episode.long(), batch.turn.long()]
