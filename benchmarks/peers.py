"""TRL's SDPO trainer beside this package: the same model, batch and privileged text through both
losses.

    python benchmarks/peers.py                 # a table, with both numbers
    python benchmarks/peers.py --golden FILE   # small tensors and TRL's numbers for them, as JSON
    python benchmarks/peers.py --train LR SEED # accuracy over time of TRL's trainer, one JSON line

Runs where `trl` is installed; it is no dependency, and an environment of its own with `trl==1.16.0`
and the repository's root on PYTHONPATH will do. `tests/algos/test_trl_on_cpu.py` reads the file.
Beside `--train` stands `python -m benchmarks.study.teachers trl --problems 24 --steps 80`.

TRL samples the answers and makes the teacher's prompts; its student and its moving-average teacher
are then moved apart. Its loss comes from its trainer. Ours is made of forwards of our own, row by
row and without padding, by the equations of `rltf_verl.algos`, and is summed up as TRL sums it up:
the mean over answers of the mean over tokens.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from rltf_verl.algos.logit_distill import (
    DIVERGENCES,
    clipped_ratio,
    outcome_log_probs,
    sampled_token,
    top_k_ids,
)

POLICY = Path(__file__).parents[1] / "recipes" / "demo" / "policy"
TRL = "1.16.0"
ALPHA = {"forward_kl": 0.0, "jsd": 0.5, "reverse_kl": 1.0}
"""Our divergence -> TRL's `distillation_alpha`."""
BETA, TOP_K, CLIP = 0.5, 5, 2.0
NUM_PROMPTS, NUM_ANSWERS = 3, 4


@dataclass(frozen=True)
class Case:
    """One setting of both."""

    name: str
    trl: dict[str, Any]
    ours: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
    """(student's logits [T, V], teacher's, ids [T]) -> [T]."""
    apart: str = ""
    """What is defined in another way, where that shows; else both agree."""


