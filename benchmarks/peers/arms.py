"""Who takes part in the race, and the command that starts each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.problems import Files
from benchmarks.peers.tasks import Task

HERE = Path(__file__).resolve().parent


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
LM_TEACHER = (
    "rltf/method=teacher/sd_logit",
    "rltf/feedback=verifier",
    "rltf.feedback.level=hint",
    "rltf.attempt.weight=0",
    "rltf.episode.horizon=1",
    "rltf.teacher.kind=base",
    "rltf.logit_distill.top_k=100",
    "rltf.teacher.right=true",
    "rltf.teacher.reads=demonstration",
    f"rltf.teacher.prompt={HERE / 'teacher.j2'}",
)
"""As above, with a prompt in the words of the warm-up."""
VERL = (
    "--config-name=ppo_trainer",
    "algorithm.adv_estimator=grpo",
    "data.return_raw_chat=true",
    "actor_rollout_ref.rollout.calculate_log_probs=true",
    "actor_rollout_ref.actor.ppo_mini_batch_size=${data.train_batch_size}",
    f"reward.custom_reward_function.path={HERE / 'problems.py'}",
)
ALL_ROWS = "actor_rollout_ref.actor.entropy_coeff=1e-9"
"""Else this package leaves rows without a gradient out of the update."""
SD = ("--config-name=rltf_sd", "rltf.distill.weight=1.0")
HINT = ("rltf/feedback=verifier", "rltf.feedback.level=hint", "rltf.distill.baseline=rejection")
SINGLE = "--config-name=rltf_grpo_single"


def arms_of(sd: tuple[str, ...], teacher: tuple[str, ...]) -> dict[str, Arm]:
    """A task's arms; `sd` and `teacher` are those methods' words for its feedback."""
    return {
        "verl_grpo": Arm("verl: GRPO", VERL, "verl"),
        "grpo_all": Arm("GRPO, one turn, all rows", (SINGLE, ALL_ROWS)),
        "grpo_single": Arm("GRPO, one turn", (SINGLE,)),
        "sd": Arm("RLTF-SD", (*SD, *sd)),
        "sd_logit": Arm("`sd_logit`", ("--config-name=rltf", *teacher)),
        "trl_grpo": Arm("TRL: GRPO", trl="grpo"),
        "trl_sdpo": Arm("TRL: SDPO", trl="sdpo"),
    }


ARMS = {
    "tiny": arms_of(("rltf/feedback=verifier_full",), TEACHER),
    "smollm2": arms_of(HINT, LM_TEACHER),
    "sql": {
        key: arm
        for key, arm in arms_of(("rltf/feedback=verifier",), ()).items()
        if key in ("grpo_all", "grpo_single", "sd", "trl_grpo")
    },
}
"""Task -> key -> arm."""


def verl_overrides(task: Task, arm: Arm, files: Files, seed: int) -> list[str]:
    """Of a run of an arm of verl's trainer.

    Args:
        task: problems, policy and settings.
        arm: which.
        files: its problems.
        seed: of the problems' order and of what is sampled.
    """
    own = (
        [f"+rltf/hardware={task.hardware}"]
        if arm.files == "verl"
        else [f"rltf/hardware={task.hardware}", *task.ours, f"rltf.seed={seed}"]
    )
    return [
        *arm.verl,
        *own,
        *shared(task),
        f"data.seed={seed}",
        f"data.train_files={files.train}",
        f"data.val_files={files.test}",
    ]


def shared(task: Task) -> list[str]:
    """Of all runs of verl."""
    rollout, optim = "actor_rollout_ref.rollout", "actor_rollout_ref.actor.optim"
    return [
        f"actor_rollout_ref.model.path={task.policy}",
        f"actor_rollout_ref.model.lora_rank={task.lora_rank}",
        f"actor_rollout_ref.model.lora_alpha={task.lora_rank}",
        f"data.max_prompt_length={task.prompt_tokens}",
        f"data.max_response_length={task.answer_tokens}",
        f"data.train_batch_size={task.problems}",
        f"{rollout}.n={task.answers}",
        f"{optim}.lr={task.rate}",
        f"{optim}.betas=[{task.betas[0]},{task.betas[1]}]",
        f"{optim}.weight_decay=0.01",
        "trainer.logger=[file]",
        f"trainer.total_training_steps={task.steps}",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
        "trainer.resume_mode=disable",
    ]


def trl_command(python: Path, task: Task, arm: Arm, files: Files, seed: int) -> list[str]:
    """Of a run of one of TRL's trainers with the interpreter that has `trl`; else as above."""
    options = {"task": task.name, "hardware": task.hardware, "policy": task.policy, "seed": seed}
    return [
        str(python),
        "-m",
        "benchmarks.peers.trl_trainers",
        arm.trl,
        str(files.train),
        *(f"--{name}={value}" for name, value in options.items()),
    ]
