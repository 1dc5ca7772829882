"""What is compared: arms, seeds, and everything that all runs share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from rltf_verl.envs.base import Splits
from rltf_verl.envs.binary_matrix.env import BinaryMatrix
from rltf_verl.types import Problem

if TYPE_CHECKING:
    from omegaconf import DictConfig

REVISE = "compact"
NUM_TRAIN, NUM_TEST = 4000, 100
NUM_WATCHED, EPISODES_TESTED = 24, 4
"""Held-out problems of the curves of teachers; answers to each when testing."""


@dataclass(frozen=True)
class Arm:
    """What is compared: a preset, what is changed in it, and what feedback modelling learns."""

    preset: str
    overrides: tuple[str, ...] = ()
    control: str = ""
    """See `controls`."""


def _fm(weight: float, control: str = "") -> Arm:
    return Arm("fm", (f"rltf.feedback_modeling.weight={weight}",), control)


RATES = {"grpo": 2e-4, "sd": 2e-4, "sft": 2e-4, "fm": 2e-4}
"""Per preset; `tune.py` compares rates on a policy of its own."""

ARMS = {
    "grpo": Arm("grpo"),
    "fm 0.1": _fm(0.1),
    "fm 0.1 derange": _fm(0.1, "derange"),
    "sd": Arm("sd"),
    "sft": Arm("sft"),
    "fm 0.02": _fm(0.02),
    "fm 0.5": _fm(0.5),
    "fm 0.1 marginal": _fm(0.1, "marginal"),
}
"""`fm` is GRPO and feedback modelling with a weight."""

TUNING_SEED = 0
"""Policy and seed by which learning rates were chosen; reported on nowhere."""


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    steps: int = 160
    problems: int = 4
    """Per step."""
    episodes: int = 4
    """Per problem."""
    eval_every: int = 80
    num_test: int = 48
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    """Each has a policy of its own."""


QUICK = Scale(steps=2, problems=2, episodes=2, eval_every=1, num_test=4, seeds=(1,))


@dataclass(frozen=True)
class Run:
    """One run of the study: an arm on the policy of a seed."""

    arm: str
    seed: int

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.arm.replace(' ', '_')}-s{self.seed}"

    @property
    def policy(self) -> str:
        """Folder of the policy that it starts from."""
        return f"policies/vague-{self.seed}"

    @property
    def preset(self) -> str:
        """`rltf/method=<preset>` is its configuration."""
        return ARMS[self.arm].preset

    def overrides(self, scale: Scale) -> list[str]:
        """What stands on the command line of this run."""
        return [
            *SHARED,
            *ARMS[self.arm].overrides,
            f"actor_rollout_ref.actor.optim.lr={RATES[self.preset]}",
            f"rltf.seed={self.seed}",
            f"data.seed={self.seed}",
            f"data.train_batch_size={scale.problems}",
            f"actor_rollout_ref.rollout.n={scale.episodes}",
        ]

    def config(self, scale: Scale) -> DictConfig:
        """The configuration that `main_ppo --config-name=rltf rltf/method=<preset>` would have."""
        return compose_config(self.preset, self.overrides(scale))


SHARED = [
    "rltf/hardware=cpu",
    "actor_rollout_ref.model.path=none",
    "rltf.env.style=compact",
    f"rltf.episode.revise={REVISE}",
    "rltf.feedback_modeling.critic=compact",
    "data.max_prompt_length=96",
    "data.max_response_length=24",
    "rltf/feedback=verifier_full",
]


def all_runs(scale: Scale) -> list[Run]:
    """Seeds outermost, so that a study that is cut short has every arm."""
    return [Run(arm, seed) for seed in scale.seeds for arm in ARMS]


def compose_config(method: str, overrides: Sequence[str]) -> DictConfig:
    """verl's configuration with one of our presets, on the CPU."""
    # `problems` is also for those who have no verl.
    import verl  # noqa: F401  # registers our search path with Hydra
    from hydra import compose, initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("rltf", [f"rltf/method={method}", *overrides])


@cache
def study_env() -> BinaryMatrix:
    """3x3 matrices, as lines of digits."""
    return BinaryMatrix(style="compact", n_min=3, n_max=3)


@cache
def problems() -> Splits:
    """One split for everything: no test matrix is trained on, in the warm start neither.

    Without the matrices that are their own answer, half of all as they are drawn: with them in,
    every method learns to copy within 20 steps, and GRPO stays there.
    """
    splits = study_env().build(0, NUM_TRAIN, NUM_TEST)
    train, test = (
        [with_marks(p) for p in part if p.data["matrix"] != p.data["solution"]]
        for part in (splits.train, splits.test)
    )
    return Splits(tuple(train), tuple(test))


def with_marks(problem: Problem) -> Problem:
    """Its demonstration is what the verifier says to the right answer: each cell's digit."""
    right = f"\\boxed{{{problem.reference}}}"
    grade = study_env().grade(problem, right)
    return replace(problem, demonstration=study_env().explain(problem, right, grade, "full"))


def reported_problems(scale: Scale) -> list[Problem]:
    """What the study reports on: two of three held-out problems."""
    return [p for i, p in enumerate(problems().test) if i % 3 != 2][: scale.num_test]


def tuning_problems() -> list[Problem]:
    """The third of the held-out problems by which learning rates were chosen."""
    return list(problems().test[2::3])
