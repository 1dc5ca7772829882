"""One optimiser update per batch of rows: what verl's actor does with `adapters/training/loss.py`,
in plain PyTorch.

The log-probs before the update, which verl recomputes in a pass of its own, are the same numbers as
the ones that the update differentiates, because there is one update per batch. So one forward
serves as both.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from omegaconf import DictConfig
from transformers import PreTrainedModel

from rltf_verl.adapters.metrics.roles import role_metrics
from rltf_verl.adapters.training.registered import POLICY_LOSSES
from rltf_verl.algos.episodes import EpisodeBatch
from rltf_verl.algos.losses import TOKEN_LOSSES
from rltf_verl.algos.pack import pack_rows
from rltf_verl.algos.role_loss import distill_loss, supervised_loss
from rltf_verl.algos.targets import RowBatch, RowTargets, sampled_tokens
from rltf_verl.config import RLTFConfig
from rltf_verl.objectives import objective_weights, token_objectives
from rltf_verl.objectives.targets import compute_targets
from rltf_verl.types import Role, Row

ROWS_PER_FORWARD = 48


class Learner:
    """The model's optimiser and loss, by verl's configuration and ours."""

    def __init__(
        self, model: PreTrainedModel, config: DictConfig, rltf: RLTFConfig, num_steps: int
    ) -> None:
        actor = config.actor_rollout_ref.actor
        self.model, self.rltf, self.num_steps = model, rltf, num_steps
        self.token_loss = TOKEN_LOSSES[POLICY_LOSSES[actor.policy_loss.loss_mode]]
        self.clip_grad, self.response_budget = (
            actor.optim.clip_grad,
            config.data.max_response_length,
        )
        self.optimizer = getattr(torch.optim, actor.optim.optimizer)(
            model.parameters(),
            lr=actor.optim.lr,
            betas=tuple(actor.optim.betas),
            weight_decay=actor.optim.weight_decay,
        )

    def update(
        self, rows: Sequence[Row], episode: Sequence[int], episodes: EpisodeBatch, step: int
    ) -> dict[str, float]:
        """Train on the rows of one batch; returns the project's metrics of the roles.

        Args:
            rows: N rows.
            episode: [N] episode of each row.
            episodes: the S episodes.
            step: 1-based.
        """
        log_prob = row_log_probs(self.model, rows)
        lengths = [len(row.response_ids) for row in rows]
        old = [values.tolist() for values in log_prob.detach().split(lengths)]
        batch = pack_rows(rows, episode, episodes, old)
        weights = objective_weights(self.rltf, step - 1, self.num_steps)
        targets = compute_targets(batch, self.rltf, weights)
        denominator = episodes.group.shape[0] * self.response_budget
        self.optimizer.zero_grad()
        (self._token_sum(log_prob, batch, targets) / denominator).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_grad)
        self.optimizer.step()
        return role_metrics(token_objectives(self.rltf), batch, targets, weights)

    def _token_sum(
        self, log_prob: torch.Tensor, batch: RowBatch, targets: RowTargets
    ) -> torch.Tensor:
        """Σ over roles of the token sum of the role's loss (`adapters.training.loss`)."""
        sampled, advantages = sampled_tokens(batch.role), targets.advantages
        policy = self.token_loss(log_prob, batch.old_log_probs, advantages, 0.8, 1.2)
        reference = targets.ref_log_probs
        return (
            torch.where(sampled, policy, 0.0).sum()
            + distill_loss(
                log_prob, reference, advantages, batch.tokens(Role.DISTILL), self.rltf.distill
            )
            + supervised_loss(log_prob, advantages, batch.tokens(Role.FEEDBACK))
            + supervised_loss(log_prob, advantages, batch.tokens(Role.IMITATE))
        )


def row_log_probs(model: PreTrainedModel, rows: Sequence[Row]) -> torch.Tensor:
    """[L] log π(response token | everything before it), one row after the other. Rows of like
    length share a forward.
    """
    by_length = sorted(
        range(len(rows)), key=lambda i: len(rows[i].prompt_ids) + len(rows[i].response_ids)
    )
    found: dict[int, torch.Tensor] = {}
    for start in range(0, len(rows), ROWS_PER_FORWARD):
        at = by_length[start : start + ROWS_PER_FORWARD]
        found.update(zip(at, _forward(model, [rows[i] for i in at]), strict=True))
    return torch.cat([found[i] for i in range(len(rows))])


def _forward(model: PreTrainedModel, rows: Sequence[Row]) -> list[torch.Tensor]:
    sequences = [torch.tensor(row.prompt_ids + row.response_ids) for row in rows]
    # Padded on the right, where a causal model cannot see it.
    ids = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
    logits = model(input_ids=ids[:, :-1]).logits
    log_probs = logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    starts = [len(row.prompt_ids) - 1 for row in rows]
    return [
        values[start : start + len(row.response_ids)]
        for values, start, row in zip(log_probs, starts, rows, strict=True)
    ]
