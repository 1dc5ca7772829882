"""The first hour on a GPU: checks, two steps of each engine, thirty steps of RLTF-SD, a report.

    python recipes/rltf/first_hour.py [--engines transformers vllm] [--out outputs/first_hour]

For one GPU of 80 GB and Knights and Knaves with Qwen3-1.7B (`--model`), LoRA of rank 32. In a
clone: pip install '.[judge,data,plot]'. It begins with this package's sampler (`transformers`), and
goes on with vLLM and SGLang where they are installed (docs/scale.md).

It stops at the first surprise: a command that fails, a step that takes too long, a metric that is
no number, a sampler and an actor that do not agree. The folder then has everything for an issue
"Results": report.md, the logs and metrics of each stage, the page of the episodes. We have not run
it on a GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
LONG_STEPS = 30
PACKAGES = ("rltf-verl", "verl", "torch", "vllm", "sglang", "transformers", "ray", "flash-attn")
PEARSON = "training/rollout_actor_probs_pearson_corr"
AGREES = 0.95
"""Of the sampler's and the actor's probabilities: two engines in bf16 are above 0.99."""
POLL_S = 1.0
SHORT = (
    "rltf/feedback=verifier",
    "rltf.episode.revise=null",
    "rltf.env.mode=strict",
    "+data.apply_chat_template_kwargs.enable_thinking=false",
    "data.max_response_length=2048",
    "data.max_prompt_length=6144",
    "data.train_batch_size=16",
    "actor_rollout_ref.actor.ppo_mini_batch_size=16",
    "actor_rollout_ref.rollout.val_kwargs.n=1",
    "trainer.save_freq=-1",
    "trainer.logger=[file]",
)
"""Answers without thoughts, 16 problems a step."""


@dataclass
class Stage:
    """A command, and what it must leave."""

    name: str
    command: Sequence[str]
    minutes: float
    """To its end; of one that trains, to its first metrics, and from each step to the next."""
    variables: dict[str, str] = field(default_factory=dict)
    steps: int = 0
    """Training steps that it makes; 0: it does not train."""


@dataclass
class Outcome:
    """What a stage left, as a line of the report."""

    stage: Stage
    seconds: float
    surprise: str
    """Empty: none."""
    numbers: str = ""


def stages(options: argparse.Namespace, out: Path) -> Iterator[Stage]:
    """In order; the dearest last."""
    data, run = out / "data", str(HERE.parent / "run.sh")
    base = {"RLTF_DATA": str(data), "MODEL": options.model, "NUM_GPUS": "1", "TUNE": options.tune}
    train = {**base, "PROGRAM": f"{sys.executable} -m verl.trainer.main_ppo"}
    plan = {**base, "PROGRAM": "rltf plan --problems 1", "ROLLOUT": options.engines[0]}
    command = [run, "rltf/kk_sd", *SHORT, *options.overrides]
    yield Stage("doctor", ["rltf", "doctor"], 5)
    if not (data / "kk" / "train.parquet").is_file():
        yield Stage("data", [str(HERE / "prepare_data.sh"), "strict"], 10, {**base, "TASKS": "kk"})
    yield Stage("plan", command, 5, plan)
    for engine in options.engines:
        yield training(engine, 2, options.minutes, command, train)
    held_out = [f"trainer.test_freq={LONG_STEPS // 3}", "trainer.val_before_train=true"]
    long = [*command, *held_out]
    yield training(options.engines[0], LONG_STEPS, options.minutes, long, train)


def training(
    engine: str, steps: int, minutes: float, command: Sequence[str], variables: dict[str, str]
) -> Stage:
    """So many steps of RLTF-SD with an engine."""
    return Stage(
        f"{engine}_{steps}_steps",
        [*command, f"trainer.total_training_steps={steps}"],
        minutes,
        {**variables, "ROLLOUT": engine},
        steps,
    )


def play(stage: Stage, out: Path) -> Outcome:
    """Run a stage to its end, with its output in a file."""
    print(f"{stage.name} …", flush=True)
    folder = out / stage.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    metrics = folder / "metrics.jsonl"
    variables = {"VERL_FILE_LOGGER_PATH": str(metrics), "OUT": str(folder / "run")}
    began = time.monotonic()
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            stage.command,
            env={**os.environ, **variables, **stage.variables},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            surprise = surprise_of(process, stage, metrics)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    outcome = Outcome(stage, time.monotonic() - began, surprise)
    if stage.steps and not surprise:
        outcome.surprise, outcome.numbers = look(metrics, stage.steps)
    print(f"{stage.name}: {outcome.surprise or 'ok'}, {outcome.seconds:.0f} s", flush=True)
    return outcome


def surprise_of(process: subprocess.Popen[bytes], stage: Stage, metrics: Path) -> str:
    """Wait for its end: a failure, or too long without one, or without a line of metrics."""
    began = time.time()
    while process.poll() is None:
        last = metrics.stat().st_mtime if stage.steps and metrics.is_file() else began
        if time.time() - last > 60 * stage.minutes:
            what = "nothing new in metrics.jsonl" if stage.steps else "no end"
            return f"{what} in {stage.minutes:g} minutes"
        time.sleep(POLL_S)
    return f"it ended with {process.returncode}" if process.returncode else ""


def look(metrics: Path, steps: int) -> tuple[str, str]:
    """The first surprise in a run's metrics, or nothing; and its numbers, in one line."""
    lines = metrics.read_text("utf-8").splitlines() if metrics.is_file() else []
    records = [json.loads(line) for line in lines]
    trained = [r["data"] for r in records if "timing_s/step" in r["data"]]
    if len(trained) != steps:
        return f"{len(trained)} training steps instead of {steps}", ""
    for number, data in enumerate(trained, 1):
        broken = [k for k, v in data.items() if isinstance(v, float) and not math.isfinite(v)]
        if broken:
            return f"step {number}: {broken[0]} is {data[broken[0]]}", ""
        if data.get(PEARSON, 1.0) < AGREES:
            return f"step {number}: sampler and actor agree to {data[PEARSON]:.3f} only", ""
    seconds = [data["timing_s/step"] for data in trained]
    held_out = [f"{v:.3f}" for r in records for k, v in r["data"].items() if is_first_accuracy(k)]
    facts = [f"{sum(seconds) / steps:.1f} s a step"]
    facts += [f"sampler and actor {trained[-1][PEARSON]:.4f}"] if PEARSON in trained[-1] else []
    facts += [f"held out {' → '.join(held_out)}"] if held_out else []
    return "", ", ".join(facts)


