"""TRL's trainers of a task's policy, and a program that trains one of them as an arm of the race.

  python -m benchmarks.peers.trl_trainers grpo TRAIN --task tiny --policy FOLDER --seed 1

Runs where `trl` is installed. Writes a line per step to the file that VERL_FILE_LOGGER_PATH names,
in the form of verl's file logger.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.peers.problems import read, scores
from benchmarks.peers.tasks import TASKS, Task
from rltf_verl.types import Problem

TEACHER = {
    "teacher_model_kind": "base",
    "distillation_alpha": 0.5,
    "distillation_is_clip": None,
}
"""As `arms.TEACHER`."""


def race_settings(task: Task) -> dict[str, Any]:
    """As verl's and the task's."""
    rows = task.problems * task.answers
    at_once = task.rows_at_once or rows
    return {
        "per_device_train_batch_size": at_once,
        "gradient_accumulation_steps": rows // at_once,
        "num_generations": task.answers,
        "max_completion_length": task.answer_tokens,
        "learning_rate": task.rate,
        "adam_beta1": task.betas[0],
        "adam_beta2": task.betas[1],
        "weight_decay": 0.01,
        "max_grad_norm": 1.0,
        "lr_scheduler_type": "constant",
        "bf16": task.hardware == "cpu_bf16",  # by autocast over fp32 weights, as verl's FSDP has it
        "gradient_checkpointing": False,
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
    }


def teacher_settings(task: Task) -> dict[str, Any]:
    """What the teacher's distribution is compared by."""
    if not task.top_k:
        return {**TEACHER, "distillation_mode": "full_logits"}
    top = {"distillation_topk": task.top_k, "distillation_add_tail": True}
    return {**TEACHER, "distillation_mode": "topk_logits", **top}


def _usual() -> dict[str, Any]:
    return {"use_cpu": True, "report_to": [], "temperature": 1.0, "seed": 0}


def _model_and_tokenizer(task: Task) -> dict[str, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return {
        "model": AutoModelForCausalLM.from_pretrained(task.policy, dtype=torch.float32),
        "processing_class": AutoTokenizer.from_pretrained(task.policy, padding_side="left"),
    }


def sdpo(folder: str, task: Task, problems: Sequence[tuple[str, str]], **settings: Any) -> Any:
    """TRL's SDPO trainer without rewards; a problem is a question and its privileged text."""
    from datasets import Dataset
    from trl.experimental.sdpo import SDPOConfig, SDPOTrainer

    def reward(completions: list[Any], **_: Any) -> list[float]:
        return [0.0] * len(completions)

    prompt, feedback = task.teacher
    prompts = {
        "include_environment_feedback": True,
        "reprompt_template": prompt,
        "feedback_template": feedback,
        "teacher_model_kind": "ema",
    }
    return SDPOTrainer(
        reward_funcs=reward,
        args=SDPOConfig(output_dir=folder, **(_usual() | prompts | settings)),
        train_dataset=Dataset.from_list(
            [{"prompt": _chat(question), "privileged_context": text} for question, text in problems]
        ),
        **_model_and_tokenizer(task),
    )


def grpo(folder: str, task: Task, problems: Sequence[Problem], **settings: Any) -> Any:
    """TRL's GRPO trainer with our environment's grade as the reward."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    env = task.make_env()

    def reward(completions: list[Any], number: list[int], **_: Any) -> list[float]:
        texts = [completion[0]["content"] for completion in completions]
        return [graded["score"] for graded in scores([problems[i] for i in number], texts)]

    return GRPOTrainer(
        reward_funcs=reward,
        args=GRPOConfig(output_dir=folder, **(_usual() | settings)),
        train_dataset=Dataset.from_list(
            [
                {"prompt": _chat(env.prompt(problem)), "number": i}
                for i, problem in enumerate(problems)
            ]
        ),
        **_model_and_tokenizer(task),
        **_adapter(task),
    )


def _adapter(task: Task) -> dict[str, Any]:
    if not task.lora_rank:
        return {}
    from peft import LoraConfig

    rank = {"r": task.lora_rank, "lora_alpha": task.lora_rank}
    return {"peft_config": LoraConfig(target_modules="all-linear", **rank)}


def _chat(question: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}]


def watched(trainer: Any, out: Path) -> None:
    """Let a trainer write its metrics: tokens of each step."""
    from transformers import TrainerCallback

    tokens = 0
    loss = trainer.compute_loss

    def counted(model: Any, inputs: Any, *rest: Any, **named: Any) -> Any:
        nonlocal tokens
        tokens += int(inputs["completion_mask"].sum())
        return loss(model, inputs, *rest, **named)

    class Watch(TrainerCallback):
        """Counts tokens of steps."""

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            nonlocal tokens
            tokens = 0

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            line = {"step": state.global_step, "data": {"tokens": tokens}}
            with out.open("a") as file:
                file.write(json.dumps(line) + "\n")

    trainer.compute_loss = counted
    trainer.add_callback(Watch())


def main() -> None:
    """Train one arm."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("trainer", choices=("grpo", "sdpo"))
    parser.add_argument("train", type=Path)
    parser.add_argument("--task", choices=tuple(TASKS), required=True)
    parser.add_argument("--hardware", default="cpu")
    parser.add_argument("--policy", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    task = replace(TASKS[args.task], hardware=args.hardware, policy=args.policy)
    problems = read(args.train)
    settings = {**race_settings(task), "max_steps": task.steps, "seed": args.seed}
    with tempfile.TemporaryDirectory() as folder:
        if args.trainer == "grpo":
            trainer = grpo(folder, task, problems, **settings)
        else:
            env = task.make_env()
            texts = [(env.prompt(p), p.demonstration) for p in problems]
            trainer = sdpo(folder, task, texts, **settings, **teacher_settings(task))
        out = Path(os.environ["VERL_FILE_LOGGER_PATH"])
        watched(trainer, out)
        trainer.train()


if __name__ == "__main__":
    main()
