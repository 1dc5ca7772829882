"""What the trainers are raced on: the tiny demo's puzzles, or dates with a language model."""

from __future__ import annotations

import importlib.util
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
STUDY = ROOT / "outputs" / "study_lm"
HOUSE = 21
"""On which no setting was chosen."""


@dataclass(frozen=True)
class Task:
    """Problems, a policy, and the settings that all trainers share."""

    env: str
    options: Mapping[str, Any]
    seed: int
    num_train: int
    num_test: int
    policy: Path
    prompt_tokens: int
    answer_tokens: int
    problems: int
    """Per step."""
    answers: int
    """Per problem."""
    tested: int
    """Answers per held-out problem."""
    rate: float
    betas: tuple[float, float]
    hardware: str
    """Preset of verl's runs; TRL computes in bf16 where it does."""
    targets: tuple[float, float]
    """Held-out accuracies to reach."""
    steps: int
    every: int
    top_k: int
    """Outcomes that a teacher keeps apart; 0: TRL compares the whole vocabulary."""
    teacher: tuple[str, str]
    """Its prompt, and what stands in the place of `{feedback}` there."""
    ours: tuple[str, ...]
    """Overrides of this package's runs."""

    def make_env(self) -> Env:
        """The environment; its module needs no verl."""
        if self.env == "binary_matrix":
            return BinaryMatrix(**self.options)
        env: Env = _house_style().HouseStyle(**self.options)
        return env


@cache
def _house_style() -> Any:
    path = PRETRAINED / "house_style.py"
    sys.path.insert(0, str(PRETRAINED))  # the files beside it
    spec = importlib.util.spec_from_file_location("house_style", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TASKS = {
    "tiny": Task(
        env="binary_matrix",
        options={"n_min": 3, "n_max": 3, "style": "compact"},
        seed=0,
        num_train=2000,
        num_test=100,
        policy=DEMO_POLICY,
        prompt_tokens=64,
        answer_tokens=20,
        problems=24,
        answers=2,
        tested=4,
        rate=5e-4,
        betas=(0.9, 0.999),
        hardware="cpu",
        targets=(0.2, 0.35),
        steps=85,
        every=5,
        top_k=0,
        teacher=("{feedback}{prompt}", "!{feedback_raw}\n"),
        ours=(
            "rltf.env.style=compact",
            "rltf.episode.revise=compact_guide",
            "rltf.episode.val_feedback_every=null",
        ),
    ),
    "smollm2": Task(
        env=f"{PRETRAINED / 'house_style.py'}:HouseStyle",
        options={"family": "date"},
        seed=HOUSE,
        num_train=512,
        num_test=64,
        policy=STUDY / f"mixed_{HOUSE}",
        prompt_tokens=512,
        answer_tokens=48,
        problems=4,
        answers=8,
        tested=1,
        rate=2e-5,
        betas=(0.5, 0.95),
        hardware="cpu_bf16",
        targets=(0.5, 0.9),
        steps=32,
        every=4,
        top_k=100,
        teacher=("{prompt}{feedback}\n\nAnswer the question again.", "\n\n{feedback_raw}"),
        ours=(
            "rltf/env=own",
            f"rltf.env.name={PRETRAINED / 'house_style.py'}:HouseStyle",
            "+rltf.env.family=date",
            "rltf.episode.val_feedback_every=null",
        ),
    ),
}
