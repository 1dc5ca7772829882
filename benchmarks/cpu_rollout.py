"""Tokens per second of ways to roll out on a CPU:
`OMP_NUM_THREADS=1 python benchmarks/cpu_rollout.py [--model FOLDER --dtype bfloat16]`.

`generate` one request at a time and for the padded batch, transformers' own continuous batching,
vLLM where it is installed (`make test-vllm`), and the generator behind
`rollout.name=transformers`, for 16, 64 and 256 concurrent short sequences of a Llama with random
weights made on the spot, or of a model. Every request samples at temperature 1 to its own length;
throughputs count sampled tokens. Read the ratios of one run: on a busy machine all numbers drop,
and with more threads than free cores they drop tenfold. The seconds that an engine needs to start
are not counted.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    ContinuousBatchingConfig,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
)

from rltf_verl.cpu.services import prepare_model
from rltf_verl.sampler.generation import BatchGenerator, Request
from rltf_verl.sampler.sampling import SamplingParams

VOCAB, GROUP = 96, 8
ONE_AT_A_TIME = 16
Work = Sequence[tuple[list[int], int]]
"""Prompt and number of tokens to sample, of each request."""


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


def workload(count: int) -> Work:
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


def generate(model: Any, work: Work) -> float:
    """`generate` for all requests at once, padded on the left, until the longest has ended."""
    width = max(len(prompt) for prompt, _ in work)
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt, _ in work])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p, _ in work])
    longest = max(length for _, length in work)
    config = GenerationConfig(
        max_new_tokens=longest, min_new_tokens=longest, do_sample=True, top_k=0, pad_token_id=0
    )
    start = time.perf_counter()
    model.generate(ids, attention_mask=mask, generation_config=config)
    return _per_second(work, start)


def one_at_a_time(model: Any, work: Work) -> float:
    """`generate` per request (the first few: the throughput does not depend on how many there
    are).
    """
    work, seconds = work[:ONE_AT_A_TIME], 0.0
    for request in work:
        seconds += request[1] / generate(model, [request])
    return sum(length for _, length in work) / seconds


def continuous_batching(model: Any, work: Work) -> float:
    """Transformers' manager, which gives every request a length but one set of sampling
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
        count = 0
        while count < len(work):
            result = manager.get_result(timeout=60)
            if result is None:
                raise RuntimeError("continuous batching stopped answering")
            count += result.is_finished()
        return _per_second(work, start)


def batch_generator(model: Any, work: Work) -> float:
    """The generator of this package."""
    generator = BatchGenerator(model, prepare=prepare_model)
    start = time.perf_counter()
    for index, (prompt, length) in enumerate(work):
        generator.add(Request(str(index), prompt, SamplingParams(max_tokens=length, seed=index)))
    while generator.num_unfinished:
        generator.step()
    return _per_second(work, start)


def _per_second(work: Work, start: float) -> float:
    return sum(length for _, length in work) / (time.perf_counter() - start)


WAYS: dict[str, Callable[[Any, Work], float]] = {
    "one by one": one_at_a_time,
    "generate": generate,
    "transformers CB": continuous_batching,
    "ours": batch_generator,
}


def vllm_engine(folder: Path, dtype: str) -> Callable[[Any, Work], float]:
    """vLLM, as verl sets it: eager, and with the log-prob of every token."""
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    import vllm  # only where it is installed

    engine = vllm.LLM(
        model=str(folder),
        dtype=dtype,
        enforce_eager=True,
        max_model_len=512,
        max_num_seqs=256,
        enable_prefix_caching=True,
        skip_tokenizer_init=True,
        disable_log_stats=True,
    )

    def rolled_out(_: Any, work: Work) -> float:
        engine.reset_prefix_cache()
        asked = [
            vllm.SamplingParams(
                temperature=1.0, max_tokens=n, ignore_eos=True, detokenize=False, logprobs=0, seed=i
            )
            for i, (_, n) in enumerate(work)
        ]
        start = time.perf_counter()
        engine.generate([{"prompt_token_ids": ids} for ids, _ in work], asked, use_tqdm=False)
        return _per_second(work, start)

    return rolled_out


def main() -> None:
    """Print one line per batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="folder; else random weights")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--requests", type=int, nargs="+", default=[16, 64, 256], help="at once")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as made:
        folder = args.model or Path(made)
        if args.model is None:
            build_model(args.hidden, args.layers).save_pretrained(folder)
        measure(folder, args.dtype, args.requests, args.repeats)


def measure(folder: Path, dtype: str, requests: Sequence[int], repeats: int) -> None:
    """A line per number of requests: each way's tokens per second, the best of the repeats."""

    def load() -> Any:
        # Continuous batching switches the model's attention, so every way gets a model of its own.
        return AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()

    ways = dict(WAYS)
    if importlib.util.find_spec("vllm") is not None:
        ways["vllm"] = vllm_engine(folder, dtype)
    millions = sum(parameter.numel() for parameter in load().parameters()) / 1e6
    print(f"{millions:.2f} M parameters, {dtype}, {torch.get_num_threads()} threads, tokens/s")
    print(f"{'requests':>9}" + "".join(f"{name:>17}" for name in ways))
    for count in requests:
        work = workload(count)
        best = [max(way(load(), work) for _ in range(repeats)) for way in ways.values()]
        print(f"{count:>9}" + "".join(f"{rate:>17.0f}" for rate in best), flush=True)


if __name__ == "__main__":
    main()
