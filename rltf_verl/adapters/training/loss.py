"""The actor's loss: verl's registered policy loss on what the policy sampled, ours on the other
roles.

Installed in every worker with `set_loss_fn`, because only here the role of a token is known
together with log π_θ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict
from verl.trainer.ppo.core_algos import agg_loss, get_policy_loss_fn, kl_penalty
from verl.utils.metric import AggregationType, Metric
from verl.workers.config import ActorConfig
from verl.workers.utils.padding import no_padding_2_padding

from rltf_verl.adapters.queue.columns import FOR_FORWARD, ROLE, token_roles
from rltf_verl.adapters.training.logit_loss import (
    TEACHER_LOG_PROB,
    TEACHER_PLACES,
    TEACHER_SPANS,
    TEACHER_WEIGHTS,
    WEIGHT,
    teacher_loss,
)
from rltf_verl.algos.targets import has_role, sampled_tokens
from rltf_verl.objectives import Method, Objective

DENOMINATOR = "rltf_denominator"
"""Key of the batch's constant: episodes per update × response budget in tokens, over all
data-parallel ranks.
"""

OLD, ADVANTAGES, REF, IS_WEIGHTS = (
    "old_log_probs",
    "advantages",
    "ref_log_prob",
    "rollout_is_weights",
)

FOR_UPDATE = (
    *FOR_FORWARD,
    *(OLD, ADVANTAGES, REF, IS_WEIGHTS),
    *(ROLE, TEACHER_PLACES, TEACHER_WEIGHTS, TEACHER_LOG_PROB, TEACHER_SPANS),
)
"""Columns that an update reads."""

OF_TEACHER = "rltf/logit_distill/loss"


def rltf_loss(
    config: ActorConfig,
    method: Method,
    model_output: dict[str, Any],
    data: TensorDict,
    dp_group: Any = None,
) -> tuple[torch.Tensor, dict[str, Any]]:
    """L = (Σ over roles Σ over the role's tokens of its loss) / denominator.

    Token sums over one constant, so that a role's weight means the same whatever the other roles
    hold, and the gradient does not depend on how rows fall into micro-batches or ranks. Entropy
    bonus and KL to the reference act on what the policy sampled itself (attempt, critique): other
    tokens say nothing about where it goes.

    Args:
        config: verl's actor config (policy loss, entropy and KL coefficients).
        method: our objectives; the worker's own (`Method.__reduce__`).
        model_output: `log_probs` of a micro-batch and, on request, `entropy` and divergences
            from the teacher.
        data: the micro-batch with our columns.
        dp_group: unused; part of verl's signature.

    Returns:
        Scalar loss and metrics; both add up over micro-batches.
    """
    log_prob = no_padding_2_padding(model_output["log_probs"], data)
    scale = data["dp_size"] / data[DENOMINATOR]  # FSDP averages over ranks
    fields = data.select(OLD, ADVANTAGES, REF, IS_WEIGHTS, strict=False)
    padded = fields.to_padded_tensor(0)
    role = token_roles(data[ROLE], data["response_mask"])
    sampled = sampled_tokens(role)

    policy, metrics = _policy_loss(config, log_prob, padded, sampled)
    owners = [own for own in method.token_owners if own.enabled]
    parts = {"actor/pg_loss": policy}
    for own in owners:  # of tokens that this policy did not sample under this prompt
        if not own.sampled:
            tokens = has_role(role, own.role)
            token_sum = own.loss(log_prob, padded[OLD], padded[ADVANTAGES], tokens)
            parts[f"rltf/{own.name}/loss"] = token_sum
    if WEIGHT in data.keys():  # noqa: SIM118  (a TensorDict is not searched by its keys)
        parts[OF_TEACHER], of_teacher = teacher_loss(
            method.config.logit_distill, model_output, data, log_prob, padded[OLD]
        )
        metrics.update(of_teacher)
    if config.entropy_coeff != 0:
        entropy = no_padding_2_padding(model_output["entropy"], data)
        parts["actor/entropy_loss"] = -config.entropy_coeff * _token_sum(entropy, sampled)
    if config.use_kl_loss:
        # verl names torch.FloatTensor, which no tensor is an instance of for a type checker.
        kl = kl_penalty(log_prob, padded[REF], config.kl_loss_type)  # type: ignore[arg-type]
        parts["actor/kl_loss"] = config.kl_loss_coef * _token_sum(kl, sampled)
    loss: torch.Tensor = sum(parts.values()) * scale
    of_roles = sum(v for k, v in parts.items() if k != OF_TEACHER) * scale
    parts = {k: v * scale for k, v in parts.items()} | gradients(of_roles, log_prob, role, owners)
    metrics.update({k: Metric(value=v, aggregation=AggregationType.SUM) for k, v in parts.items()})
    return loss, metrics


def gradients(
    loss: torch.Tensor,
    log_prob: torch.Tensor,
    role: torch.Tensor,
    owners: Sequence[Objective[Any]],
) -> dict[str, torch.Tensor]:
    """`rltf/<objective>/grad`: Σ over its tokens of |∂L/∂log π_θ|, how hard it pulls at them.

    That is the gradient as far as the objectives are concerned; what the network makes of it would
    cost a backward pass per role.

    Args:
        loss: scalar, without the teacher's.
        log_prob: [N, T], what the loss was made of.
        role: [N, T].
        owners: the objectives to report.
    """
    if not log_prob.requires_grad:
        return {}
    # The graph is kept for the update's own backward pass.
    (gradient,) = torch.autograd.grad(loss, log_prob, retain_graph=True)
    pulls = gradient.abs()
    return {f"rltf/{own.name}/grad": (pulls * has_role(role, own.role)).sum() for own in owners}


def _policy_loss(
    config: ActorConfig, log_prob: torch.Tensor, padded: TensorDict, mask: torch.Tensor
) -> tuple[torch.Tensor, dict[str, Any]]:
    """Token sum of verl's registered policy loss over what the policy sampled."""
    # `agg_loss` multiplies a token sum by `dp_size`; `rltf_loss` scales all roles alike.
    config.global_batch_info.update(
        dp_size=1, batch_num_tokens=None, global_batch_size=None, loss_scale_factor=None
    )
    loss, metrics = get_policy_loss_fn(config.policy_loss.get("loss_mode", "vanilla"))(
        old_log_prob=padded[OLD],
        log_prob=log_prob,
        advantages=padded[ADVANTAGES],
        response_mask=mask,
        loss_agg_mode="token-sum",
        config=config,
        rollout_is_weights=padded.get(IS_WEIGHTS, None),
    )
    return loss, Metric.from_dict(metrics, aggregation=AggregationType.MEAN)


def _token_sum(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return agg_loss(loss_mat=values, loss_mask=mask, loss_agg_mode="token-sum")