def is_first_accuracy(key: str) -> bool:
    """Whether a metric is the accuracy of first answers, held out."""
    return key.startswith("val-core/") and "/acc/mean@" in key


def machine() -> str:
    """Markdown: the GPU, and the versions of what runs on it."""
    lines = [f"Python {platform.python_version()}, {platform.platform()}"]
    if shutil.which("nvidia-smi"):
        asked = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv"]
        lines.append(subprocess.run(asked, capture_output=True, text=True, check=False).stdout)
    lines += [f"{name} {version_of(name)}" for name in PACKAGES]
    return "\n".join(f"* {line.strip()}" for line in lines)


def version_of(name: str) -> str:
    """Of the package that is imported: the first one on the path."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "is not installed"


def report(outcomes: Sequence[Outcome], folder: Path) -> None:
    """Write report.md, and the page of the longest run's episodes."""
    lines = ["# First hour", "", machine(), "", "| stage | minutes | result |", "|---|---:|---|"]
    for outcome in outcomes:
        result = outcome.surprise or outcome.numbers or "ok"
        lines.append(f"| {outcome.stage.name} | {outcome.seconds / 60:.1f} | {result} |")
    last = outcomes[-1]
    if last.surprise:
        text = (folder / last.stage.name / "log.txt").read_text("utf-8", "replace")
        lines += ["", f"The end of {last.stage.name}/log.txt:", "", "```", text[-4000:], "```"]
    elif (folder / last.stage.name / "run").is_dir():
        page = ["rltf", "view", str(folder / last.stage.name / "run"), "-o"]
        subprocess.run([*page, str(folder / "page.html")], check=False)
    (folder / "report.md").write_text("\n".join(lines) + "\n", "utf-8")


ENGINES = ("transformers", "vllm", "sglang")


def engines_here() -> list[str]:
    """The rollout engines that are installed."""
    return [name for name in ENGINES if find_spec(name)]


def main(words: Sequence[str] | None = None, play: Callable[[Stage, Path], Outcome] = play) -> int:
    """Command line; 1 at a surprise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--engines", nargs="+", default=engines_here(), choices=ENGINES)
    parser.add_argument("--model", default="Qwen/Qwen3-1.7B")
    parser.add_argument("--tune", choices=("lora", "full"), default="lora")
    parser.add_argument("--minutes", type=float, default=15, help="for the start, and each step")
    parser.add_argument("--out", type=Path, default=Path("outputs/first_hour"))
    parser.add_argument("overrides", nargs="*", help="of every run, after --")
    options = parser.parse_args(words)
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    for stage in stages(options, out):
        outcomes.append(play(stage, out))
        report(outcomes, out)
        if outcomes[-1].surprise:
            print(f'stopped: {out / "report.md"}; send us the folder as an issue "Results"')
            return 1
    print(f'done: {out / "report.md"}; send us the folder as an issue "Results"')
    return 0


if __name__ == "__main__":
    sys.exit(main())
