"""What the trainers are raced on: puzzles with the demo's policy, dates or queries with a model."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env

ROOT = Path(__file__).resolve().parents[2]
DEMO_POLICY = ROOT / "recipes" / "demo" / "policy"
PRETRAINED = ROOT / "recipes" / "pretrained"
SQL = ROOT / "recipes" / "sql"
HOUSE = 31
"""Any: nothing is learnt from a race."""


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
    steps: int = 10
    """Of a run."""
    warm_up: int = 4
    """First steps, which are not counted."""
    rows_at_once: int = 0
    """Whose activations TRL has in memory at once; 0: all. verl bounds them by tokens."""
    lora_rank: int = 0
    """And alpha, of an adapter on all linear layers; 0: all weights are trained."""

    def make_env(self) -> Env:
        """The environment; its module needs no verl."""
        return make_env(self.env, **self.options)


def policy(task: Task) -> Path:
    """The folder of its weights: a language model's is made where it is not there, of dates the
    start with some right first answers.
    """
    if task.policy is not None:
        return task.policy
    sys.path.insert(0, str(PRETRAINED))  # the files beside it
    training = importlib.import_module("training")
    if task.name == "smollm2":
        return Path(training.Study(ROOT / "outputs" / "study_lm").model("date", "mixed", HOUSE))
    study = training.Study(ROOT / "outputs" / "sql")
    script = [str(SQL / "sql.sh"), "model"]
    return Path(study.made(study.out / "model", lambda part: study.call(script, OUT=str(part))))


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
    "sql": Task(
        name="sql",
        env=f"{SQL / 'text_to_sql.py'}:TextToSql",
        options={},
        seed=0,
        policy=None,
        hardware="cpu_bf16",
        prompt_tokens=768,
        answer_tokens=128,
        problems=8,
        answers=4,
        rate=2e-4,
        betas=(0.5, 0.95),
        top_k=0,
        teacher=("", ""),
        steps=3,
        warm_up=1,
        rows_at_once=4,
        lora_rank=32,
        ours=(
            "rltf/env=own",
            f"rltf.env.name={SQL / 'text_to_sql.py'}:TextToSql",
            "rltf.episode.context=append",
            "rltf.episode.val_feedback_every=null",
        ),
    ),
}
