"""TRL's SDPO trainer beside this package: the same model, batch and privileged text through both
losses.

TRL samples the answers and makes the teacher's prompts; its student and its moving-average teacher
are then moved apart. Its loss comes from its trainer. Ours is made of forwards of our own, row by
row and without padding, by the equations of `rltf_verl.algos`, and is summed up as TRL sums it up:
the mean over answers of the mean over tokens. `tests/algos/test_trl_on_cpu.py` reads what `golden`
makes.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.peers.tasks import TASKS
from benchmarks.peers.trl_trainers import sdpo
from rltf_verl.algos.logit_distill import (
    DIVERGENCES,
    clipped_ratio,
    outcome_log_probs,
    sampled_token,
    top_k_ids,
)

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
    return sdpo(
        folder,
        TASKS["tiny"],
        [(f"{row}?", row[::-1]) for row in rows],
        per_device_train_batch_size=NUM_PROMPTS * NUM_ANSWERS,
        num_generations=NUM_ANSWERS,
        max_completion_length=16,
        distillation_is_clip=CLIP,
        learning_rate=1e-4,
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
    result: dict[str, Any] = {"student": student.tolist(), "teacher": teacher.tolist()}
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
