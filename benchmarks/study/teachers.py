"""Which teacher of `rltf.logit_distill` stands a learning rate at which the live one collapses.

    python -m benchmarks.study.teachers [--lr 5e-4] [--steps 60] [--out FILE] [kind:divergence …]

The demo's policy and problems, in the study's one process instead of verl's
trainer; rows, teachers' prompts, divergences and gates are the project's own. Prints one line per
run; a run is a teacher, a divergence and a seed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
import verl  # noqa: F401  # registers our search path with Hydra
from hydra import compose, initialize_config_module
from omegaconf import DictConfig
from transformers import PreTrainedModel

from benchmarks.study.learner import Learner
from benchmarks.study.settings import problems
from benchmarks.study.train import Trainer, accuracies
from rltf_verl.adapters.training.kept_weights import KeptWeights
from rltf_verl.algos.logit_distill import (
    logit_divergence,
    outcome_log_probs,
    sampled_token,
    top_k_ids,
)
from rltf_verl.algos.sessions import Sessions
from rltf_verl.algos.targets import RowBatch, RowTargets
from rltf_verl.config import RLTFConfig
from rltf_verl.types import Row

Ids = tuple[int, ...]

ROOT = Path(__file__).parents[2]
POLICY = ROOT / "recipes" / "demo" / "policy"
ARMS = [
    f"{kind}:{divergence}"
    for kind in ("policy", "base", "ema", "trust_region")
    for divergence in ("jsd", "sampled_token")
]
SETTINGS = [
    "rltf/hardware=cpu",
    "actor_rollout_ref.model.path=none",
    "rltf.env.style=compact",
    "rltf/feedback=verifier_full",
    "rltf.episode.revise=compact_guide",
    "data.max_prompt_length=64",
    "data.max_response_length=20",
]


class TaughtLearner(Learner):
    """The study's learner with the teacher's loss beside the roles'."""

    def __init__(
        self, model: PreTrainedModel, config: DictConfig, rltf: RLTFConfig, num_steps: int
    ) -> None:
        super().__init__(model, config, rltf, num_steps)
        teacher = rltf.teacher
        self.kept = KeptWeights(model, teacher.policy_share if teacher.kind == "ema" else 0.0)
        self.divergence = 0.0

    def update(
        self, rows: Sequence[Row], session: Sequence[int], sessions: Sessions, step: int
    ) -> dict[str, float]:
        """The teacher's answers, before a graph needs the weights; one update; a step of the
        average.
        """
        spans = [(row, span) for row in rows for span in row.teachers]
        self.said = [row.response_ids[span.start : span.end] for row, span in spans]
        self.before = [row.prompt_ids + row.response_ids[: span.start] for row, span in spans]
        if spans:
            self.told = self._teacher([span.prompt_ids for _, span in spans], self.said)
        metrics = super().update(rows, session, sessions, step)
        if self.kept.share:
            self.kept.follow(self.model)
        return metrics | {"divergence": self.divergence}

    def _token_sum(
        self, log_prob: torch.Tensor, batch: RowBatch, targets: RowTargets
    ) -> torch.Tensor:
        of_roles = super()._token_sum(log_prob, batch, targets)
        if not self.said:
            return of_roles
        values = self._divergences(
            _logits(self.model, self.before, self.said),
            self.told,
            torch.tensor([token for ids in self.said for token in ids])[:, None],
        )
        self.divergence = float(values.detach().mean())
        return of_roles + self.rltf.logit_distill.weight * values.sum()  # type: ignore[operator]

    def _divergences(
        self, student: torch.Tensor, teacher: torch.Tensor, said: torch.Tensor
    ) -> torch.Tensor:
        own = self.rltf.logit_distill
        if own.divergence == "sampled_token":
            return sampled_token(
                *(logits.log_softmax(-1).gather(-1, said)[:, 0] for logits in (student, teacher))
            )
        kept, rows = top_k_ids(teacher, own.top_k), torch.arange(len(said))
        told = outcome_log_probs(teacher, kept)
        return logit_divergence(student, rows, kept, told, own.divergence, own.beta, own.term_clip)

    @torch.no_grad()
    def _teacher(self, prompts: Sequence[Ids], said: Sequence[Ids]) -> torch.Tensor:
        """[M, V] logits of the teacher."""
        kind, share = self.rltf.teacher.kind, self.rltf.teacher.policy_share
        if kind in ("policy", "trust_region"):
            live = _logits(self.model, prompts, said)
        if kind == "policy":
            return live
        with self.kept.in_place(self.model):
            kept = _logits(self.model, prompts, said)
        if kind != "trust_region":
            return kept
        return (share * live.softmax(-1) + (1 - share) * kept.softmax(-1)).log()


def _logits(model: PreTrainedModel, before: Sequence[Ids], said: Sequence[Ids]) -> torch.Tensor:
    """[M, V] at the tokens said, one answer after the other."""
    whole = [torch.tensor(a + b) for a, b in zip(before, said, strict=True)]
    ids = torch.nn.utils.rnn.pad_sequence(whole, batch_first=True)
    logits = model(input_ids=ids).logits
    parts = zip(logits, before, said, strict=True)
    return torch.cat([own[len(a) - 1 : len(a) - 1 + len(b)] for own, a, b in parts])


def run(arm: str, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """One run: accuracy, format and divergence every few steps."""
    kind, _, divergence = arm.partition(":")
    method = [
        f"rltf.teacher.kind={kind}",
        f"rltf.logit_distill.divergence={divergence}",
        f"actor_rollout_ref.actor.optim.lr={args.lr}",
        f"rltf.seed={seed}",
        f"data.seed={seed}",
        f"data.train_batch_size={args.problems}",
        "actor_rollout_ref.rollout.n=2",
    ]
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("rltf", ["rltf/method=sd_logit", *SETTINGS, *method])
    trainer = Trainer(config, POLICY, problems().train, args.steps)
    trainer.learner = TaughtLearner(trainer.learner.model, config, trainer.rltf, args.steps)
    curve = []
    for step in range(1, args.steps + 1):
        episodes, metrics = trainer.step(step)
        played = accuracies(episodes)
        curve.append({"step": step, "divergence": metrics["divergence"], **played})
    return {"arm": arm, "seed": seed, "curve": curve}


def shown(result: dict[str, Any], window: int = 5) -> str:
    """`arm  seed  first and last steps of each number`."""
    curve = result["curve"]
    cells = []
    for name in ("divergence", "format_ok", "acc_turn_2", "acc"):
        ends = [fmean(at[name] for at in part) for part in (curve[:window], curve[-window:])]
        cells.append(f"{name} {ends[0]:.3f} -> {ends[1]:.3f}")
    worst = min(at["format_ok"] for at in curve)
    return f"{result['arm']:24} seed {result['seed']}  {'  '.join(cells)}  worst format {worst:.2f}"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the arms, one after the other, seeds outermost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("arms", nargs="*", default=ARMS)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--problems", type=int, default=24)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, default=Path("outputs/study/teachers.jsonl"))
    args = parser.parse_args(argv)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for seed in args.seeds:
        for arm in args.arms:
            result = run(arm, seed, args)
            with args.out.open("a") as file:
                file.write(json.dumps(result) + "\n")
            print(shown(result), flush=True)


if __name__ == "__main__":
    main()
