"""How far last answers are from what the policy says to the first prompt: nats per token, with
intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rltf_verl.tools.report.evaluation.bootstrap import Estimate, Ratio, estimates

FLOOR = -5.0
"""`rltf.distill.log_prob_floor` of the presets: tokens below it are not distilled."""


@dataclass(frozen=True)
class ScoredAnswer:
    """One last answer: log-probs of its T tokens, nats, under two prompts ([T] each)."""

    problem: tuple[str, ...]
    under_first: tuple[float, ...]
    """log π(y_t | x₀, y_<t)."""
    under_own: tuple[float, ...]
    """log π(y_t | x_k, y_<t): the prompt with the feedback, which it was sampled from."""


@dataclass(frozen=True)
class Gap:
    """Means over tokens. The gap is that of the trainer's metric `rltf/distill/log_prob_gap`."""

    answers: int
    """Answers whose tokens were found."""
    asked: int
    """Answers that the endpoint scored."""
    under_first: Estimate
    under_own: Estimate
    gap: Estimate
    """under_own − under_first."""
    below_floor: Estimate
    """Share of tokens under the first prompt below `FLOOR`."""


def gap_of(scored: Sequence[ScoredAnswer], asked: int, seed: int = 0) -> Gap:
    """The gap of the scored answers (at least one); `asked`: how many were asked about."""
    number: dict[tuple[str, ...], int] = {}
    problem = np.array([number.setdefault(s.problem, len(number)) for s in scored])
    tokens = np.bincount(problem, [len(s.under_first) for s in scored], len(number)).astype(
        np.float64
    )

    def per_token(value: Callable[[ScoredAnswer], float]) -> Ratio:
        return Ratio(
            np.bincount(problem, [value(s) for s in scored], len(number)).astype(np.float64), tokens
        )

    means = estimates(
        [
            per_token(lambda s: sum(s.under_first)),
            per_token(lambda s: sum(s.under_own)),
            per_token(lambda s: sum(s.under_own) - sum(s.under_first)),
            per_token(lambda s: float(sum(value < FLOOR for value in s.under_first))),
        ],
        seed,
    )
    return Gap(len(scored), asked, *means)
