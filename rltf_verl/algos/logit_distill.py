"""Logit self-distillation: the student's next-token distributions are pulled towards those of the
same policy that has read the feedback, on the student's own tokens (SDPO, arXiv 2601.20802: Σ_t
KL(π_θ(·|x, y_<t) ‖ sg π_θ(·|x, f, y_<t))).

A distribution over V tokens is seen as one over k+1 *outcomes*: the teacher's k likeliest tokens,
and "any other token" (the tail). Both sides stay normalised, so a divergence of outcomes is never
negative and never above the exact one.

Legend: `N` tokens, `V` vocabulary, `k` tokens kept of the teacher. p is the teacher, q the student.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from rltf_verl.algos.shapes import require_shape

_LOG_ZERO = -1e30
"""log 0 as a finite number: 0 · log 0 is then 0 in the value and in the gradient, and not NaN."""


def top_k_ids(logits: torch.Tensor, k: int) -> torch.Tensor:
    """The k likeliest tokens, or all of a smaller vocabulary. Args: logits [N, V]. Returns: [N,
    min(k, V)] int64.
    """
    return logits.topk(min(k, logits.shape[-1]), dim=-1).indices


def outcome_log_probs(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """log-probs of the outcomes: ℓ_i = z_{v_i} − log Σ_v e^{z_v} for the given tokens, and the tail

        ℓ_{k+1} = log Σ_{v ∉ ids} e^{z_v} − log Σ_v e^{z_v}.

    The tail is summed over its own logits. log(1 − Σ e^{ℓ_i}) is the same number on paper, but in
    float32 it is off by 1e-7 / tail, and its gradient with it, just where a policy is sure of
    itself.

    Args:
        logits: [N, V], any float type; computed in float32 at least.
        ids: [N, k] distinct tokens.

    Returns:
        [N, k + 1], log-probs that sum to one.
    """
    require_shape(ids=(ids, (logits.shape[0], ids.shape[-1])))
    logits = logits if logits.dtype == torch.float64 else logits.float()
    chosen = logits.gather(-1, ids)
    rest = logits.scatter(-1, ids, _LOG_ZERO).logsumexp(dim=-1, keepdim=True)
    unnormalised = torch.cat([chosen, rest], dim=-1)
    return (unnormalised - unnormalised.logsumexp(dim=-1, keepdim=True)).clamp(min=_LOG_ZERO)


def forward_kl(student: torch.Tensor, teacher: torch.Tensor, beta: float) -> torch.Tensor:
    """KL(p ‖ q) = Σ_i p_i (log p_i − log q_i): covers all that the teacher may say. `beta` is not
    used.

    Gradient in the student's logits z: q_v − p_v on the kept tokens; (q_T − p_T) q_v / q_T on a
    token v of the tail T.

    Args:
        student: [N, k + 1] log q.
        teacher: [N, k + 1] log p.
        beta: unused weight of the mixture.

    Returns:
        [N] nats.
    """
    require_shape(teacher=(teacher, tuple(student.shape)))
    return (teacher.exp() * (teacher - student)).sum(dim=-1)


def reverse_kl(student: torch.Tensor, teacher: torch.Tensor, beta: float) -> torch.Tensor:
    """KL(q ‖ p) = Σ_i q_i (log q_i − log p_i): gives up what the teacher rules out (the paper's
    direction).

    Gradient in the student's logits: q_v (log q_o/p_o − KL), o the outcome that token v belongs to.
    Shapes as `forward_kl`.
    """
    return forward_kl(teacher, student, beta)


def jsd(student: torch.Tensor, teacher: torch.Tensor, beta: float) -> torch.Tensor:
    """β KL(p ‖ m) + (1 − β) KL(q ‖ m) with m = β p + (1 − β) q: bounded by log 2, so no single
    token dominates.

    Divided by β it tends to the forward KL for β → 0, divided by 1 − β to the reverse KL for β → 1.

    Args:
        student: [N, k + 1] log q.
        teacher: [N, k + 1] log p.
        beta: the teacher's share of the mixture, in (0, 1).

    Returns:
        [N] nats.
    """
    weights = torch.tensor([beta, 1 - beta], dtype=student.dtype, device=student.device).log()
    mixture = torch.logaddexp(teacher + weights[0], student + weights[1])
    return beta * forward_kl(mixture, teacher, beta) + (1 - beta) * forward_kl(
        mixture, student, beta
    )


DIVERGENCES: dict[str, Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]] = {
    "forward_kl": forward_kl,
    "reverse_kl": reverse_kl,
    "jsd": jsd,
}


def logit_divergence(
    logits: torch.Tensor,
    rows: torch.Tensor,
    ids: torch.Tensor,
    teacher: torch.Tensor,
    divergence: str,
    beta: float,
) -> torch.Tensor:
    """D_t between teacher and student at M of N positions; the others are not looked at and get
    exactly no gradient.

    Args:
        logits: [N, V] of the student.
        rows: [M] int64, distinct positions that have a teacher.
        ids: [M, k] the teacher's tokens there.
        teacher: [M, k + 1] the teacher's `outcome_log_probs` of them; a constant.
        divergence: key of `DIVERGENCES`.
        beta: see `jsd`.

    Returns:
        [N] nats, 0 (with a graph) at the other positions.

    Example:
        >>> even = torch.zeros(1, 1)  # the student has one token, so it cannot differ
        >>> row, kept, sure = torch.tensor([0]), torch.tensor([[0]]), torch.tensor([[0.0, -1e30]])
        >>> logit_divergence(even, row, kept, sure, "jsd", 0.5)
        tensor([0.])
    """
    require_shape(rows=(rows, (ids.shape[0],)), teacher=(teacher, (ids.shape[0], ids.shape[1] + 1)))
    # Indexing copies: what follows stays right when the caller's own backward reuses the memory of
    # the logits.
    student = outcome_log_probs(logits[rows], ids)
    values = DIVERGENCES[divergence](student, teacher.detach().to(student.dtype), beta)
    return torch.zeros_like(logits[:, 0], dtype=values.dtype).index_put((rows,), values)
