"""What the trainers are raced on: the tiny demo's puzzles, or dates with a language model."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rltf_verl.envs.base import Env
from rltf_verl.envs.binary_matrix.env import BinaryMatrix

ROOT = Path(__file__).resolve().parents[2]
DEMO_POLICY = ROOT / "recipes" / "demo" / "policy"
PRETRAINED = ROOT / "recipes" / "pretrained"
HOUSE = 31
"""Any: nothing is learnt from a race."""
STEPS = 10
"""Of a run."""


@dataclass(frozen=True)
class Task:
    """Problems, a policy, and the settings that all trainers share."""

    name: str
    env: str
    options: Mapping[str, Any]
    seed: int
    policy: Path | None
    """None: made by `policy`."""
    prompt_tokens: int
    answer_tokens: int
    problems: int
    """Per step."""
    answers: int
    """Per problem."""
    rate: float
    betas: tuple[float, float]
    top_k: int
    """Outcomes that a teacher keeps apart; 0: TRL compares the whole vocabulary."""
    teacher: tuple[str, str]
    """Its prompt, and what stands in the place of `{feedback}` there."""
    ours: tuple[str, ...]
    """Overrides of this package's runs."""
    hardware: str = "cpu"
    """Preset of verl's runs; TRL computes in bf16 where it does."""

    def make_env(self) -> Env:
        """The environment; its module needs no verl."""
        if self.env == "binary_matrix":
            return BinaryMatrix(**self.options)
        env: Env = _recipe_module("house_style").HouseStyle(**self.options)
        return env


def policy(task: Task) -> Path:
    """The folder of its weights; the pretrained model's start with some right first answers is made
    where it is not there.
    """
    if task.policy is not None:
        return task.policy
    study = _recipe_module("training").Study(ROOT / "outputs" / "study_lm")
    made: Path = study.model("date", "mixed", HOUSE)
    return made


@cache
def _recipe_module(name: str) -> Any:
    if str(PRETRAINED) not in sys.path:
        sys.path.insert(0, str(PRETRAINED))  # the files beside it
    return importlib.import_module(name)


TASKS = {
    "tiny": Task(
        name="tiny",
        env="binary_matrix",
        options={"n_min": 3, "n_max": 3, "style": "compact"},
        seed=0,
        policy=DEMO_POLICY,
        prompt_tokens=64,
        answer_tokens=20,
        problems=24,
        answers=2,
        rate=5e-4,
        betas=(0.9, 0.999),
        top_k=0,
        teacher=("{feedback}{prompt}", "!{feedback_raw}\n"),
        ours=(
            "rltf.env.style=compact",
            "rltf.episode.revise=compact_guide",
            "rltf.episode.val_feedback_every=null",
        ),
    ),
    "smollm2": Task(
        name="smollm2",
        env=f"{PRETRAINED / 'house_style.py'}:HouseStyle",
        options={"family": "date"},
        seed=HOUSE,
        policy=None,
        hardware="cpu_bf16",
        prompt_tokens=512,
        answer_tokens=48,
        problems=4,
        answers=8,
        rate=2e-5,
        betas=(0.5, 0.95),
        top_k=100,
        teacher=("{prompt}{feedback}\n\nAnswer the question again.", "\n\n{feedback_raw}"),
        ours=(
            "rltf/env=own",
            f"rltf.env.name={PRETRAINED / 'house_style.py'}:HouseStyle",
            "+rltf.env.family=date",
            "rltf.episode.context=fresh",
            "rltf.episode.val_feedback_every=null",
        ),
    ),
}
