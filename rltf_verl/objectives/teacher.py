"""Logit self-distillation (SDPO): `rltf.logit_distill`.

It has no tokens: attempt rows are pulled towards a teacher's distributions, which verl
hands to a loss in a separate call (`adapters.training.logit_loss`, `adapters.training.teacher`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from rltf_verl.algos.episodes import EpisodeBatch
from rltf_verl.algos.gate import GATES, Evidence, residual, solved_share
from rltf_verl.algos.logit_distill import entropy_weight
from rltf_verl.algos.targets import RowBatch, RowTargets
from rltf_verl.config import LogitDistillConfig, RLTFConfig
from rltf_verl.config.objectives import is_own
from rltf_verl.episode.rows import spans_of
from rltf_verl.feedback.base import FeedbackProvider
from rltf_verl.findings import Finding
from rltf_verl.kinds import shown
from rltf_verl.objectives.base import Objective
from rltf_verl.objectives.user_code import OwnCodeError, dry_run, naming_errors, own_function
from rltf_verl.policy import Policy
from rltf_verl.types import Episode, Row, TeacherSpan

SWITCH = "or rltf.logit_distill.divergence=sampled_token"
STRATEGY = "actor_rollout_ref.actor.strategy"
FSDP = ("fsdp", "fsdp2")


class LogitDistill(Objective[LogitDistillConfig]):
    """Attempts are pulled towards the distributions of a teacher that has read more
    (`episode.teacher`)."""

    Settings = LogitDistillConfig

    def with_roles(self, policy: Policy, row: Row, episode: Episode) -> Row:
        """With the prompts that the teacher of its attempts reads: before a later stretch of a
        trajectory, the attempt up to there too.
        """
        teachers: list[TeacherSpan] = []
        for turn, spans in spans_of(row).items():
            # `begin`: where the attempt starts in a row that may hold several.
            teacher, begin = episode.turns[turn].teacher, row.turn.index(turn)
            if teacher is None:
                continue
            for start, end in spans:
                ids = teacher.before(episode.turns[turn].attempt, start - begin)
                if ids is not None:
                    before = row.response_ids[begin:start]
                    against = tuple(voice + before for voice in teacher.against)
                    teachers.append(TeacherSpan(start, end, ids + before, against))
        return replace(row, teachers=tuple(teachers))

    @property
    def compares_siblings(self) -> bool:
        """A gate that scales leaves an advantage of 0 as it is."""
        return self.config.scales_advantages

    def trained_episodes(self, episodes: EpisodeBatch) -> torch.Tensor:
        """[S] bool: where an attempt has a teacher, and the gate leaves it a weight."""
        lives, gate = episodes.has_teacher, self.config.teacher.gate.name
        if self.config.scales_advantages:  # an advantage of 0 stays 0
            lives = torch.zeros_like(lives)
        elif gate == "route":
            lives = lives & ~episodes.correct
        elif gate == "variance":
            solved = solved_share(episodes)
            lives = lives & (solved > 0) & (solved < 1)
        return lives.any(dim=1)

    def refusals(
        self, setting: Callable[[str], Any], provider: FeedbackProvider
    ) -> Iterator[Finding]:
        """A divergence of distributions reads the logits of whole packed micro-batches."""
        if not self.enabled:
            return
        teacher, strategy = self.config.teacher, setting(STRATEGY)
        if is_own(teacher.gate.name):
            yield from dry_run(lambda: _gate(self.config, EXAMPLE_TOKENS))
        if is_own(self.settings.divergence.name):
            yield from dry_run(self._try_divergence)
        size = setting("actor_rollout_ref.rollout.n")
        if size == 1 and teacher.sources == ("sibling",):
            yield Finding(
                "actor_rollout_ref.rollout.n",
                size,
                "rltf.teacher.reads=sibling needs other episodes of the problem",
                "set it to 8, or let the teacher read something else",
            )
        kind = teacher.kind.name
        keeps = kind != "policy" and not (kind != "ema" and uses_lora(setting))
        if keeps and strategy not in FSDP:
            yield Finding(
                "rltf.teacher.kind",
                kind,
                f"{STRATEGY}={strategy} has no place for a second set of weights",
                "set it to fsdp or fsdp2, or kind to policy",
            )
        if self.settings.reads_logits:
            yield from _needs_logits(setting)

    def _try_divergence(self) -> None:
        """Raises OwnCodeError if the user's divergence has no number, or no gradient."""
        key, own = "rltf.logit_distill.divergence", self.settings.divergence
        function, place = own_function(key, own.name), f"{key}={own.name}"
        logits = torch.tensor([[0.0, 1.0, 2.0], [2.0, 0.0, -2.0]], requires_grad=True)
        student, teacher = logits.log_softmax(-1), logits.detach().flip(1).log_softmax(-1)
        with naming_errors(place, function):
            values = function(student, teacher, own.beta, own.term_clip)
            finite = values.shape == (2,) and bool(values.isfinite().all())
            (gradient,) = torch.autograd.grad(values.sum(), logits)
        if not (finite and bool(gradient.isfinite().all())):
            raise OwnCodeError(f"{place} returned {shown(values)}; return [N] finite numbers")


