"""What the demo trains on this machine: number format, methods, steps, and how long it takes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import psutil
import torch
from torch.nn.functional import linear

SIZES = (
    (("grpo", "sd", "sft"), 16, 4),
    (("grpo", "sd"), 16, 8),
    (("grpo", "sd"), 12, 6),
)
"""Methods, steps and the steps between validations; from large to small."""
LONGEST = 7.5
"""Minutes: the first size that takes no longer is chosen, or the last one."""
ONE_RUN = 11e9
"""Bytes of free memory that a run needs: 10.2 GB at most were seen, in fp32."""
FORMATS = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
ROWS, WIDTH, INNER = 1024, 576, 1536
"""Tokens of a micro-batch and the layers of SmolLM2-135M."""
EPISODES = 32
"""Sampled at the same time."""
START = 60.0
"""Seconds until the first validation, mostly imports."""
PRODUCTS = {"bf16": 115.0, "fp32": 150.0}
"""A step's seconds on a CPU, over those of its layers; measured on an AMD EPYC (Zen 4,
AVX512-BF16): 0.11 s and 13 s in bf16, means over 16 steps alone on a core; 0.2 s and 30 s in fp32.
A machine with AVX2 only took 16 to 52 s for a step in fp32. What is not a product of matrices is
faster in bf16, too.
"""
GPU_BESIDE, GPU_SAMPLING = 3.0, 750.0
"""On a GPU: a step's seconds beside sampling, and those of sampling over a forward pass of the
layers (50 tokens, and fifteen operators for one of these). A guess: no GPU has confirmed it.
"""
VALIDATION = 0.45
"""A validation's seconds, over a step's."""
SIDE_BY_SIDE = 1.3
"""A run's seconds next to another one, over those alone, on two cores: caches are shared."""


@dataclass(frozen=True)
class Job:
    """What is trained."""

    precision: str
    """One of `FORMATS`."""
    batches: tuple[tuple[str, ...], ...]
    """Methods; those of a batch are trained side by side."""
    steps: int
    test_every: int
    """Steps between validations."""
    minutes: float
    """An estimate for all batches."""

    def __str__(self) -> str:
        methods = [method for batch in self.batches for method in batch]
        how = "two side by side" if len(self.batches[0]) > 1 else "one after the other"
        return (
            f"Trains {', '.join(methods)} in {self.precision}, {self.steps} steps of {EPISODES}"
            f" episodes each, {how}: about {self.minutes:.0f} minutes."
        )


def device_here() -> str:
    """`cuda` where torch sees a GPU."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def time_steps(device: str, seconds: float = 0.7) -> dict[str, float]:
    """Format -> a step's seconds, from the best time of a layer's work on one thread, or on the
    GPU: forward and backward of a micro-batch, and a forward pass of as many rows as are sampled at
    once through weights that are not in the cache. Tries each for some seconds.
    """
    torch.set_num_threads(1)
    if device == "cpu":
        return {
            name: whole * sum(_best(work, seconds) for work in _work(FORMATS[name], device))
            for name, whole in PRODUCTS.items()
        }
    half = "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    works = {name: _work(FORMATS[name], device) for name in (half, "fp32")}
    return {
        name: GPU_BESIDE + _best(train, seconds) + GPU_SAMPLING * _best(sample, seconds)
        for name, (train, sample) in works.items()
    }


def _work(dtype: torch.dtype, device: str) -> tuple[Callable[[], None], Callable[[], None]]:
    randn = partial(torch.randn, dtype=dtype, device=device)
    up, down = (randn(shape, requires_grad=True) for shape in ((INNER, WIDTH), (WIDTH, INNER)))
    batch = randn(ROWS, WIDTH, requires_grad=True)
    layers = [randn(INNER, WIDTH) for _ in range(90)]

    def train() -> None:
        linear(linear(batch, up), down).backward(batch)

    def sample() -> None:
        for layer in layers:
            linear(batch[:EPISODES].detach(), layer)

    return train, sample


def _best(work: Callable[[], None], seconds: float) -> float:
    """The thread's own time, because other programs may be at work; a GPU's by the clock."""
    on_gpu = torch.cuda.is_available()
    clock, wait = (time.monotonic, torch.cuda.synchronize) if on_gpu else (time.thread_time, int)
    times, end = list[float](), time.monotonic() + seconds
    while len(times) < 2 or time.monotonic() < end:
        began = clock()
        work()
        wait()
        times.append(clock() - began)
    return min(times)


def free_memory() -> float:
    """Bytes that are free or may be freed."""
    return float(psutil.virtual_memory().available)


def choose(
    steps_seconds: Mapping[str, float],
    memory: float,
    cores: int | None = None,
    precision: str | None = None,
    steps: int | None = None,
) -> Job:
    """The job that suits a machine: the faster format, two runs side by side where they fit, and
    the largest size that does not take too long.

    Args:
        steps_seconds: of `time_steps`.
        memory: free bytes.
        cores: of this machine by default; 1: no runs side by side.
        precision: another format than the faster one.
        steps: another number than the job's.

    Raises:
        SystemExit: not even one run fits.
    """
    if memory < ONE_RUN:
        raise SystemExit(
            f"The demo needs {ONE_RUN / 1e9:.0f} GB of free memory, and {memory / 1e9:.1f} GB are"
            " free: close other programs, or train the tiny policy in 4 GB:"
            " recipes/demo/run_demo.py --one-at-a-time"
        )
    chosen = precision or min(steps_seconds, key=lambda name: steps_seconds[name])
    if chosen not in steps_seconds:
        raise SystemExit(f"--precision {chosen}: choose one of {', '.join(steps_seconds)} here")
    at_once = 2 if memory >= 2 * ONE_RUN and (cores or os.cpu_count() or 1) > 1 else 1
    step = steps_seconds[chosen]
    jobs = [
        _job(chosen, methods, at_once, steps or usual, every, step)
        for methods, usual, every in SIZES
    ]
    return next((job for job in jobs if job.minutes <= LONGEST), jobs[-1])


def _job(
    precision: str, methods: Sequence[str], at_once: int, steps: int, every: int, step: float
) -> Job:
    batches = tuple(tuple(methods[i : i + at_once]) for i in range(0, len(methods), at_once))
    alone = START + step * (steps + VALIDATION * (1 + steps // every))
    seconds = sum(alone * (SIDE_BY_SIDE if len(batch) > 1 else 1.0) for batch in batches)
    return Job(precision, batches, steps, every, seconds / 60)
