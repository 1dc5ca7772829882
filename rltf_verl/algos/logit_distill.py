"""Logit self-distillation: the student's next-token distributions are pulled towards those of the
same policy that has read the feedback, on the student's own tokens (SDPO, arXiv 2601.20802: Σ_t
KL(π_θ(·|x, y_<t) ‖ sg π_θ(·|x, f, y_<t))).

A distribution over V tokens is seen as one over k+1 *outcomes*: the teacher's k likeliest tokens,
and "any other token" (the tail). Both sides stay normalised, so a divergence of outcomes is never
negative and never above the exact one.

p is the teacher, q the student.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from rltf_verl.algos.log_probs import rows_per_chunk, wide
from rltf_verl.algos.shapes import require_shape
from rltf_verl.registry import load

_LOG_ZERO = -1e30
"""log 0 as a finite number: 0 · log 0 is then 0 in the value and in the gradient, and not NaN."""


def top_k_ids(logits: torch.Tensor, k: int) -> torch.Tensor:
    """The k likeliest tokens, or all of a smaller vocabulary. Args: logits [P, V]. Returns: [P,
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
        logits: [P, V], any float type; computed in float32 at least.
        ids: [P, k] distinct tokens.

    Returns:
        [P, k + 1], log-probs that sum to one.
    """
    require_shape(ids=(ids, (logits.shape[0], ids.shape[-1])))
    logits = logits.to(wide(logits))
    chosen = logits.gather(-1, ids)
    # The tail: the kept tokens leave the sum, as log 0.
    rest = logits.scatter(-1, ids, _LOG_ZERO).logsumexp(dim=-1, keepdim=True)
    unnormalised = torch.cat([chosen, rest], dim=-1)
    # Over the k + 1 outcomes, not over V: what rounds in the tail is in the normaliser too. The
    # clamp is for logits of −inf, as of tokens that a model masks.
    return (unnormalised - unnormalised.logsumexp(dim=-1, keepdim=True)).clamp(min=_LOG_ZERO)


class _OutcomesInChunks(torch.autograd.Function):
    """`outcome_log_probs` of chosen rows. One buffer of the logits' size and type replaces all that
    autograd would keep, 20 bytes a logit.

    The buffer holds a copy of the logits, which the backward pass replaces, chunk by chunk, by
    their gradient. The logits themselves may be gone by then: verl 0.9.1 next reads log-probs of
    them by flash-attn's cross-entropy with `inplace_backward=True`, whose backward pass runs before
    ours and writes its gradient over them, unseen by autograd.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, rows: torch.Tensor, ids: torch.Tensor
    ) -> torch.Tensor:
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(logits.clone(), rows, ids)
        size = rows_per_chunk(logits)
        chunks = zip(torch.split(rows, size), torch.split(ids, size), strict=True)
        return torch.cat([outcome_log_probs(logits[row], kept) for row, kept in chunks])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        buffer, rows, ids = ctx.saved_tensors
        size = rows_per_chunk(buffer)
        # Chunks of rows, not of tokens: the gradients of tokens that share a row add up before they
        # replace it. The tokens of all chunks are found at once, since each look at numbers on a
        # GPU waits for it. `later`: first row of each chunk but the first.
        order = rows.argsort(stable=True)
        later = torch.arange(0, len(buffer), size, device=rows.device)[1:]
        tokens = order.tensor_split(torch.searchsorted(rows[order], later).cpu())
        for k, (chunk, here) in enumerate(zip(buffer.split(size), tokens, strict=True)):
            with torch.enable_grad():
                logits = chunk.detach().requires_grad_()
                outcomes = outcome_log_probs(logits[rows[here] - k * size], ids[here])
            # A chunk's rows without tokens get zeros, so that in the end the whole buffer is a
            # gradient.
            chunk.copy_(torch.autograd.grad(outcomes, logits, gradient[here])[0])
        return buffer, None, None


