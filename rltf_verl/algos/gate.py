"""Combine verdict and teacher (`rltf.teacher.gate`): the teacher's gap to the policy on a token,
and the verdict on its answer, scale the answer's own advantage and the teacher's weight.

Of P tokens that have a teacher, Δ_t = log p(y_t) − log q(y_t), teacher p, policy q.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from rltf_verl.algos.episodes import EpisodeBatch, cohort_mean, cohorts


@dataclass(frozen=True)
class Evidence:
    """Facts of P tokens."""

    gap: torch.Tensor
    """[P] Δ_t, nats."""
    advantage: torch.Tensor
    """[P] of the token's own answer, before the objective's coefficient."""
    right: torch.Tensor
    """[P] bool: the verdict on that answer."""
    solved: torch.Tensor
    """[P] p̂ of its turn (`solved_share`)."""


def solved_share(episodes: EpisodeBatch) -> torch.Tensor:
    """[S, M] p̂: the share of right answers among the group's at the same turn;
    those without a verdict count neither way.
    """
    has_verdict = episodes.valid & ~episodes.ungraded
    return cohort_mean(episodes.correct.float(), cohorts(episodes), has_verdict)


FLAT = 1e-6
"""An advantage up to this size is the rounding of one that is 0."""

Gate = Callable[[Evidence, float], tuple[torch.Tensor, torch.Tensor]]
"""(evidence, scale) -> ([P] factor of the advantage, [P] weight of the teacher)."""


def route(evidence: Evidence, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """SRPO (arXiv 2604.02288): right answers are reinforced, wrong ones follow their teacher.

        factor = 1[right],  weight = 1[wrong]

    Answers without a teacher are in neither half and keep their advantage.

    Args:
        evidence: of the tokens.
        scale: unused.

    Returns:
        [P] factor and [P] weight.
    """
    right = evidence.right.to(evidence.gap.dtype)
    return right, 1 - right


def variance(evidence: Evidence, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """SC-SDPO (arXiv 2605.27765): weight = √(p̂ (1 − p̂)), the scale that a normalised group
    advantage has, over its mean, so that the batch weighs as much as without; problems that are
    always or never solved teach nothing. Shapes as `route`.
    """
    weight = (evidence.solved * (1 - evidence.solved)).sqrt().to(evidence.gap.dtype)
    mean = weight.mean()
    return torch.ones_like(weight), weight / torch.where(mean > 0, mean, 1.0)


def magnitude(evidence: Evidence, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """RLSD (arXiv 2604.03128): the verifier decides the sign, the teacher the size.

        factor = clip(e^{sign(A) Δ_t}, 1 − ε, 1 + ε),  weight = 0

    Args:
        evidence: of the tokens.
        scale: ε.

    Returns:
        [P] factor and [P] weight.
    """
    # e^20 is far above any bound, and e^gap may be infinite.
    factor = (evidence.advantage.sign() * evidence.gap).clamp(max=20.0).exp()
    return factor.clamp(1 - scale, 1 + scale), torch.zeros_like(factor)


def residual(
    evidence: Evidence, scale: float, width: float = 0.02, threshold: float = 0.02
) -> tuple[torch.Tensor, torch.Tensor]:
    """RLCSD (arXiv 2606.11709): a bounded term is added to the advantage, which keeps its sign.

        r = λ tanh(Δ_t / τ), or 0 where |r| ≤ δ
        A' = max(A + r, 0) for A > 0, min(A + r, 0) for A < 0:  factor = A' / A = max(1 + r / A, 0)
        weight = 0

    Args:
        evidence: of the tokens; Δ_t is a contrast in the paper (`rltf.teacher.against`).
        scale: λ.
        width: τ, nats.
        threshold: δ.

    Returns:
        [P] factor and [P] weight.
    """
    added = scale * (evidence.gap / width).tanh()
    added = torch.where(added.abs() > threshold, added, 0.0)
    # Two `where`: 0 / 0 in the branch that is not taken would be NaN.
    flat = evidence.advantage.abs() <= FLAT
    factor = 1 + torch.where(flat, 0.0, added / torch.where(flat, 1.0, evidence.advantage))
    return factor.clamp(min=0), torch.zeros_like(factor)


def sigmoid(evidence: Evidence, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """SDAR (arXiv 2605.15155): weight = σ(β Δ_t); what the teacher endorses counts, what it rejects
    fades. `scale` is β; shapes as `route`.
    """
    return torch.ones_like(evidence.gap), (scale * evidence.gap).sigmoid()


GATES: dict[str, tuple[Gate, float]] = {
    "route": (route, 0.0),
    "variance": (variance, 0.0),
    "magnitude": (magnitude, 0.2),
    "residual": (residual, 0.5),  # with its width and threshold: objectives.teacher
    "sigmoid": (sigmoid, 1.0),
}
"""Name -> equation and its usual scale."""
