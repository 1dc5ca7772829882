"""How far last answers are from what the policy says to the first prompt: nats per token, with
intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rltf_verl.runlog.numbers import Floats, Integers
from rltf_verl.tools.report.evaluation.bootstrap import Estimate, Ratio, estimates, numbered

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


def gap_of(scored: Sequence[ScoredAnswer], asked: int) -> Gap:
    """The gap of the scored answers (at least one); `asked`: how many were asked about."""
    problem = numbered(answer.problem for answer in scored)
    num_tokens = _sums(problem, [float(len(answer.under_first)) for answer in scored])
    under_first = _sums(problem, [sum(answer.under_first) for answer in scored])
    under_own = _sums(problem, [sum(answer.under_own) for answer in scored])
    # those that the floor masks: distillation would learn nothing from them
    below = [float(sum(value < FLOOR for value in answer.under_first)) for answer in scored]
    sums = {
        "under_first": under_first,
        "under_own": under_own,
        "gap": under_own - under_first,
        "below_floor": _sums(problem, below),
    }
    per_token = {name: Ratio(over, num_tokens) for name, over in sums.items()}
    return Gap(len(scored), asked, **estimates(per_token))


def _sums(problem: Integers, values: Sequence[float]) -> Floats:
    """[P] sums of the values of each problem."""
    return np.bincount(problem, values).astype(np.float64)
