"""Does predicting feedback make later labels worth more? Feedback modelling alone, then SFT, on a
blank policy.

    python -m benchmarks.study.mechanism [--out outputs/study] [--seeds 1 2 3 4 5 6] [--tune]

Every seed has a policy of its own (`policy.py`). Every arm but `none` trains it to predict marks on
guesses, one mark per cell (level `hint`): `fm` the true marks, `derange` and `marginal` as in
`controls.py`. Then SFT on right first answers, the same for all arms. The measure is the number of
SFT steps to `TARGET`. No reward and no second turn: attempts are drawn as the policy was taught to
guess.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)
from transformers.utils.logging import disable_progress_bar

from benchmarks.study.controls import CONTROLS, shuffle_places
from benchmarks.study.policy import (
    RECIPES,
    Example,
    Recipe,
    answer,
    collate,
    critic,
    guess,
    make_policy,
)
from benchmarks.study.runs import made, write
from benchmarks.study.settings import (
    TUNING_SEED,
    Scale,
    problems,
    reported_problems,
    study_env,
    tuning_problems,
)
from rltf_verl.types import Problem

ARMS = ("none", "fm", *CONTROLS)
TARGET = 0.4
RATES = (5e-4, 1e-3)


@dataclass(frozen=True)
class Plan:
    """How much is trained."""

    feedback_steps: int = 200
    feedback_batch: int = 16
    feedback_rate: float = 1e-3
    label_steps: int = 240
    label_batch: int = 8
    label_rate: float = 1e-3
    every: int = 20
    """SFT steps between two looks at the held-out problems."""


QUICK = Plan(feedback_steps=2, label_steps=2, every=1)


class Student:
    """A policy in plain supervised training."""

    def __init__(self, folder: Path, rate: float) -> None:
        self.model: LlamaForCausalLM = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32
        )
        self.tokenizer: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(folder)
        self.restart(rate)

    def restart(self, rate: float) -> None:
        """A new optimiser, so that no arm's SFT starts with another's moments."""
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01
        )

    def learn(self, batch: list[Example]) -> float:
        """One update; returns the loss per token."""
        ids, labels = collate(batch, self.tokenizer)
        loss = self.model(input_ids=ids, labels=labels).loss
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return float(loss.detach())

    @torch.no_grad()
    def accuracy(self, held_out: Sequence[Problem]) -> float:
        """Mean probability of the right first answer: what sampling would give on average, without
        its noise.
        """
        ids, labels = collate([label(problem) for problem in held_out], self.tokenizer)
        log_probs = self.model(input_ids=ids).logits[:, :-1].log_softmax(-1)
        wanted = labels[:, 1:]
        each = log_probs.gather(-1, wanted.clamp(min=0)[..., None]).squeeze(-1)
        return float(torch.where(wanted >= 0, each, 0.0).sum(-1).exp().mean())


def label(problem: Problem) -> Example:
    """(question, right answer)."""
    return study_env().prompt(problem), answer(problem.data["solution"])


def feedback_batches(arm: str, size: int, seed: int) -> Iterator[list[Example]]:
    """Endless batches of (critic prompt, marks), all of different matrices."""
    rng, env = random.Random(seed), study_env()
    pool = list({str(p.data["matrix"]): p for p in problems().train}.values())
    while True:
        batch = rng.sample(pool, size)
        attempts = [guess(rng, problem) for problem in batch]
        marks = [
            env.explain(p, a, env.grade(p, a), "hint") for p, a in zip(batch, attempts, strict=True)
        ]
        prompts = [critic(env.prompt(p), a) for p, a in zip(batch, attempts, strict=True)]
        yield list(zip(prompts, controlled(arm, marks, rng), strict=True))


def controlled(arm: str, marks: list[str], rng: random.Random) -> list[str]:
    """The marks that the arm learns."""
    if arm == "derange":
        return [*marks[1:], marks[0]]
    return ["".join(row) for row in shuffle_places(marks, rng)] if arm == "marginal" else marks


def label_batches(size: int, seed: int) -> Iterator[list[Example]]:
    """Endless batches of labels, the same for all arms of a seed."""
    rng, pool = random.Random(seed), problems().train
    while True:
        yield [label(problem) for problem in rng.sample(pool, size)]


def play(
    arm: str, seed: int, policy: Path, plan: Plan, held_out: Sequence[Problem]
) -> dict[str, Any]:
    """One arm on one policy: marks, then labels. Returns what is written."""
    start, student = time.perf_counter(), Student(policy, plan.feedback_rate)
    before = student.accuracy(held_out)
    marks = feedback_batches(arm, plan.feedback_batch, seed)
    steps = 0 if arm == "none" else plan.feedback_steps
    losses = [student.learn(next(marks)) for _ in range(steps)]
    student.restart(plan.label_rate)
    curve, labels = [student.accuracy(held_out)], label_batches(plan.label_batch, seed)
    for step in range(1, plan.label_steps + 1):
        student.learn(next(labels))
        if step % plan.every == 0:
            curve.append(student.accuracy(held_out))
    tail = losses[-20:]
    return {
        "arm": arm,
        "seed": seed,
        "start": before,
        "every": plan.every,
        "curve": [round(a, 4) for a in curve],
        "steps_to_target": steps_to(curve, plan.every),
        "marks_loss": sum(tail) / len(tail) if tail else None,
        "seconds": round(time.perf_counter() - start, 1),
    }


def steps_to(curve: Sequence[float], every: int) -> float | None:
    """SFT steps to `TARGET`, on the line between two looks; None if it was not reached."""
    for i, (low, high) in enumerate(pairwise(curve)):
        if high >= TARGET:
            return every * (i + (TARGET - low) / (high - low)) if low < TARGET else 0.0
    return None


def run_seed(
    seed: int,
    out: Path,
    plan: Plan,
    recipe: Recipe,
    arms: Sequence[str] = ARMS,
    folder: str = "mechanism",
) -> None:
    """All arms of one policy; what has its file is not run again."""
    torch.set_num_threads(1)
    disable_progress_bar()
    policy = out / "policies" / f"blank-{seed}"
    if not made(policy):
        make_policy(policy, recipe, seed)
    held_out = tuning_problems() if seed == TUNING_SEED else reported_problems(Scale())
    for arm in arms:
        path = out / folder / f"{arm}-{seed}.json"
        if not path.exists():
            record = {**play(arm, seed, policy, plan, held_out), "plan": asdict(plan)}
            write(path, record)
            print(record, flush=True)


def tune(out: Path) -> None:
    """SFT's rate with no feedback before it, then FM's with that; the printed records say which was
    best.
    """
    for rate in RATES:
        run_seed(
            TUNING_SEED,
            out,
            Plan(label_rate=rate),
            RECIPES["blank"],
            ["none"],
            f"tuning/labels-{rate:g}",
        )
        run_seed(
            TUNING_SEED,
            out,
            Plan(feedback_rate=rate),
            RECIPES["blank"],
            ["fm"],
            f"tuning/marks-{rate:g}",
        )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("outputs/study"))
    parser.add_argument("--seeds", type=int, nargs="+", default=Scale().seeds)
    parser.add_argument("--tune", action="store_true")
    arguments = parser.parse_args()
    if arguments.tune:
        tune(arguments.out)
    for seed in () if arguments.tune else arguments.seeds:
        run_seed(seed, arguments.out, Plan(), RECIPES["blank"])


if __name__ == "__main__":
    main()
