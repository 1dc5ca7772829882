"""log-probs and a teacher's divergence without flash-attn, a token:
`OMP_NUM_THREADS=1 python benchmarks/log_probs.py [--device cuda]`.

Microseconds of value and gradient, on a CPU of its time. `few`: a vocabulary of 64, where starting
the operators is all the work, so that the host's share of a GPU's time shows. Chunks of 2^23 and
2^26 logits are those of a CPU and of a GPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter, process_time

import torch
from verl.utils import torch_functional

from rltf_verl.algos import log_probs
from rltf_verl.algos.logit_distill import logit_divergence, outcome_log_probs, top_k_ids

FEW, TURNS = 64, 5
Work = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--vocabulary", type=int, default=151936)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    verls = torch_functional.logprobs_from_logits_v2
    print(f"{args.device:34}few{args.vocabulary:10}", flush=True)
    for dtype in (torch.bfloat16, torch.float32):
        works: dict[str, tuple[Work, int]] = {
            "verl's log-probs": (getattr(verls, "__wrapped__", verls), 2**23)
        }
        for bits in (23, 26):
            works[f"log-probs, chunks of 2^{bits}"] = log_probs.label_log_probs, 2**bits
            works[f"divergence, chunks of 2^{bits}"] = divergence, 2**bits
        for name, (work, chunk) in works.items():
            log_probs._CHUNK[args.device] = chunk
            sizes = (FEW, args.vocabulary)
            seconds = [of_token(work, args.tokens, size, dtype, args.device) for size in sizes]
            shown = "".join(f"{1e6 * value:10.2f}" for value in seconds)
            print(f"{str(dtype)[6:]:10}{name:28}{shown}", flush=True)


def of_token(work: Work, tokens: int, vocabulary: int, dtype: torch.dtype, device: str) -> float:
    """Seconds of value and gradient, the median of some turns, over the tokens."""
    logits = torch.randn(tokens, vocabulary, device=device).to(dtype).requires_grad_()
    labels = torch.randint(vocabulary, (tokens,), device=device)
    on_gpu = device == "cuda"
    wait, clock = (torch.cuda.synchronize, perf_counter) if on_gpu else (int, process_time)
    seconds = []
    for _ in range(TURNS):
        wait()
        began = clock()
        torch.autograd.grad(work(logits, labels).sum(), logits)
        wait()
        seconds.append(clock() - began)
    return median(seconds) / tokens


def divergence(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """From a teacher that finds the first token's outcomes likeliest everywhere."""
    ids = top_k_ids(logits[:1].detach(), 16).expand(len(labels), -1)
    teacher = outcome_log_probs(logits[:1].detach(), ids[:1]).expand(len(labels), -1)
    rows = torch.arange(len(labels), device=labels.device)
    diverge = partial(logit_divergence, divergence="jsd", beta=0.5, rows=rows)
    return diverge(logits, ids, teacher)


if __name__ == "__main__":
    main()
