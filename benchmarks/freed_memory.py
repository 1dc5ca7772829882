"""What a training pass on a CPU costs where freed memory is used again, and where it is not:
`OMP_NUM_THREADS=1 python benchmarks/freed_memory.py`.

Forward and backward of a Llama with random weights and SmolLM2-135M's shape, in two processes, one
after the other: as glibc comes, and with `keep_freed`. The system's seconds are what the kernel
took to map and clear memory.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rltf_verl.cpu.platform import keep_freed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--vocabulary", type=int, default=49152)
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--one", choices=("plain", "kept"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        measure(args)
        return
    print("memory   wall s  user s  system s   per pass, the first one left out", flush=True)
    for one in ("plain", "kept"):
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--one", one], check=True)


def measure(args: argparse.Namespace) -> None:
    """One of the two."""
    if args.one == "kept":
        keep_freed()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=args.vocabulary,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=args.layers,
        num_attention_heads=9,
        num_key_value_heads=3,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    ids = torch.randint(0, args.vocabulary, (3, 640))

    def forward_and_backward() -> None:
        logits = model(input_ids=ids, use_cache=False).logits.float()
        torch.log_softmax(logits, -1).gather(-1, ids[..., None]).mean().backward()

    forward_and_backward()
    before, began = os.times(), time.perf_counter()
    for _ in range(args.passes):
        forward_and_backward()
    wall, after = time.perf_counter() - began, os.times()
    spent = (wall, after.user - before.user, after.system - before.system)
    print(f"{args.one:7}" + "".join(f"{seconds / args.passes:8.2f}" for seconds in spent))


if __name__ == "__main__":
    main()
