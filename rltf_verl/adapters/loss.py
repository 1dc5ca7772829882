"""The actor's loss: verl's registered policy loss on `attempt` rows, ours on the others, one constant under both.

Installed in every worker with `set_loss_fn`, because only here the role of a row is known together with log π_θ.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict
from verl.trainer.ppo.core_algos import agg_loss, get_policy_loss_fn, kl_penalty
from verl.utils.metric import AggregationType, Metric
from verl.workers.config import ActorConfig
from verl.workers.utils.padding import no_padding_2_padding

from rltf_verl.adapters.columns import ROLE
from rltf_verl.algos.role_loss import distill_loss
from rltf_verl.config import DistillConfig
from rltf_verl.types import Role

DENOMINATOR = "rltf_denominator"
"""Key of the batch's constant: sessions per update × response budget in tokens, over all data-parallel ranks."""


def rltf_loss(
    config: ActorConfig, distill: DistillConfig, model_output: dict[str, Any], data: TensorDict, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, Any]]:
    """L = (Σ_attempt tokens policy loss + Σ_distill tokens distill loss) / denominator.

    Token sums over one constant, so that a role's weight means the same whatever the other roles hold, and the
    gradient does not depend on how rows fall into micro-batches or ranks. Entropy bonus and KL to the reference act
    on attempt rows.

    Args:
        config: verl's actor config (policy loss, entropy and KL coefficients).
        distill: form of the distillation loss.
        model_output: `log_probs` and, when asked for, `entropy` of a micro-batch.
        data: the micro-batch with our columns.
        dp_group: unused; part of verl's signature.

    Returns:
        Scalar loss and metrics; both add up over micro-batches.
    """
    log_prob = no_padding_2_padding(model_output["log_probs"], data)
    scale = data["dp_size"] / data[DENOMINATOR]  # FSDP averages over ranks
    fields = ["response_mask", "old_log_probs", "advantages", *(["ref_log_prob"] if config.use_kl_loss else [])]
    padded = data.select(*fields).to_padded_tensor(0)
    is_distill = (data[ROLE].reshape(-1) == int(Role.DISTILL)).unsqueeze(1)
    mask = padded["response_mask"].bool()

    attempt, metrics = _attempt_loss(config, log_prob, padded, mask & ~is_distill)
    distilled = distill_loss(
        log_prob, padded["old_log_probs"], padded["advantages"], mask & is_distill,
        reference=distill.reference, loss=distill.loss, clip_low=distill.clip_low, clip_high=distill.clip_high,
    )  # fmt: skip
    parts = {"actor/pg_loss": attempt, "rltf/distill/loss": distilled}
    if config.entropy_coeff != 0:
        entropy = no_padding_2_padding(model_output["entropy"], data)
        parts["actor/entropy_loss"] = -config.entropy_coeff * _token_sum(entropy, mask & ~is_distill)
    if config.use_kl_loss:
        kl = kl_penalty(logprob=log_prob, ref_logprob=padded["ref_log_prob"], kl_penalty=config.kl_loss_type)
        parts["actor/kl_loss"] = config.kl_loss_coef * _token_sum(kl, mask & ~is_distill)
    metrics.update({k: Metric(value=v * scale, aggregation=AggregationType.SUM) for k, v in parts.items()})
    loss: torch.Tensor = sum(parts.values()) * scale  # type: ignore[assignment]
    return loss, metrics


def _attempt_loss(
    config: ActorConfig, log_prob: torch.Tensor, padded: TensorDict, mask: torch.Tensor
) -> tuple[torch.Tensor, dict[str, Any]]:
    """Token sum of verl's registered policy loss over the attempt rows."""
    config.global_batch_info.update(dp_size=1, batch_num_tokens=None, global_batch_size=None, loss_scale_factor=None)
    loss, metrics = get_policy_loss_fn(config.policy_loss.get("loss_mode", "vanilla"))(
        old_log_prob=padded["old_log_probs"],
        log_prob=log_prob,
        advantages=padded["advantages"],
        response_mask=mask,
        loss_agg_mode="token-sum",
        config=config,
        rollout_is_weights=None,
    )
    return loss, Metric.from_dict(metrics, aggregation=AggregationType.MEAN)


def _token_sum(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return agg_loss(loss_mat=values, loss_mask=mask, loss_agg_mode="token-sum")
