"""What a teacher takes of memory: `OMP_NUM_THREADS=1 python benchmarks/logit_memory.py`.

Bytes a logit at the peak beyond the logits themselves, as torch's allocator counts them on the CPU:
in the teacher's call, and for the student's divergence with its gradient. `at once` is the same
equation over all tokens under plain autograd, `in chunks` is what a run's workers call.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from tensordict import TensorDict
from torch.profiler import ProfilerActivity, profile

from rltf_verl.adapters.queue.columns import ragged
from rltf_verl.adapters.training.logit_loss import (
    DIVERGENCE,
    TEACHER_IDS,
    TEACHER_LOG_PROBS,
    TEACHER_PLACES,
    divergence,
    keep_outcomes,
)
from rltf_verl.algos.logit_distill import logit_divergence, outcome_log_probs, top_k_ids
from rltf_verl.config import LogitDistillConfig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--vocabulary", type=int, default=151936)
    args = parser.parse_args()
    torch.manual_seed(0)
    print("bytes a logit       teacher  student", flush=True)
    for dtype in (torch.bfloat16, torch.float32):
        logits = torch.randn(args.tokens + 1, args.vocabulary, dtype=dtype)
        for name, of in (("at once", at_once), ("in chunks", in_chunks)):
            found = [peak_bytes(work) / logits.numel() for work in of(logits)]
            print(f"{str(dtype)[6:]:9}{name:10}{found[0]:8.1f}{found[1]:9.1f}", flush=True)


def at_once(logits: torch.Tensor) -> tuple[Callable[[], object], Callable[[], object]]:
    """Teacher's call and student's gradient, for logits [1 + N, V] of a response of N tokens."""
    config, rows = LogitDistillConfig(weight=1.0), torch.arange(len(logits) - 1)
    ids, teacher = of_teacher(logits)

    def teach() -> object:
        here = logits[rows]
        return outcome_log_probs(here, top_k_ids(here, config.top_k))

    def learn() -> object:
        leaf = logits.detach().requires_grad_()
        kind = config.divergence
        value = logit_divergence(leaf[rows], ids, teacher, kind.name, kind.beta)
        return torch.autograd.grad(value.sum(), leaf)

    return teach, learn


def in_chunks(logits: torch.Tensor) -> tuple[Callable[[], object], Callable[[], object]]:
    """As `at_once`."""
    config, num_tokens = LogitDistillConfig(weight=1.0), len(logits) - 1
    columns = {
        "input_ids": ragged([torch.zeros(num_tokens + 1)]),
        "responses": ragged([torch.zeros(num_tokens)]),
        TEACHER_PLACES: ragged([torch.arange(num_tokens)]),
    }
    ids, teacher = of_teacher(logits)
    taught = {
        TEACHER_IDS: ragged([ids.int()]),
        TEACHER_LOG_PROBS: ragged([teacher]),
    }

    def teach() -> object:
        return keep_outcomes(logits.unsqueeze(0), TensorDict(dict(columns), 1), config.top_k)

    def learn() -> object:
        leaf = logits.detach().requires_grad_()
        value = divergence(leaf.unsqueeze(0), TensorDict({**columns, **taught}, 1), config)
        return torch.autograd.grad(value[DIVERGENCE].sum(), leaf)

    return teach, learn


def of_teacher(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Some tokens [N, k] and log-probs [N, k + 1]."""
    ids = top_k_ids(logits[:1], LogitDistillConfig().top_k).expand(len(logits) - 1, -1)
    return ids, torch.full((len(ids), ids.shape[1] + 1), 1 / (ids.shape[1] + 1)).log()


def peak_bytes(work: Callable[[], object]) -> int:
    """The most bytes that torch holds at once for a piece of work on the CPU."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    held = most = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


if __name__ == "__main__":
    main()
