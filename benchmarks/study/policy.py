"""The study's tiny policies: the demo's architecture and tokenizer, warm-started by a recipe and a
seed.

    python -m benchmarks.study.policy FOLDER [--recipe vague] [--seed 0]

`vague`: it guesses. A 0 stays 0, and it has a vague idea of the other distances (`KNOWN` of them
are right), so rewards differ from the first step on. It can use feedback of the level `full` on an
attempt, taught towards random changes.

`blank`: a 0 stays 0, every other cell is drawn uniformly from 1 to 3. It knows nothing of
distances.

Both also teach the form of a critique, with random content.

The seed decides weights and examples. The same seed gives the same policy on the same machine;
elsewhere the CPU's kernels round differently, and hundreds of steps turn that into another policy.
So results name the start of each one.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks.study.settings import REVISE, problems, study_env
from recipes.demo.make_policy import BOX, make_model, make_tokenizer
from rltf_verl.envs.binary_matrix.env import Matrix
from rltf_verl.prompts import render
from rltf_verl.types import Grade, Problem

DIGITS = range(5)
BATCH_SIZE = 32
KNOWN = 0.25
"""Share of right cells in a guess, before the others are drawn from `OTHERS`."""
OTHERS = {1: 0.6, 2: 0.3, 3: 0.1}


@dataclass(frozen=True)
class Recipe:
    """A warm start."""

    steps: int
    learning_rate: float
    first: str
    """What a first answer, and an attempt that feedback is about, looks like: `guess` or
    `blank`.
    """
    shares: dict[str, float]
    """How often an example is a first answer, the use of `full` feedback, or a critique (`marks`:
    see `critic`).
    """


RECIPES = {
    "vague": Recipe(400, 2e-3, "guess", {"question": 0.25, "full": 0.6, "critique": 0.15}),
    "blank": Recipe(300, 2e-3, "blank", {"question": 0.5, "marks": 0.5}),
}

Example = tuple[str, str]
"""(prompt, answer)."""


def examples(recipe: Recipe, seed: int) -> Iterator[Example]:
    """Endless warm-up examples on training problems."""
    rng, pool = random.Random(seed), problems().train
    kinds, shares = list(recipe.shares), list(recipe.shares.values())
    while True:
        yield example(rng, rng.choice(pool), rng.choices(kinds, shares)[0], recipe.first)


def example(rng: random.Random, problem: Problem, kind: str, first: str) -> Example:
    """One example of a kind (`Recipe.shares`)."""
    question = study_env().prompt(problem)
    if kind == "question":
        return question, answer(_first(rng, problem, first))
    attempt = _first(rng, problem, first)
    target = _noisy(rng, attempt, rng.random() ** 0.5)
    level = {"critique": rng.choice(["hint", "full"]), "marks": "hint"}.get(kind, kind)
    pretended = replace(problem, data={**problem.data, "solution": target})
    marks = study_env().explain(pretended, answer(attempt), Grade(attempt == target, True), level)
    if kind == "critique":
        return render("critic/compact", question=question, attempt=answer(attempt)), marks
    if kind == "marks":
        return critic(question, answer(attempt)), marks
    return _revise(question, attempt, marks), answer(target)


def critic(question: str, attempt: str) -> str:
    """A critic prompt that ends like the first prompt.

    Mark i is as far behind the question's cell i as answer cell i is; the last line break stands
    for the opening box.
    """
    return f"?{attempt}\n!{question}\n"


def guess(rng: random.Random, problem: Problem) -> str:
    """A first answer of the `blank` policy."""
    return answer(_first(rng, problem, "blank"))


def _first(rng: random.Random, problem: Problem, first: str) -> Matrix:
    if first == "blank":
        return [
            [rng.randint(1, 3) if cell else 0 for cell in row] for row in problem.data["solution"]
        ]
    return [[_guess(rng, cell) for cell in row] for row in problem.data["solution"]]


def _guess(rng: random.Random, right: int) -> int:
    if right == 0 or rng.random() < KNOWN:
        return right
    return rng.choices(list(OTHERS), list(OTHERS.values()))[0]


def _noisy(rng: random.Random, matrix: Matrix, noise: float) -> Matrix:
    return [
        [rng.choice(DIGITS) if rng.random() < noise else cell for cell in row] for row in matrix
    ]


def answer(grid: Matrix) -> str:
    return BOX + "\n".join("".join(map(str, row)) for row in grid) + "}"


def _revise(question: str, attempt: Matrix, feedback: str) -> str:
    return render(f"revise/{REVISE}", question=question, attempt=answer(attempt), feedback=feedback)


def warm_up(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, recipe: Recipe, seed: int
) -> None:
    """Next-token training on the answers."""
    rate, steps = recipe.learning_rate, recipe.steps
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=rate, total_steps=max(steps, 2), pct_start=0.1
    )
    stream = examples(recipe, seed)
    for step in range(steps):
        ids, labels = collate([next(stream) for _ in range(BATCH_SIZE)], tokenizer)
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == steps - 1:
            print(f"warm-up step {step:4d}/{steps}  loss {loss.item():.4f}", flush=True)


def collate(
    batch: list[Example], tokenizer: PreTrainedTokenizerFast
) -> tuple[torch.Tensor, torch.Tensor]:
    """Padded on the right, where a causal model cannot see it."""
    ids, labels = [], []
    for prompt_text, answer in batch:
        prompt = tokenizer.encode(f"<user>{prompt_text}<assistant>", add_special_tokens=False)
        target = [*tokenizer.encode(answer, add_special_tokens=False), tokenizer.eos_token_id]
        ids.append(torch.tensor([*prompt, *target]))
        labels.append(torch.tensor([-100] * len(prompt) + target))
    pad = torch.nn.utils.rnn.pad_sequence
    return pad(ids, batch_first=True), pad(labels, batch_first=True, padding_value=-100)


def make_policy(folder: Path, recipe: Recipe, seed: int = 0) -> None:
    """Train from scratch and save in Hugging Face's format."""
    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    model = make_model(len(tokenizer), seed)
    warm_up(model, tokenizer, recipe, seed)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--recipe", choices=RECIPES, default="vague")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    make_policy(arguments.folder, RECIPES[arguments.recipe], arguments.seed)


if __name__ == "__main__":
    main()
