"""Runs of the real trainer side by side, for the benchmarks that compare two of them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import torch
from transformers import LlamaConfig, LlamaForCausalLM

HERE = Path(__file__).resolve().parent
TOKENIZER = HERE.parent / "recipes" / "demo" / "policy"


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


def start(
    folder: Path, overrides: Sequence[str], probe: str
) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a run in a folder and a Ray cluster of its own; its processes load `probe`, a module of
    this folder.
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
        "PYTHONPATH": str(HERE),
        "RLTF_PROBE_DIR": str(folder),
    }
    command = [
        sys.executable,
        "-u",
        "-m",
        "verl.trainer.main_ppo",
        *overrides,
        f"trainer.default_local_dir={folder / 'checkpoints'}",
        f"hydra.run.dir={folder / 'hydra'}",
    ]
    log = (folder / "log.txt").open("wb")
    return (
        subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT),
        ray_dir,
    )


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
    return {way: [json.loads(line)["data"] for line in found] for way, found in lines.items()}


def end(process: subprocess.Popen[bytes]) -> None:
    """The driver, if it still runs, and all that it started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(process.pid)
        for found in [*root.children(recursive=True), root]:
            with contextlib.suppress(psutil.NoSuchProcess):
                found.kill()
    process.wait()