def _needs_logits(setting: Callable[[str], Any]) -> Iterator[Finding]:
    """Engines that have no logits of a whole row, or over the whole vocabulary."""

    def actor(*keys: str) -> list[Any]:  # other engines have other keys
        return [setting(f"actor_rollout_ref.actor.{key}") for key in keys]

    strategy, ulysses = setting(STRATEGY), "ulysses_sequence_parallel_size"
    ranks = max(n or 1 for n in actor(ulysses, f"fsdp_config.{ulysses}"))
    if strategy not in FSDP:
        yield Finding(
            STRATEGY,
            strategy,
            "rltf.logit_distill reads logits over the whole vocabulary, which other engines split",
            f"set it to fsdp or fsdp2, {SWITCH}",
        )
    if any([*actor("use_fused_kernels"), setting("actor_rollout_ref.model.use_fused_kernels")]):
        yield Finding(
            "actor_rollout_ref.model.use_fused_kernels",
            True,
            "the fused kernels never make the logits that rltf.logit_distill reads",
            f"set it to False, {SWITCH}",
        )
    if ranks > 1:
        yield Finding(
            f"actor_rollout_ref.actor.{ulysses}",
            ranks,
            "rltf.logit_distill needs whole sequences on a rank",
            f"set it to 1, {SWITCH}",
        )
    if any(actor("pad_to_length", "fsdp_config.pad_to_length")):
        yield Finding(
            "actor_rollout_ref.actor.pad_to_length",
            True,
            "verl refuses it together with top-k distillation",
            f"set it to False, {SWITCH}",
        )


EXAMPLE_TOKENS = Evidence(
    gap=torch.tensor([-2.0, 0.0, 2.0]),
    advantage=torch.tensor([-0.5, 0.0, 0.5]),
    right=torch.tensor([False, False, True]),
    solved=torch.tensor([0.0, 0.5, 1.0]),
)
"""Example inputs for checking a user's gate."""


def uses_lora(setting: Callable[[str], Any]) -> bool:
    """True if the policy is an adapter, by verl's own rules."""
    model = "actor_rollout_ref.model"
    rank = setting(f"{model}.lora.rank") or setting(f"{model}.lora_rank") or 0
    return int(rank) > 0 or setting(f"{model}.lora_adapter_path") is not None


def weigh_teacher_tokens(
    config: RLTFConfig,
    batch: RowBatch,
    targets: RowTargets,
    place: torch.Tensor,
    gap: torch.Tensor,
    entropy: torch.Tensor | None,
    weights: Mapping[str, float],
) -> tuple[RowTargets, torch.Tensor]:
    """Weights by verdict and teacher (`rltf.teacher.gate`), and by the teacher's own certainty
    (`rltf.logit_distill.entropy_decay`).

    Args:
        config: the settings.
        batch: the tokens of all rows.
        targets: of them.
        place: [P] int64, the tokens with a teacher.
        gap: [P] how much likelier the teacher finds them, nats.
        entropy: [P] of the teacher, where requested.
        weights: coefficient of each objective.

    Returns:
        The targets, and the [P] weight of each token in the teacher's loss.
    """
    advantages, weight = targets.advantages.clone(), torch.ones_like(gap)
    if config.teacher.gate.name != "none":
        # Without the coefficient; where that is 0 all advantages are.
        advantage = targets.advantages[place] / (config.attempt.weight or 1.0)
        factor, weight = _gate(config, _evidence(batch, advantage, place, gap))
        if config.scales_advantages:  # faded in and out by the coefficient
            factor = 1 + weights["logit_distill"] * (factor - 1)
        advantages[place] *= factor
    counts = weight > 0
    if entropy is not None and bool(counts.any()):
        sure = entropy_weight(entropy[counts], config.logit_distill.entropy_decay)
        # Mean 1 over the tokens that the gate has left: the others must not take a part of it.
        weight = weight.masked_scatter(counts, weight[counts] * sure)
    return replace(targets, advantages=advantages), weight


def _gate(config: RLTFConfig, evidence: Evidence) -> tuple[torch.Tensor, torch.Tensor]:
    chosen = config.teacher.gate
    name, scale = chosen.name, chosen.scale
    if name == "residual":
        return residual(
            evidence,
            GATES[name][1] if scale is None else scale,
            chosen.width,
            chosen.threshold,
        )
    if name in GATES:
        gate, usual = GATES[name]
        return gate(evidence, usual if scale is None else scale)
    key = "rltf.teacher.gate"
    function, place = own_function(key, name), f"{key}={name}"
    with naming_errors(place, function):
        returned = function(evidence, 1.0 if scale is None else scale)
    shape = evidence.gap.shape
    match returned:
        case (torch.Tensor(shape=a) as factor, torch.Tensor(shape=b) as weight) if a == b == shape:
            if bool((factor.isfinite() & weight.isfinite() & (weight >= 0)).all()):
                return factor, weight
    fix = f"return two tensors of shape {list(shape)}: finite factors, and weights of at least 0"
    raise OwnCodeError(f"{place} returned {shown(returned)}; {fix}")


def _evidence(
    batch: RowBatch, advantage: torch.Tensor, place: torch.Tensor, gap: torch.Tensor
) -> Evidence:
    episodes = batch.episodes
    episode, turn = batch.episode[place].long(), batch.turn[place].long()
    solved = solved_share(episodes)[episode, turn].to(gap.dtype)
    return Evidence(gap, advantage, episodes.correct[episode, turn], solved)
