"""What is compared: methods, feedback levels, seeds, and everything that all runs share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import verl  # noqa: F401  # registers our search path with Hydra
from hydra import compose, initialize_config_module
from omegaconf import DictConfig

from rltf_verl.envs.base import Splits
from rltf_verl.envs.binary_matrix import BinaryMatrix
from rltf_verl.types import Problem

REVISE = "compact"
NUM_TRAIN, NUM_TEST = 4000, 100

LEVELS = {
    "full": ["rltf/feedback=verifier_full"],
    "correctness": ["rltf/feedback=correctness"],
}
"""Feedback: all that can be said, or right and wrong only."""

METHODS = {
    "full": ("grpo_single", "grpo", "sd", "fm", "sd_fm", "sft"),
    "correctness": ("grpo", "sd", "sft"),
}
"""`grpo_single` hears no feedback, so it stands at one level only; feedback modelling refuses a constant sentence."""

VARIANTS = {("full", "grpo", "gamma0"): ["rltf.gamma=0"]}
"""(level, method, name) -> what a sensitivity row changes."""


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    steps: int = 80
    problems: int = 8
    """Per step."""
    sessions: int = 4
    """Per problem."""
    eval_every: int = 20
    num_test: int = 48
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


QUICK = Scale(steps=2, problems=2, sessions=2, eval_every=1, num_test=4, seeds=(0,))


@dataclass(frozen=True)
class Run:
    """One run of the study."""

    level: str
    method: str
    seed: int
    variant: str = ""

    @property
    def arm(self) -> str:
        """What is averaged over seeds."""
        return "-".join(filter(None, (self.level, self.method, self.variant)))

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.arm}-s{self.seed}"

    def steps(self, scale: Scale) -> int:
        """One answer per session: twice the sessions for as many attempts as the others can have."""
        return scale.steps * (2 if self.method == "grpo_single" else 1)

    def overrides(self, scale: Scale) -> list[str]:
        """What stands on the command line of this run."""
        return [
            *SHARED, *LEVELS[self.level], *VARIANTS.get((self.level, self.method, self.variant), ()),
            f"rltf.seed={self.seed}", f"data.seed={self.seed}", f"data.train_batch_size={scale.problems}",
            f"actor_rollout_ref.rollout.n={scale.sessions}",
        ]  # fmt: skip

    def config(self, scale: Scale) -> DictConfig:
        """The configuration that `main_ppo --config-name=rltf_<method>` would have."""
        return compose_config(self.method, self.overrides(scale))


SHARED = [
    "rltf/hardware=cpu",
    "actor_rollout_ref.model.path=none",
    "rltf.env.style=compact",
    f"rltf.episode.revise={REVISE}",
    "rltf.feedback_modeling.critic=compact",
    "data.max_prompt_length=96",
    "data.max_response_length=24",
    "actor_rollout_ref.actor.optim.lr=2e-4",
]


def all_runs(scale: Scale) -> list[Run]:
    """Seeds outermost, so that a study that is cut short has every arm."""
    arms = [(level, method, "") for level, methods in METHODS.items() for method in methods]
    return [Run(level, method, seed, variant) for seed in scale.seeds for level, method, variant in [*arms, *VARIANTS]]


def compose_config(method: str, overrides: Sequence[str]) -> DictConfig:
    """verl's configuration with one of our presets, on the CPU."""
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose(f"rltf_{method}", list(overrides))


@cache
def study_env() -> BinaryMatrix:
    """3x3 matrices, as lines of digits."""
    return BinaryMatrix(style="compact", n_min=3, n_max=3)


@cache
def problems() -> Splits:
    """One split for everything: no test matrix is trained on, in the warm start neither.

    Without the matrices that are their own answer, half of all as they are drawn: with them in, every method learns to
    copy within 20 steps, and GRPO stays there.
    """
    splits = study_env().build(0, NUM_TRAIN, NUM_TEST)
    train, test = ([p for p in part if p.data["matrix"] != p.data["solution"]] for part in (splits.train, splits.test))
    return Splits(tuple(train), tuple(test))


def reported_problems(scale: Scale) -> list[Problem]:
    """What the study reports on: two of three held-out problems."""
    return [p for i, p in enumerate(problems().test) if i % 3 != 2][: scale.num_test]


def tuning_problems() -> list[Problem]:
    """The third of the held-out problems by which the learning rate was chosen."""
    return list(problems().test[2::3])
