"""Who takes part in the race, and the command that starts each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.problems import Files

HERE = Path(__file__).resolve().parent
POLICY = HERE.parents[1] / "recipes" / "demo" / "policy"


@dataclass(frozen=True)
class Arm:
    """A trainer with a method."""

    name: str
    """In the table."""
    verl: tuple[str, ...] = ()
    """Overrides of `main_ppo`; empty: TRL."""
    files: str = "ours"
    """Which of the problems' files it reads."""
    trl: str = ""
    """TRL's trainer."""


SHARED = [
    f"actor_rollout_ref.model.path={POLICY}",
    "data.max_prompt_length=64",
    "data.max_response_length=20",
    "data.train_batch_size=24",
    "actor_rollout_ref.rollout.n=2",
    "actor_rollout_ref.rollout.val_kwargs.n=4",
    "actor_rollout_ref.actor.optim.lr=5e-4",
    "actor_rollout_ref.actor.optim.weight_decay=0.01",
    "trainer.logger=[file]",
    "trainer.val_before_train=false",
    "trainer.save_freq=-1",
    "trainer.resume_mode=disable",
]
"""Of all runs of verl; validation samples four answers of each held-out problem."""

OURS = (
    "rltf/hardware=cpu",
    "rltf.env.style=compact",
    "rltf.episode.revise=compact_guide",
    "rltf.episode.val_feedback_every=null",
)
TEACHER = (
    "rltf/method=teacher/sd_logit",
    "rltf/feedback=verifier_full",
    "rltf.attempt.weight=0",
    "rltf.episode.horizon=1",
    "rltf.teacher.kind=base",
    "rltf.logit_distill.top_k=104",
    "rltf.teacher.right=true",
    "rltf.teacher.reads=demonstration",
    "rltf.teacher.prompt=teacher/compact",
)
"""`sd_logit` as TRL's SDPO trainer is set."""
VERL = (
    "--config-name=ppo_trainer",
    "+rltf/hardware=cpu",
    "algorithm.adv_estimator=grpo",
    "data.return_raw_chat=true",
    "actor_rollout_ref.rollout.calculate_log_probs=true",
    "actor_rollout_ref.rollout.val_kwargs.do_sample=true",
    "actor_rollout_ref.rollout.val_kwargs.temperature=1.0",
    "actor_rollout_ref.actor.ppo_mini_batch_size=24",
    f"reward.custom_reward_function.path={HERE / 'problems.py'}",
)

ARMS = {
    "verl_grpo": Arm("verl: GRPO", VERL, "verl"),
    "grpo_single": Arm("this package: GRPO, one turn", ("--config-name=rltf_grpo_single", *OURS)),
    "grpo": Arm(
        "this package: GRPO, two turns",
        ("--config-name=rltf_grpo", "rltf/feedback=verifier_full", *OURS),
    ),
    "sd": Arm(
        "this package: RLTF-SD",
        (
            "--config-name=rltf_sd",
            "rltf/feedback=verifier_full",
            "rltf.distill.weight=1.0",
            *OURS,
        ),
    ),
    "sd_logit": Arm("this package: `sd_logit`", ("--config-name=rltf", *TEACHER, *OURS)),
    "trl_grpo": Arm("TRL: GRPO", trl="grpo"),
    "trl_sdpo": Arm("TRL: SDPO", trl="sdpo"),
}


def verl_overrides(arm: Arm, files: Files, steps: int, every: int, seed: int) -> list[str]:
    """Of a run of an arm of verl's trainer.

    Args:
        arm: which.
        files: its problems.
        steps: to train.
        every: how many steps are between two validations.
        seed: of the problems' order and of what is sampled.
    """
    seeds = [f"data.seed={seed}", *([] if arm.files == "verl" else [f"rltf.seed={seed}"])]
    return [
        *arm.verl,
        *SHARED,
        *seeds,
        f"data.train_files={files.train}",
        f"data.val_files={files.test}",
        f"trainer.total_training_steps={steps}",
        f"trainer.test_freq={every}",
    ]


def trl_command(
    python: Path, arm: Arm, files: Files, steps: int, every: int, seed: int
) -> list[str]:
    """Of a run of one of TRL's trainers with the interpreter that has `trl`; else as above."""
    options = {"steps": steps, "every": every, "seed": seed}
    return [
        str(python),
        "-m",
        "benchmarks.peers.trl_trainers",
        arm.trl,
        str(files.train),
        str(files.test),
        *(f"--{name}={value}" for name, value in options.items()),
    ]