def of_outcomes(
    divergence: str, top_k: int | None, of_student: bool = False
) -> Callable[..., torch.Tensor]:
    """Our divergence over the teacher's (or the student's) `top_k` likeliest tokens and the tail,
    or over the vocabulary.
    """

    def values(student: torch.Tensor, teacher: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        kept = top_k_ids(student if of_student else teacher, top_k or teacher.shape[-1])
        theirs, own = outcome_log_probs(teacher, kept), outcome_log_probs(student, kept)
        return DIVERGENCES[divergence](own, theirs, BETA)

    return values


def of_tokens(student: torch.Tensor, teacher: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Our loss on the tokens said."""
    return sampled_token(said(student, ids), said(teacher, ids))


def said(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """[T] log-probs of the ids."""
    return logits.log_softmax(-1).gather(-1, ids[:, None])[:, 0]


def cases() -> list[Case]:
    """All settings that are compared."""
    full = [
        Case(
            f"full vocabulary, {name}",
            {"distillation_mode": "full_logits", "distillation_alpha": alpha},
            of_outcomes(name, None),
        )
        for name, alpha in ALPHA.items()
    ]
    top = {
        name: {
            "distillation_mode": "topk_logits",
            "distillation_alpha": alpha,
            "distillation_topk": TOP_K,
            "distillation_add_tail": True,
        }
        for name, alpha in ALPHA.items()
    }
    kept = "TRL keeps the student's likeliest tokens, we the teacher's"
    sampled = {"distillation_mode": "sampled_token", "distillation_alpha": 1.0}
    return [
        *full,
        Case(
            "sampled token",
            sampled,
            of_tokens,
            "TRL's value has a factor log q, its gradient is ours",
        ),
        *(
            Case(f"top {TOP_K} of the student, {n}", t, of_outcomes(n, TOP_K, True))
            for n, t in top.items()
        ),
        *(Case(f"top {TOP_K}, {n}", t, of_outcomes(n, TOP_K), kept) for n, t in top.items()),
    ]


def trainer_of(folder: str) -> Any:
    """TRL's trainer of the demo's policy, on problems with privileged text."""
    rng = random.Random(0)
    rows = ["/".join("".join(rng.choices("01", k=3)) for _ in range(3)) for _ in range(NUM_PROMPTS)]
    return _trainer(
        folder,
        [(f"{row}?", row[::-1]) for row in rows],
        per_device_train_batch_size=NUM_PROMPTS * NUM_ANSWERS,
        num_generations=NUM_ANSWERS,
        max_completion_length=16,
        distillation_is_clip=CLIP,
        learning_rate=1e-4,
    )


def _trainer(folder: str, problems: Sequence[tuple[str, str]], **settings: Any) -> Any:
    """TRL's trainer without rewards; a problem is a question and its privileged text."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl.experimental.sdpo import SDPOConfig, SDPOTrainer

    def reward(completions: list[Any], **_: Any) -> list[float]:
        return [0.0] * len(completions)

    usual = {
        "use_cpu": True,
        "report_to": [],
        "include_environment_feedback": True,
        "reprompt_template": "{feedback}{prompt}",
        "feedback_template": "!{feedback_raw}\n",
        "teacher_model_kind": "ema",
        "temperature": 1.0,
        "seed": 0,
    }
    return SDPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(POLICY, dtype=torch.float32),
        reward_funcs=reward,
        args=SDPOConfig(output_dir=folder, **(usual | settings)),
        processing_class=AutoTokenizer.from_pretrained(POLICY),
        train_dataset=Dataset.from_list(
            [
                {"prompt": [{"role": "user", "content": question}], "privileged_context": text}
                for question, text in problems
            ]
        ),
    )


def batch_of(trainer: Any) -> Any:
    """Answers sampled by TRL, its teacher's prompts, and a student that has moved since."""
    problems = [trainer.train_dataset[i] for i in range(NUM_PROMPTS)]
    batch = trainer._prepare_training_batch([p for p in problems for _ in range(NUM_ANSWERS)])
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        if batch.get("old_per_token_logps") is None:
            batch["old_per_token_logps"] = torch.stack(
                [
                    _padded(said(*_logits(trainer.model, batch, i)[:2]), batch)
                    for i in range(len(batch["prompt_ids"]))
                ]
            )
        for parameter in trainer.model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(noise * 0.05 * parameter.std())
    return batch


def _padded(values: torch.Tensor, batch: Any) -> torch.Tensor:
    return torch.nn.functional.pad(values, (0, batch["completion_ids"].shape[1] - len(values)))


def _logits(
    model: Any, batch: Any, i: int, who: str = "student"
) -> tuple[torch.Tensor, torch.Tensor]:
    """[T, V] logits and [T] ids of answer `i`, by a forward without padding."""
    kept = batch["completion_mask"][i].bool()
    answer = batch["completion_ids"][i][kept]
    if who == "student":
        prompt = batch["prompt_ids"][i][batch["prompt_mask"][i].bool()]
    else:
        at = batch["teacher_input_ids"].shape[1] - batch["completion_ids"].shape[1]
        prompt = batch["teacher_input_ids"][i, :at]
        prompt = prompt[batch["teacher_attention_mask"][i, :at].bool()]
    logits = model(torch.cat([prompt, answer])[None]).logits[0]
    return logits[len(prompt) - 1 : -1], answer


def losses(trainer: Any, batch: Any, case: Case) -> tuple[float, float, float]:
    """(TRL's loss, ours, the largest difference of the gradients over TRL's largest entry)."""
    for key, value in case.trl.items():
        setattr(trainer.args, key, value)
    weights = [p for p in trainer.model.parameters() if p.requires_grad]
    theirs = trainer._compute_self_distillation_loss(
        trainer.model,
        batch,
        trainer._compute_teacher_student_logits(trainer.model, trainer.teacher_model, batch),
    )
    means = []
    for i in range(len(batch["prompt_ids"])):
        student, ids = _logits(trainer.model, batch, i)
        with torch.no_grad():
            teacher, _ = _logits(trainer.teacher_model, batch, i, "teacher")
        old = batch["old_per_token_logps"][i][: len(ids)]
        ratio = clipped_ratio(said(student, ids), old, CLIP)
        means.append((case.ours(student, teacher, ids) * ratio).mean())
    ours = torch.stack(means).mean()
    gradients = [torch.autograd.grad(loss, weights) for loss in (theirs, ours)]
    apart = max(float((a - b).abs().max()) for a, b in zip(*gradients, strict=True))
    largest = max(float(a.abs().max()) for a in gradients[0])
    return theirs.item(), ours.item(), apart / largest


def compared() -> bool:
    """Print the table. Returns whether all that should agree do."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_of(folder)
        batch = batch_of(trainer)
        print("| setting | TRL | ours | gradients apart | |")
        print("|---|---|---|---|---|")
        good = True
        for case in cases():
            theirs, ours, apart = losses(trainer, batch, case)
            agree = abs(theirs - ours) < 1e-4 and apart < 1e-4
            good &= agree or bool(case.apart)
            verdict = "agree" if agree else case.apart or "ARE APART"
            print(f"| {case.name} | {theirs:.6f} | {ours:.6f} | {apart:.1e} | {verdict} |")
    return good


def trained(lr: float, seed: int, steps: int = 80, every: int = 20) -> dict[str, Any]:
    """TRL's trainer on the problems of the study: answers to held-out problems every few steps, and
    CPU seconds per step. What is set is what `teachers.BESIDE_TRL` has.
    """
    from transformers import TrainerCallback

    from benchmarks.study import settings

    splits = settings.problems()
    watched = splits.test[: settings.NUM_WATCHED]
    held_out: dict[int, dict[str, float]] = {}
    seconds, start = 0.0, 0.0

    class Watch(TrainerCallback):
        """Tests between steps, and counts time within them."""

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            held_out[0] = _graded(trainer, watched)

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            nonlocal start
            start = time.process_time()

        def on_step_end(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
            nonlocal seconds
            seconds += time.process_time() - start
            if state.global_step % every == 0:
                held_out[state.global_step] = _graded(trainer, watched)

    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(
            folder,
            [(settings.study_env().prompt(p), p.demonstration) for p in splits.train],
            per_device_train_batch_size=48,
            num_generations=2,
            max_completion_length=20,
            teacher_model_kind="base",
            distillation_mode="full_logits",
            distillation_alpha=0.5,
            distillation_is_clip=None,
            learning_rate=lr,
            lr_scheduler_type="constant",
            max_steps=steps,
            bf16=False,
            gradient_checkpointing=False,
            save_strategy="no",
            disable_tqdm=True,
            seed=seed,
        )
        trainer.add_callback(Watch())
        trainer.train()
    return {"arm": "trl", "lr": lr, "seed": seed, "cpu_s": seconds / steps, "held_out": held_out}


def _graded(trainer: Any, problems: Sequence[Any]) -> dict[str, float]:
    """Shares of right answers and of those in the right format, several sampled to each problem."""
    from benchmarks.study.settings import SESSIONS_TESTED, study_env

    tokenizer, env = trainer.processing_class, study_env()
    asked = [p for p in problems for _ in range(SESSIONS_TESTED)]
    prompts = [[{"role": "user", "content": env.prompt(p)}] for p in asked]
    inputs = tokenizer.apply_chat_template(
        prompts, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
    )
    with torch.no_grad():
        ids = trainer.model.generate(**inputs, generation_config=trainer.generation_config)
    texts = tokenizer.batch_decode(ids[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    grades = [env.grade(p, text) for p, text in zip(asked, texts, strict=True)]
    return {
        "acc": fmean(grade.correct for grade in grades),
        "format_ok": fmean(grade.format_ok for grade in grades),
    }


def golden() -> dict[str, Any]:
    """Small tensors, and what TRL's functions make of them token by token."""
    from trl.experimental.sdpo import loss_utils

    generator = torch.Generator().manual_seed(0)
    student, teacher = torch.randn(2, 6, 7, generator=generator, dtype=torch.float64) * 2
    ids = torch.randint(7, (6,), generator=generator)
    old = said(student, ids) + torch.tensor([0.0, 0.3, -0.3, -2.0, 2.0, -0.69])
    # One support for both sides, so that "the likeliest of the student" and "of the teacher" agree.
    teacher[:, 3:] -= 12.0
    student[:, 3:] -= 12.0
    result: dict[str, Any] = {"trl": TRL, "student": student.tolist(), "teacher": teacher.tolist()}
    result |= {"ids": ids.tolist(), "old": old.tolist(), "top_k": 3}
    for name, alpha in ALPHA.items():
        result[f"full_logits, {name}"] = loss_utils.compute_full_logit_self_distillation_loss(
            student, teacher, distillation_alpha=alpha
        ).tolist()
        result[f"topk_logits, {name}"] = loss_utils.compute_topk_self_distillation_loss(
            student,
            teacher,
            distillation_topk=3,
            distillation_alpha=alpha,
            distillation_add_tail=True,
        ).tolist()
    logits = student.clone().requires_grad_()
    value = loss_utils.compute_sampled_token_self_distillation_loss(
        logits, teacher, ids, distillation_alpha=1.0
    )
    clipped = loss_utils.apply_importance_sampling_clipping(value, said(logits, ids), old, CLIP)
    (gradient,) = torch.autograd.grad(clipped.sum(), logits)
    return result | {"sampled_token, gradient in the student's logits": gradient.tolist()}


def main(words: list[str] | None = None) -> None:
    """Exits with 1 if something is apart that should not be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--golden", type=Path, help="write this file instead")
    parser.add_argument("--train", nargs=2, metavar=("LR", "SEED"), help="train instead")
    options = parser.parse_args(words)
    try:
        import trl
    except ImportError:
        sys.exit(f"benchmarks/peers.py: trl is not installed here; pip install trl=={TRL}")
    if trl.__version__ != TRL:
        print(f"made for trl {TRL}, this is {trl.__version__}", file=sys.stderr)
    if options.train:
        print(json.dumps(trained(float(options.train[0]), int(options.train[1]))))
    elif options.golden is None:
        sys.exit(0 if compared() else 1)
    else:
        options.golden.write_text(json.dumps(golden(), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
