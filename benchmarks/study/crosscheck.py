"""The loop of this study against the real verl trainer, at the demo's settings.

    python -m benchmarks.study.crosscheck DEMO_OUT [--steps 85]

DEMO_OUT is what `recipes/demo/run_demo.py --out DEMO_OUT` left. Plays the same steps here and
compares episode by episode with the demo's episode log, and held-out accuracy where the demo
measured it.
"""

from __future__ import annotations

import argparse
import shlex
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.study.settings import compose_config, study_env
from benchmarks.study.train import Trainer, accuracies
from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.types import Episode

NUM_TRAIN, NUM_TEST, EVAL_EVERY = 2000, 100, 17
METHODS = ("grpo", "sd")
NOT_OURS = ("--", "hydra.", "trainer.")


def compare(demo: Path, method: str, num_steps: int) -> None:
    """Print, per step, how many episodes are the same token for token."""
    splits = study_env().build(0, NUM_TRAIN, NUM_TEST)
    command = shlex.split((demo / method / "command.txt").read_text())
    config = compose_config(method, [a for a in command if "=" in a and not a.startswith(NOT_OURS)])
    trainer = Trainer(config, Path(config.actor_rollout_ref.model.path), splits.train, num_steps)
    theirs = _answers(demo / method / "checkpoints" / "episodes", "train")
    tested = _answers(demo / method / "checkpoints" / "episodes", "val")
    for step in range(num_steps + 1):
        if step:
            episodes, _ = trainer.step(step)
            if step in theirs:
                same = sum(_texts(e) in theirs[step][e.problem.index] for e in episodes)
                print(
                    f"{method} step {step}: {same} of {len(episodes)} training sessions are the"
                    " same",
                    flush=True,
                )
        if step % EVAL_EVERY == 0:
            here = accuracies([e for e in trainer.test(splits.test, step) if e.session_id == 0])
            first = [
                answers[0][1] for answers in (a for by in tested.get(step, {}).values() for a in by)
            ]
            there = sum(first) / len(first) if first else float("nan")
            print(
                f"{method} step {step}: held-out first turn {here['acc']:.3f} here, {there:.3f} in"
                " verl",
                flush=True,
            )


Answers = dict[int, list[list[tuple[str, bool]]]]


def _answers(folder: Path, split: str) -> dict[int, Answers]:
    """step -> problem -> episodes, each a list of (text, right)."""
    found: dict[int, Answers] = defaultdict(lambda: defaultdict(list))
    for record in read_episodes(folder):
        if record["split"] == split:
            found[record["step"]][record["index"]].append(
                [_answer(turn) for turn in record["turns"]]
            )
    return found


def _answer(turn: dict[str, Any]) -> tuple[str, bool]:
    return turn["text"], turn["grade"]["correct"]


def _texts(episode: Episode) -> list[tuple[str, bool]]:
    return [(turn.attempt.text, turn.grade.correct) for turn in episode.turns]


def main() -> None:
    """Both methods of the demo."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("demo", type=Path)
    parser.add_argument("--steps", type=int, default=85)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for method in METHODS:
        compare(arguments.demo, method, arguments.steps)


if __name__ == "__main__":
    main()
