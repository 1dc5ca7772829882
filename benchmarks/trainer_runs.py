"""Runs of the real trainer side by side, for the benchmarks that compare two of them."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rltf_verl.tools.data.build import build_parquet

HERE = Path(__file__).resolve().parent
TOKENIZER = HERE.parent / "recipes" / "demo" / "policy"
POLL_S = 0.05

SAME_STEPS = [
    "trainer.logger=[file]",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.save_freq=-1",
    "trainer.resume_mode=disable",
    "data.seed=0",
    "actor_rollout_ref.actor.optim.lr=0",
    "actor_rollout_ref.actor.optim.weight_decay=0",
]
"""No validation, no checkpoint, and a policy whose answers keep their lengths."""

Clocks = dict[int, float]
"""Process id -> its CPU seconds."""


class Tick(NamedTuple):
    """The moment at which a run wrote a line of its metrics."""

    wall: float
    """Seconds since the start."""
    clocks: Clocks
    memory: int
    """Bytes of all its processes; a page that several share counts in each as its share."""


def save_model(folder: Path, hidden: int, layers: int) -> None:
    """A Llama with random weights and the demo's tokenizer: it ends an answer at one token in a
    hundred.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(TOKENIZER, folder)
    torch.manual_seed(0)
    config = LlamaConfig.from_pretrained(
        TOKENIZER,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        head_dim=hidden // 4,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def save_problems(folder: Path, number: int) -> list[str]:
    """So many problems of 3 x 3, and the overrides that name their files."""
    options: dict[str, Any] = {"n_min": 3, "n_max": 3, "style": "compact"}
    paths = build_parquet("binary_matrix", folder, 0, number, 8, **options)
    return [f"data.train_files={paths.train}", f"data.val_files={paths.test}"]


def write_numbers(name: str, args: argparse.Namespace, numbers: Mapping[str, Any]) -> None:
    """The arguments and what was measured, in `NAME.json` in the folder `args.out`."""
    settings = {key: value for key, value in vars(args).items() if key != "out"}
    args.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"settings": settings, **numbers}, indent=1)
    (args.out / f"{name}.json").write_text(f"{text}\n")


def start(
    folder: Path, overrides: Sequence[str], probe: str
) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a run in a folder and a Ray cluster of its own; its processes load `probe`, a module of
    this folder.
    """
    command = [
        sys.executable,
        "-u",
        "-m",
        "verl.trainer.main_ppo",
        *overrides,
        f"trainer.default_local_dir={folder / 'checkpoints'}",
        f"hydra.run.dir={folder / 'hydra'}",
    ]
    return launch(folder, command, probe)


def launch(
    folder: Path, command: Sequence[str], probe: str = ""
) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a command in a new folder, with a place for Ray's files; this checkout's modules come
    first.
    """
    folder.mkdir(parents=True)
    ray_dir = Path(tempfile.mkdtemp(prefix="rltf"))  # short: Ray puts sockets in it
    env = {
        **os.environ,
        "VERL_PLATFORM": "cpu",
        "OMP_NUM_THREADS": "1",
        "RAY_TMPDIR": str(ray_dir),
        "VERL_FILE_LOGGER_PATH": str(folder / "metrics.jsonl"),
        "VERL_USE_EXTERNAL_MODULES": probe,
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent)]),
        "RLTF_PROBE_DIR": str(folder),
    }
    log = (folder / "log.txt").open("wb")
    return (
        subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT),
        ray_dir,
    )


def clocks(root: psutil.Process, before: Clocks) -> Clocks:
    """CPU seconds of each process of a run so far; those that have ended keep their last."""
    seconds = dict(before)
    with suppress(psutil.NoSuchProcess):
        for process in [root, *root.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                seconds[process.pid] = times.user + times.system
    return seconds


def memory(root: psutil.Process) -> int:
    """Proportional set size of a run's processes, in bytes."""
    total = 0
    with suppress(psutil.NoSuchProcess):
        for process in [root, *root.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                total += process.memory_full_info().pss
    return total


def followed(process: subprocess.Popen[bytes], metrics: Path, began: float) -> list[Tick]:
    """Wait for the end of a run, and read the clocks at every line of its metrics.

    Args:
        process: what was started.
        metrics: the file that gets a line per step.
        began: `time.monotonic()` before the start.
    """
    ticks: list[Tick] = []
    root = psutil.Process(process.pid)
    while process.poll() is None:
        time.sleep(POLL_S)
        lines = metrics.read_bytes().count(b"\n") if metrics.exists() else 0
        if lines > len(ticks):
            now = clocks(root, ticks[-1].clocks if ticks else {})
            ticks += [Tick(time.monotonic() - began, now, memory(root))] * (lines - len(ticks))
    return ticks


def run_together(
    folder: Path, ways: Mapping[str, Sequence[str]], probe: str
) -> dict[str, list[dict[str, Any]]]:
    """All ways at the same time, so that they see the same load; their metrics per step. Ends all
    when one fails.

    Args:
        folder: one folder per way is made in it.
        ways: name -> overrides of main_ppo.
        probe: see `start`.
    """
    runs = {way: start(folder / way, overrides, probe) for way, overrides in ways.items()}
    try:
        while any(process.poll() is None for process, _ in runs.values()):
            time.sleep(1.0)
            for way, (process, _) in runs.items():
                if process.poll():
                    log = (folder / way / "log.txt").read_text()
                    raise SystemExit(f"{way} ended with {process.returncode}:\n{log[-3000:]}")
    finally:
        for process, ray_dir in runs.values():
            end(process)
            shutil.rmtree(ray_dir, ignore_errors=True)
    lines = {way: (folder / way / "metrics.jsonl").read_text().splitlines() for way in ways}
    return {way: [json.loads(line)["data"] for line in rows] for way, rows in lines.items()}


def end(process: subprocess.Popen[bytes]) -> None:
    """The driver, if it still runs, and all that it started."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(process.pid)
        for child in [*root.children(recursive=True), root]:
            with suppress(psutil.NoSuchProcess):
                child.kill()
    process.wait()
