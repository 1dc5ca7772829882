"""Which teacher of `rltf.logit_distill` stands a learning rate at which the live one collapses.

    python -m benchmarks.study.teachers [kind:divergence[:override …] …] [--lr 2e-3 5e-4]
        [--steps 60] [--problems 8] [--seeds 1 2 3] [--test-every 20] [--out FILE]

The demo's policy and problems, in the study's one process instead of verl's trainer; rows,
teachers' prompts, divergences and gates are the project's own. A run is an arm (a teacher, a
divergence, further settings), a learning rate and a seed. Prints a line per run and a table of all
runs in FILE; one that FILE holds is not run again. The arm `trl` is set as TRL's SDPO trainer is in
`benchmarks/peers`, but for the weight decay.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from omegaconf import DictConfig
from transformers import PreTrainedModel

from benchmarks.study.learner import Learner
from benchmarks.study.settings import NUM_WATCHED, compose_config, problems
from benchmarks.study.train import Trainer, accuracies
from rltf_verl.adapters.training.kept_weights import KeptWeights
from rltf_verl.algos.episodes import EpisodeBatch
from rltf_verl.algos.logit_distill import (
    logit_divergence,
    outcome_log_probs,
    sampled_token,
    top_k_ids,
)
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
    # As SDPO: no reward, no second answer.
    "rltf.attempt.weight=0",
    "rltf.episode.horizon=1",
]
BESIDE_TRL = [
    "base:jsd",
    "rltf.logit_distill.top_k=104",
    "rltf.teacher.right=true",
    "rltf.teacher.reads=demonstration",
    "rltf.teacher.prompt=teacher/compact",
    "actor_rollout_ref.actor.optim.weight_decay=0",
]
"""TRL's teacher reads a text of the problem, for right answers too, and tells of all tokens."""


class TeacherLearner(Learner):
    """The study's learner with the teacher's loss beside the roles'."""

    def __init__(
        self, model: PreTrainedModel, config: DictConfig, rltf: RLTFConfig, num_steps: int
    ) -> None:
        super().__init__(model, config, rltf, num_steps)
        teacher = rltf.teacher
        self.kept = KeptWeights(model, teacher.policy_share if teacher.kind == "ema" else 0.0)
        self.divergence = 0.0

    def update(
        self, rows: Sequence[Row], session: Sequence[int], sessions: EpisodeBatch, step: int
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


def run(arm: str, lr: float, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """One run: accuracy, format and divergence of each step, CPU seconds per step, and held-out
    problems every few steps.
    """
    kind, divergence, *overrides = (":".join(BESIDE_TRL) if arm == "trl" else arm).split(":")
    method = [
        f"rltf.teacher.kind={kind}",
        f"rltf.logit_distill.divergence={divergence}",
        *overrides,
        f"actor_rollout_ref.actor.optim.lr={lr}",
        f"rltf.seed={seed}",
        f"data.seed={seed}",
        f"data.train_batch_size={args.problems}",
        "actor_rollout_ref.rollout.n=2",
    ]
    config = compose_config("teacher/sd_logit", [*SETTINGS, *method])
    trainer = Trainer(config, POLICY, problems().train, args.steps)
    trainer.learner = TeacherLearner(trainer.learner.model, config, trainer.rltf, args.steps)
    curve, held_out, seconds = [], {}, 0.0
    for step in range(args.steps + 1):
        if step:
            start = time.process_time()
            episodes, metrics = trainer.step(step)
            seconds += time.process_time() - start
            played = accuracies(episodes)
            curve.append({"step": step, "divergence": metrics["divergence"], **played})
        if step % args.test_every == 0 or step == args.steps:
            held_out[step] = accuracies(trainer.test(problems().test[:NUM_WATCHED], step))
    named = _named(arm, lr, seed, args)
    return {**named, "cpu_s": seconds / args.steps, "held_out": held_out, "curve": curve}


def _named(arm: str, lr: float, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """What makes a run another one."""
    return {"arm": arm, "lr": lr, "seed": seed, "steps": args.steps, "problems": args.problems}


def shown(result: dict[str, Any], window: int = 5) -> str:
    """`arm  seed  first and last steps of each number`."""
    curve = result["curve"]
    cells = []
    for name in ("divergence", "format_ok", "acc"):
        ends = [fmean(at[name] for at in part) for part in (curve[:window], curve[-window:])]
        cells.append(f"{name} {ends[0]:.3f} -> {ends[1]:.3f}")
    worst = min(at["format_ok"] for at in curve)
    name = f"{result['arm']:24} lr {result['lr']:g}  seed {result['seed']}"
    held_out = [f"{of['acc']:.3f}/{of['acc_turn_2']:.3f}" for of in result["held_out"].values()]
    return f"{name}  {'  '.join(cells)}  worst format {worst:.2f}  held out {' '.join(held_out)}"


def table(results: Sequence[dict[str, Any]]) -> str:
    """Markdown: what the held-out problems say after the last step, each seed's number."""
    names = {"acc": "first answers", "format_ok": "right format", "acc_turn_2": "second answers"}
    lines = [f"| arm | learning rate | {' | '.join(names.values())} |", "|---|---:|---:|---:|---:|"]
    by_arm = defaultdict(list)
    for one in results:
        by_arm[one["arm"], one["lr"]].append(list(one["held_out"].values())[-1])
    for (arm, lr), own in by_arm.items():
        cells = [", ".join(f"{of[name]:.2f}" for of in own) for name in names]
        lines.append(f"| {arm} | {lr:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is missing, one after the other, seeds outermost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("arms", nargs="*", default=ARMS)
    parser.add_argument("--lr", type=float, nargs="+", default=[5e-4])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--problems", type=int, default=24)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--test-every", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("outputs/study/teachers.jsonl"))
    args = parser.parse_args(argv)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.touch()
    there = [json.loads(line) for line in args.out.read_text().splitlines()]
    for seed, lr, arm in product(args.seeds, args.lr, args.arms):
        named = _named(arm, lr, seed, args)
        if any(named.items() <= result.items() for result in there):
            continue
        result = run(arm, lr, seed, args)
        with args.out.open("a") as file:
            file.write(json.dumps(result) + "\n")
        print(shown(result), flush=True)
        there.append(result)
    print(table(there))


if __name__ == "__main__":
    main()
