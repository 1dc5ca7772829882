"""Tokens per second of three ways to roll out on a CPU:
`OMP_NUM_THREADS=1 python benchmarks/cpu_rollout.py`.

One-request-at-a-time `generate`, transformers' own continuous batching, and the generator behind
`rollout.name=transformers`, for 16, 64 and 256 concurrent short sequences of a Llama with random
weights made on the spot. Every request samples at temperature 1 to its own length; throughputs
count sampled tokens. Read the ratios of one run: on a busy machine all numbers drop, and with more
threads than free cores they drop tenfold. The seconds that continuous batching needs to start (it
warms up) are not counted.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig, LlamaConfig, LlamaForCausalLM

from rltf_verl.adapters.cpu.rollout.generation import BatchGenerator, Request
from rltf_verl.adapters.cpu.rollout.sampling import SamplingParams

VOCAB, GROUP = 96, 8
ONE_AT_A_TIME = 16


def build_model(hidden: int, layers: int) -> LlamaForCausalLM:
    """Return a Llama with random weights."""
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCAB,
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=512,
            eos_token_id=None,
        )
    ).eval()


def workload(count: int) -> list[tuple[list[int], int]]:
    """Return prompts of 20 to 40 tokens in groups of 8 equal ones, each with a response length of
    16 to 64.
    """
    draw = torch.Generator().manual_seed(count)
    sizes = torch.randint(20, 41, (count,), generator=draw).tolist()
    prompts = [
        torch.randint(3, VOCAB, (size,), generator=draw).tolist()
        for size in sizes[: -(-count // GROUP)]
    ]
    lengths = torch.randint(16, 65, (count,), generator=draw).tolist()
    return [(prompts[i // GROUP], lengths[i]) for i in range(count)]


def one_at_a_time(model: LlamaForCausalLM, work: list[tuple[list[int], int]]) -> float:
    """Run `generate` per request (the first few: the throughput does not depend on how many there
    are).
    """
    work = work[:ONE_AT_A_TIME]
    start = time.perf_counter()
    for prompt, length in work:
        config = GenerationConfig(
            max_new_tokens=length, min_new_tokens=length, do_sample=True, pad_token_id=0
        )
        model.generate(torch.tensor([prompt]), generation_config=config)
    return sum(length for _, length in work) / (time.perf_counter() - start)


def continuous_batching(model: LlamaForCausalLM, work: list[tuple[list[int], int]]) -> float:
    """Run transformers' manager, which gives every request a length but one set of sampling
    parameters.
    """
    config = GenerationConfig(max_new_tokens=64, do_sample=True, eos_token_id=-1, pad_token_id=0)
    options = ContinuousBatchingConfig(max_memory_percent=0.1)
    with model.continuous_batching_context_manager(
        generation_config=config, continuous_batching_config=options
    ) as manager:
        start = time.perf_counter()
        for index, (prompt, length) in enumerate(work):
            manager.add_request(prompt, request_id=str(index), max_new_tokens=length)
        count = tokens = 0
        while count < len(work):
            result = manager.get_result(timeout=60)
            if result is None:
                raise RuntimeError("continuous batching stopped answering")
            if result.is_finished():
                count, tokens = count + 1, tokens + len(result.generated_tokens)
        return tokens / (time.perf_counter() - start)


def batch_generator(model: LlamaForCausalLM, work: list[tuple[list[int], int]]) -> float:
    """Run the generator of this package."""
    generator = BatchGenerator(model)
    start = time.perf_counter()
    for index, (prompt, length) in enumerate(work):
        generator.add(Request(str(index), prompt, SamplingParams(max_tokens=length, seed=index)))
    tokens = 0
    while generator.num_unfinished:
        tokens += sum(len(result.token_ids) for result in generator.step())
    return tokens / (time.perf_counter() - start)


def main() -> None:
    """Print one line per batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--requests", type=int, nargs="+", default=[16, 64, 256], help="at once")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    size = (
        sum(parameter.numel() for parameter in build_model(args.hidden, args.layers).parameters())
        / 1e6
    )
    print(
        f"{size:.2f} M parameters, {torch.get_num_threads()} threads, tokens/s, best of"
        f" {args.repeats}"
    )
    print(
        f"{'requests':>9} {'one by one':>11} {'transformers CB':>16} {'ours':>9} {'/ one':>7}"
        f" {'/ CB':>7}"
    )
    for count in args.requests:
        one, theirs, ours = (
            # Continuous batching switches the model's attention, so every run gets a model of its
            # own.
            max(
                way(build_model(args.hidden, args.layers), workload(count))
                for _ in range(args.repeats)
            )
            for way in (one_at_a_time, continuous_batching, batch_generator)
        )
        print(
            f"{count:>9} {one:>11.0f} {theirs:>16.0f} {ours:>9.0f} {ours / one:>7.1f}"
            f" {ours / theirs:>7.1f}"
        )


if __name__ == "__main__":
    main()