def outcomes_of_rows(logits: torch.Tensor, rows: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """`outcome_log_probs(logits[rows], ids)` in chunks; at most 6 bytes a logit beyond the logits,
    value and gradient.

    Args:
        logits: [L, V], any float type.
        rows: [P] int64, the row of each token; tokens may share one.
        ids: [P, k] distinct tokens.

    Returns:
        [P, k + 1]. The backward pass works once.
    """
    outcomes: torch.Tensor = _OutcomesInChunks.apply(logits, rows, ids)  # type: ignore[no-untyped-call]
    return outcomes


def forward_kl(
    student: torch.Tensor, teacher: torch.Tensor, beta: float, clip: float | None = None
) -> torch.Tensor:
    """KL(p ‖ q) = Σ_i p_i (log p_i − log q_i): covers all that the teacher may say. `beta` is not
    used.

    Gradient in the student's logits z: q_v − p_v on the kept tokens; (q_T − p_T) q_v / q_T on a
    token v of the tail T.

    Args:
        student: [P, k + 1] log q.
        teacher: [P, k + 1] log p.
        beta: unused weight of the mixture.
        clip: most that one outcome adds (`clipped_sum`).

    Returns:
        [P] nats.
    """
    return clipped_sum(_kl_terms(student, teacher), clip)


def reverse_kl(
    student: torch.Tensor, teacher: torch.Tensor, beta: float, clip: float | None = None
) -> torch.Tensor:
    """KL(q ‖ p) = Σ_i q_i (log q_i − log p_i): gives up what the teacher rules out (the paper's
    direction).

    Gradient in the student's logits: q_v (log q_o/p_o − KL), o the outcome that token v belongs to.
    Shapes as `forward_kl`.
    """
    return forward_kl(teacher, student, beta, clip)


def jsd(
    student: torch.Tensor, teacher: torch.Tensor, beta: float, clip: float | None = None
) -> torch.Tensor:
    """β KL(p ‖ m) + (1 − β) KL(q ‖ m) with m = β p + (1 − β) q: bounded by log 2, so no single
    token dominates.

    Divided by β it tends to the forward KL for β → 0, divided by 1 − β to the reverse KL for β → 1.

    Args:
        student: [P, k + 1] log q.
        teacher: [P, k + 1] log p.
        beta: the teacher's share of the mixture, in (0, 1).
        clip: most that one outcome adds, both halves together (`clipped_sum`).

    Returns:
        [P] nats.
    """
    # log m = log(β p + (1 − β) q) of log-probs, which may underflow as probabilities.
    weights = torch.tensor([beta, 1 - beta], dtype=student.dtype, device=student.device).log()
    mixture = torch.logaddexp(teacher + weights[0], student + weights[1])
    of_teacher, of_student = _kl_terms(mixture, teacher), _kl_terms(mixture, student)
    if clip is not None:
        return clipped_sum(beta * of_teacher + (1 - beta) * of_student, clip)
    return beta * of_teacher.sum(dim=-1) + (1 - beta) * of_student.sum(dim=-1)


def _kl_terms(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """[P, k + 1] p_i (log p_i − log q_i)."""
    require_shape(teacher=(teacher, tuple(student.shape)))
    return teacher.exp() * (teacher - student)


def clipped_sum(terms: torch.Tensor, clip: float | None) -> torch.Tensor:
    """Σ_i min(d_i, c): each outcome's term of a divergence is cut off, so that no outcome that only
    the teacher finds likely rules a token (OPSD, arXiv 2601.18734, `jsd_token_clip`, 0.05).

    A term that is cut off has no gradient. Terms may be negative, so the sum may be below 0.

    Args:
        terms: [P, k + 1] d_i.
        clip: c; None cuts nothing off.

    Returns:
        [P].

    Example:
        >>> clipped_sum(torch.tensor([[0.3, 0.01, -0.1]]), 0.05)
        tensor([-0.0400])
    """
    return (terms if clip is None else terms.clamp(max=clip)).sum(dim=-1)


Divergence = Callable[[torch.Tensor, torch.Tensor, float, float | None], torch.Tensor]
"""([P, k + 1] log q, [P, k + 1] log p, β, clip) -> [P] nats."""

DIVERGENCES: dict[str, Divergence] = {
    "forward_kl": forward_kl,
    "reverse_kl": reverse_kl,
    "jsd": jsd,
}


def divergence_named(name: str) -> Divergence:
    """A built-in divergence, or the function of a user's file."""
    function: Divergence = DIVERGENCES.get(name) or load("rltf.logit_distill.divergence", name)
    return function


def logit_divergence(
    logits: torch.Tensor,
    ids: torch.Tensor,
    teacher: torch.Tensor,
    divergence: str,
    beta: float,
    clip: float | None = None,
    rows: torch.Tensor | None = None,
) -> torch.Tensor:
    """D_t between teacher and student.

    Args:
        logits: [P, V] of the student; [L, V] with `rows`.
        ids: [P, k] the teacher's tokens.
        teacher: [P, k + 1] the teacher's `outcome_log_probs` of them; a constant.
        divergence: key of `DIVERGENCES`, or a user's `./mine.py:function`.
        beta: see `jsd`.
        clip: see `clipped_sum`.
        rows: see `outcomes_of_rows`; None: one row a token, and plain autograd.

    Returns:
        [P] nats.

    Example:
        >>> even = torch.zeros(1, 1)  # the student has one token, so it cannot differ
        >>> kept, sure = torch.tensor([[0]]), torch.tensor([[0.0, -1e30]])
        >>> logit_divergence(even, kept, sure, "jsd", 0.5)
        tensor([0.])
    """
    require_shape(teacher=(teacher, (ids.shape[0], ids.shape[1] + 1)))
    student = (
        outcome_log_probs(logits, ids) if rows is None else outcomes_of_rows(logits, rows, ids)
    )
    return divergence_named(divergence)(student, teacher.detach().to(student.dtype), beta, clip)


def sampled_token(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """log q(y_t) − log p(y_t) with the gradient of a policy gradient step at advantage
    A_t = log p(y_t) − log q(y_t):

        ∇ = (log q(y_t) − log p(y_t)) ∇ log q(y_t).

    Over tokens that the student samples, both are KL(q ‖ p) and its gradient: ∇ Σ_v q_v log
    (q_v/p_v) = Σ_v q_v (log q_v/p_v) ∇ log q_v, as Σ_v q_v ∇ log q_v = 0 (Thinking Machines 2025,
    "On-policy distillation"; SDPO's code without logits). One token's value may be negative.

    Args:
        student: [P] log q of the sampled tokens.
        teacher: [P] log p of them; a constant.

    Returns:
        [P] nats.

    Example:
        >>> q = torch.tensor([0.5]).log().requires_grad_()
        >>> value = sampled_token(q, torch.tensor([0.25]).log())
        >>> value.item(), torch.autograd.grad(value.sum(), q)[0].item()
        (0.6931471824645996, 0.6931471824645996)
    """
    require_shape(teacher=(teacher, tuple(student.shape)))
    gap = (student - teacher).detach()
    # The second factor is 0: it adds nothing to the value, and the whole gradient.
    return gap + gap * (student - student.detach())


def clipped_ratio(student: torch.Tensor, sampled: torch.Tensor, clip: float) -> torch.Tensor:
    """min(q_θ(y_t) / q_old(y_t), c), a constant weight of each token: what a policy that has moved
    since it sampled owes to the tokens (SDPO's `is_clip`, 2).

    Args:
        student: [P] log q_θ.
        sampled: [P] log q_old.
        clip: c.

    Returns:
        [P].

    Example:
        >>> clipped_ratio(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 0.0]), 2.0)
        tensor([1., 2.])
    """
    require_shape(sampled=(sampled, tuple(student.shape)))
    return (student - sampled).detach().clamp(max=20.0).exp().clamp(max=clip)


def soft_clip(gap: torch.Tensor, most: float = 10.0) -> torch.Tensor:
    """c tanh(Δ / c): as it is where it is small, and never above c (Purified OPSD, arXiv
    2607.02234, section 3.2).

    Args:
        gap: [P] nats.
        most: c, nats.

    Returns:
        [P].

    Example:
        >>> soft_clip(torch.tensor([0.5, -1000.0]))
        tensor([  0.4996, -10.0000])
    """
    return most * (gap / most).tanh()


def entropy_weight(entropy: torch.Tensor, decay: float) -> torch.Tensor:
    """e^{−β H_t} / mean_s e^{−β H_s}: tokens where the teacher is unsure count less, and all
    together as much as before (SRPO, arXiv 2604.02288, section 3.2).

    Args:
        entropy: [P] H of the teacher, nats.
        decay: β.

    Returns:
        [P], of mean 1.

    Example:
        >>> entropy_weight(torch.tensor([0.0, 3.0]).log1p(), 1.0)  # e^{-H} = 1 and 1/4
        tensor([1.6000, 0.4000])
    """
    # A softmax over the tokens, times their number.
    return (-decay * entropy).softmax(dim=0) * len(entropy)
