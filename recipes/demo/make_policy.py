r"""Make the demo's tiny policy: a Llama of 0.34 M parameters with a character tokenizer.

    python recipes/demo/make_policy.py OUT_DIR

Warm-started on two skills that have nothing to do with the task: answering a matrix with random
digits, and applying feedback (`<2`: the cell is too small and should be 2). Questions, answers
and corrections are all random, so the policy learns to follow feedback but nothing of what a
right first answer looks like.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rltf_verl.envs.base import FeedbackLevel
from rltf_verl.envs.binary_matrix.env import BinaryMatrix
from rltf_verl.prompts import render
from rltf_verl.types import Grade, Problem

N = 3
DIGITS = range(5)
SPECIAL = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<bos>", "eos_token": "<end>"}
HEADERS = ("<user>", "<assistant>")
BOX = "\\boxed{"
"""One token, to keep answers short."""

CHAT_TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}<end>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token per printable character, beside the special tokens and the box."""
    characters = [*map(chr, range(32, 127)), "\n", "…"]
    vocab = {token: i for i, token in enumerate([*SPECIAL.values(), *HEADERS, *characters])}
    core = Tokenizer(models.WordLevel(vocab, unk_token=SPECIAL["unk_token"]))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    core.add_tokens([AddedToken(BOX, normalized=False)])
    core.add_special_tokens([AddedToken(t, special=True) for t in HEADERS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, **SPECIAL, clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def make_model(vocab_size: int, seed: int, num_heads: int = 4) -> LlamaForCausalLM:
    """3 layers, width 96, tied embeddings, fp32."""
    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocab_size,
            hidden_size=96,
            intermediate_size=256,
            num_hidden_layers=3,
            num_attention_heads=num_heads,
            num_key_value_heads=num_heads,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            rms_norm_eps=1e-6,
            pad_token_id=0,
            bos_token_id=2,
            eos_token_id=3,
        )
    )


Example: TypeAlias = tuple[list[dict[str, str]], str]
"""Messages, and the answer to them."""


FORMS: dict[FeedbackLevel, str] = {"full": "compact_guide", "hint": "compact"}
"""Feedback -> the prompt with it; a direction says nothing without the answer."""


def examples(seed: int, level: FeedbackLevel = "full") -> Iterator[Example]:
    """Endless (messages, answer) pairs: a random first answer, or feedback applied to an answer."""
    rng, env = random.Random(seed), BinaryMatrix(style="compact", n_min=N, n_max=N)
    pool = env.build(seed, num_train=2000, num_test=0).train
    while True:
        problem = rng.choice(pool)
        if rng.random() < 0.25:
            yield [{"role": "user", "content": env.prompt(problem)}], _answer(_random_grid(rng))
        else:
            yield _revision(rng, env, problem, level)


def _revision(
    rng: random.Random, env: BinaryMatrix, problem: Problem, level: FeedbackLevel
) -> Example:
    """Feedback towards a *random* target, so that nothing of the task is in it."""
    target, given = _random_grid(rng), _random_grid(rng)
    keep = rng.random()
    given = [
        [t if rng.random() < keep else g for t, g in zip(tr, gr, strict=True)]
        for tr, gr in zip(target, given, strict=True)
    ]
    pretended = replace(problem, data={**problem.data, "solution": target})
    attempt = _answer(given)
    feedback = env.explain(pretended, attempt, Grade(given == target, True), level)
    form = f"revise/{FORMS[level]}"
    text = render(form, question=env.prompt(problem), attempt=attempt, feedback=feedback)
    return [{"role": "user", "content": text}], _answer(target)


def _random_grid(rng: random.Random) -> list[list[int]]:
    return [[rng.choice(DIGITS) for _ in range(N)] for _ in range(N)]


def _answer(grid: list[list[int]]) -> str:
    return BOX + "\n".join("".join(map(str, row)) for row in grid) + "}"


def warm_up(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    stream: Iterator[Example],
    steps: int,
    batch_size: int,
) -> None:
    """Next-token training on the answers."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1e-3, total_steps=steps, pct_start=0.1
    )
    for step in range(steps):
        ids, labels = _collate([next(stream) for _ in range(batch_size)], tokenizer)
        loss = model(
            input_ids=ids, attention_mask=(ids != tokenizer.pad_token_id).long(), labels=labels
        ).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0 or step == steps - 1:
            print(f"warm-up step {step:4d}/{steps}  loss {loss.item():.4f}", flush=True)


def _collate(
    batch: list[Example], tokenizer: PreTrainedTokenizerFast
) -> tuple[torch.Tensor, torch.Tensor]:
    ids, labels = [], []
    for messages, answer in batch:
        prompt = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=False
        )
        target = [*tokenizer.encode(answer, add_special_tokens=False), tokenizer.eos_token_id]
        ids.append(torch.tensor([*prompt, *target]))
        labels.append(torch.tensor([-100] * len(prompt) + target))
    pad = torch.nn.utils.rnn.pad_sequence
    return pad(ids, batch_first=True, padding_value=tokenizer.pad_token_id), pad(
        labels, batch_first=True, padding_value=-100
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--steps", type=int, default=900)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    tokenizer = make_tokenizer()
    model = make_model(len(tokenizer), args.seed)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    warm_up(model, tokenizer, examples(args.seed), args.steps, args.batch_size)
    model.save_pretrained(args.out_dir)
    tokenizer.save_pretrained(args.out_dir)


if __name__ == "__main__":
    main()
