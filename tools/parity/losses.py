"""Loss sums and gradients of one mode, at the policy that sampled and at a perturbed one."""

from __future__ import annotations

import torch

from rltf_verl.algos.losses import TOKEN_LOSSES
from rltf_verl.algos.role_loss import distill_loss, supervised_loss
from rltf_verl.algos.targets import sampled_tokens
from rltf_verl.types import Role
from tools.parity.load import ModeRows
from tools.parity.pack import concatenate
from tools.parity.report import Check, Json


def compare_loss(made: ModeRows, key: str, theirs: Json, check: Check) -> None:
    """One loss under one policy, `<loss_fn>/on_policy` or `<loss_fn>/off_policy`."""
    loss_fn, _, policy = key.partition("/")
    name, grads = f"{made.name} {key}", theirs["grad_wrt_new_logprob"]
    # On-policy, the release sets every row's new log-probs to the sampler's at that row's own
    # context.
    values = made.new if policy == "off_policy" else made.old
    log_prob = concatenate(values, torch.float64).requires_grad_()
    (grad,) = torch.autograd.grad(_token_sum(made, log_prob, loss_fn, excused=True), log_prob)
    # Rows that the fixed defect gives advantage 0 add nothing to the release's sum.
    loss = _token_sum(made, log_prob, loss_fn, excused=False)
    check.close(
        f"{name} loss_sum", loss.item(), theirs["loss_sum"], abs_tol=check.tolerance.loss_sum_abs
    )
    check.close(f"{name} rows with a gradient", len(made.rows), len(grads))
    ours, roles = made.batch.by_row(grad), made.batch.by_row(made.batch.role)
    for n, (row_grad, excuse) in enumerate(zip(grads, made.excuses, strict=False)):
        check.close(f"{name} grad of row {n}", ours[n][roles[n] >= 0].tolist(), row_grad, excuse)


def _token_sum(
    made: ModeRows, log_prob: torch.Tensor, attempt_loss: str, *, excused: bool
) -> torch.Tensor:
    """What the trainer's loss adds up; without the rows that have an excuse unless `excused`."""
    config, settings, batch = made.config, made.case.json["config"], made.batch
    ref, advantages = made.targets.ref_log_probs.double(), made.targets.advantages.double()
    kept = torch.tensor([excused or excuse is None for excuse in made.excuses])
    rows = kept.repeat_interleave(batch.lengths)
    attempt = TOKEN_LOSSES[attempt_loss](
        log_prob, ref, advantages, settings["clip_low"], settings["clip_high"]
    )
    distill, imitate = (batch.tokens(role) & rows for role in (Role.DISTILL, Role.IMITATE))
    return (
        (attempt * sampled_tokens(batch.role)).sum()
        + distill_loss(log_prob, ref, advantages, distill, config.distill)
        + supervised_loss(log_prob, advantages, imitate)
    )
