"""Logit self-distillation (SDPO): `rltf.logit_distill`.

It has no tokens of its own: attempt rows are pulled towards a teacher's distributions, which verl
hands to a loss in a call of its own (`adapters.training.logit_loss`, `adapters.training.teacher`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from rltf_verl.algos.sessions import Sessions
from rltf_verl.config import LogitDistillConfig
from rltf_verl.episode.rows import attempt_spans
from rltf_verl.feedback.base import FeedbackProvider
from rltf_verl.objectives.base import Objective
from rltf_verl.policy import Policy
from rltf_verl.types import Episode, Row, TeacherSpan

SWITCH = "or rltf.logit_distill.weight=0"


class LogitDistill(Objective[LogitDistillConfig]):
    """Attempts are pulled towards what a teacher says there, who has read more
    (`episode.teacher`)."""

    Settings = LogitDistillConfig

    def marked(self, policy: Policy, row: Row, episode: Episode) -> Row:
        """With the prompts that the teacher of its attempts reads."""
        taught = [(span, episode.turns[turn].teacher) for turn, span in attempt_spans(row).items()]
        return replace(row, teachers=tuple(TeacherSpan(*s, t.ids) for s, t in taught if t))

    def lives(self, sessions: Sessions) -> torch.Tensor:
        """[S] bool: where an attempt has a teacher."""
        return sessions.taught.any(dim=1)

    def refusals(
        self, setting: Callable[[str], Any], provider: FeedbackProvider
    ) -> list[tuple[bool, str]]:
        """It reads the logits of whole packed micro-batches."""
        if not self.enabled:
            return []

        def actor(*keys: str) -> list[Any]:  # other engines have other keys
            return [setting(f"actor_rollout_ref.actor.{key}") for key in keys]

        (strategy,) = actor("strategy")
        ulysses = "ulysses_sequence_parallel_size"
        ranks = max(n or 1 for n in actor(ulysses, f"fsdp_config.{ulysses}"))
        fused = [*actor("use_fused_kernels"), setting("actor_rollout_ref.model.use_fused_kernels")]
        size = setting("actor_rollout_ref.rollout.n")
        alone = size == 1 and self.config.teacher.sources == ("sibling",)
        return [
            (
                not alone,
                f"actor_rollout_ref.rollout.n={size}: rltf.teacher.reads=sibling needs other"
                " sessions of the problem; set it to 8, or let the teacher read something else",
            ),
            (
                strategy in ("fsdp", "fsdp2"),
                f"actor_rollout_ref.actor.strategy={strategy}: rltf.logit_distill reads logits over"
                " the whole vocabulary, which other engines split; set it to fsdp or fsdp2,"
                f" {SWITCH}",
            ),
            (
                not any(fused),
                "actor_rollout_ref.model.use_fused_kernels=True: the fused kernels never make the"
                f" logits that rltf.logit_distill reads; set it to False, {SWITCH}",
            ),
            (
                ranks == 1,
                f"actor_rollout_ref.actor.{ulysses}={ranks}: rltf.logit_distill needs whole"
                f" sequences on a rank; set it to 1, {SWITCH}",
            ),
            (
                not any(actor("pad_to_length", "fsdp_config.pad_to_length")),
                "actor_rollout_ref.actor.pad_to_length=True: verl refuses it together with top-k"
                f" distillation; set it to False, {SWITCH}",
            ),
        ]
