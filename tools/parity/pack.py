"""Rows of episodes -> one `RowBatch`, without verl: what tests, parity and benchmarks feed to the
equations.

In training the same fields arrive as columns of verl's transfer queue instead
(`adapters.queue.columns`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

import torch

from rltf_verl.algos.advantages import with_neutral_rewards
from rltf_verl.algos.episodes import EpisodeBatch
from rltf_verl.algos.targets import RowBatch
from rltf_verl.types import TECHNICAL_STOPS, Episode, Row, Turn


def pad(values: Sequence[Sequence[float]], dtype: torch.dtype, fill: float = 0.0) -> torch.Tensor:
    """Ragged lists -> a rectangle, filled up on the right."""
    tensors = [torch.tensor(v, dtype=dtype) for v in values]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=fill)


def pack_episodes(episodes: Sequence[Episode], group: Sequence[int]) -> EpisodeBatch:
    """S episodes, and the group of each."""

    def table(of: Callable[[Turn], float], dtype: torch.dtype, fill: float = 0.0) -> torch.Tensor:
        """[S, M] value of each turn."""
        return pad([[*map(of, episode.turns)] for episode in episodes], dtype, fill)

    # what fills a row on the right is never read: `valid` is False there
    batch = EpisodeBatch(
        rewards=table(lambda turn: turn.reward, torch.float32),
        correct=table(lambda turn: turn.grade.correct, torch.bool),
        valid=table(lambda turn: True, torch.bool),
        group=torch.tensor(list(group)),
        graded=table(lambda turn: turn.graded, torch.float32),
        cut=table(lambda turn: turn.stop in TECHNICAL_STOPS, torch.bool),
    )
    ungraded = table(lambda turn: turn.stop == "ungraded", torch.bool)
    return with_neutral_rewards(batch, ungraded)


def pack_rows(
    rows: Sequence[Row],
    episode: Sequence[int],
    episodes: EpisodeBatch,
    old_log_probs: Sequence[Sequence[float]],
) -> RowBatch:
    """The tokens of rows, one row after the other.

    Args:
        rows: N rows of any role.
        episode: [N] episode of each row, 0..S−1.
        episodes: the S episodes.
        old_log_probs: [N] lists, as long as the rows: log π_old of each row's tokens under its own
            prompt.
    """
    lengths = torch.tensor([len(row.role) for row in rows], dtype=torch.int64)
    # Rows that no policy sampled (feedback to predict) may lack log-probs; no objective reads
    # these.
    sampler = (row.log_probs or (0.0,) * len(row.turn) for row in rows)
    return RowBatch(
        role=concatenate((row.role for row in rows), torch.int64),
        turn=concatenate((row.turn for row in rows), torch.int64),
        episode=torch.tensor(list(episode), dtype=torch.int64).repeat_interleave(lengths),
        lengths=lengths,
        episodes=episodes,
        old_log_probs=concatenate(old_log_probs, torch.float32),
        sampler_log_probs=concatenate(sampler, torch.float32),
    )


def concatenate(values: Iterable[Sequence[float]], dtype: torch.dtype) -> torch.Tensor:
    """Ragged lists -> [L], one after the other."""
    return torch.tensor(list(chain.from_iterable(values)), dtype=dtype)
