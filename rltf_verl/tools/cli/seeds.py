"""`rltf seeds`: the same training command once per seed and arm, one after the other, and the
comparison of them.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Annotated

import typer

from rltf_verl.tools.cli.compare import AXES, compare

PROGRAM = "python -m verl.trainer.main_ppo"
COMMAND, FINISHED, OUTPUT = "command.json", "finished", "output.txt"
HOUR = 3600
"""Seconds."""


@dataclass(frozen=True)
class SeedRun:
    """One run, in a folder of its own."""

    arm: str
    folder: Path
    command: tuple[str, ...]

    @property
    def is_finished(self) -> bool:
        """Whether it has ended well."""
        return (self.folder / FINISHED).exists()

    def play(self) -> int:
        """Run or resume it; its output goes to a file. Returns the exit status."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / COMMAND).write_text(json.dumps(self.command), encoding="utf-8")
        env = {**os.environ, "VERL_FILE_LOGGER_PATH": str(self.folder / "metrics.jsonl")}
        with (self.folder / OUTPUT).open("ab") as output:
            ended = subprocess.run(self.command, env=env, stdout=output, stderr=subprocess.STDOUT)
        if ended.returncode == 0:
            (self.folder / FINISHED).touch()
        return ended.returncode


def runs_of(
    arms: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    words: Sequence[str],
    program: str = PROGRAM,
) -> list[SeedRun]:
    """The runs, all arms of a seed before the next seed.

    Args:
        arms: `NAME=WORDS`, words of the command line that only this arm has; none: one arm `run`.
        seeds: of sampling and of the data's order.
        out: folder of their folders, `NAME_seed<number>`.
        words: of every run.
        program: what is run.

    Raises:
        ValueError: an arm without a name, two of one name, or a folder of another command.
    """
    by_name: dict[str, list[str]] = {}
    for arm in arms or ["run="]:
        name, equals, text = arm.partition("=")
        if not equals or name in by_name or not name.replace("-", "_").isidentifier():
            raise ValueError(
                f"--arm {arm}: write NAME='--config-name=… key=value …', each NAME once"
            )
        by_name[name] = shlex.split(text)
    python, *rest = shlex.split(program)
    start = [sys.executable if python == "python" else python, *rest]
    runs = []
    for seed, (name, words_of_arm) in product(seeds, by_name.items()):
        folder = out.absolute() / f"{name}_seed{seed}"
        keys = (
            f"rltf.seed={seed}",
            f"data.seed={seed}",
            f"trainer.experiment_name={folder.name}",
            f"trainer.default_local_dir={folder / 'checkpoints'}",
            f"hydra.run.dir={folder / 'hydra'}",
        )
        run = SeedRun(name, folder, (*start, *_options_first([*words_of_arm, *words]), *keys))
        before = folder / COMMAND
        if before.exists() and tuple(json.loads(before.read_text("utf-8"))) != run.command:
            raise ValueError(
                f"--out: {folder} holds a run of another command; use another folder, or remove it"
            )
        runs.append(run)
    return runs


def _options_first(words: Sequence[str]) -> list[str]:
    """Hydra's parser refuses overrides on both sides of an option. Words before the first of both
    are the program's.
    """
    ends = (i for i, word in enumerate(words) if "=" in word or word.startswith(("-", "~")))
    start = next(ends, len(words))
    options, overrides = list(words[:start]), list[str]()
    for before, word in pairwise(["", *words[start:]]):
        # `--config-name pretrained`: the value is the next word
        is_value = before.startswith("-") and "=" not in before + word
        (options if word.startswith("-") or is_value else overrides).append(word)
    return options + overrides


def _numbers(text: str) -> list[int]:
    numbers = [int(part) if part.isdecimal() else -1 for part in text.split(",")]
    if len(set(numbers)) < len(numbers) or min(numbers) < 0:
        raise ValueError(f"--seeds {text}: write different whole numbers, e.g. 0,1,2")
    return numbers


def seeds(
    words: Annotated[
        list[str],
        typer.Argument(metavar="-- WORDS...", help="Words of every run's command line, after --."),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the runs' folders, and of the comparison.")],
    seeds: Annotated[
        str, typer.Option(help="Joined by commas; rltf.seed and data.seed of the runs.")
    ] = "0,1,2",
    arm: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME='words of this arm only'. Can be repeated; the first is the baseline."
        ),
    ] = None,
    keep_going: Annotated[
        bool, typer.Option(help="Play the other runs when one has failed.")
    ] = False,
    hours: Annotated[
        float | None, typer.Option(help="Start no run after so many hours; compare what is there.")
    ] = None,
    x: Annotated[str, typer.Option("--x", help="Axes of `rltf compare`.")] = AXES,
    metric: Annotated[list[str] | None, typer.Option(help="Metrics of `rltf compare`.")] = None,
    program: Annotated[
        str, typer.Option(help="Command that trains; the words of a run follow it.")
    ] = PROGRAM,
) -> None:
    """Train with several seeds, one after the other, then compare. A second call skips what is
    finished.

    E.g. rltf seeds --out runs/x --arm grpo=--config-name=rltf_grpo --arm sd=--config-name=rltf_sd
    -- WORDS…
    """
    runs = runs_of(arm or [], _numbers(seeds), out, words, program)
    begun, failed = time.monotonic(), 0
    for run in runs:
        name, output = run.folder.name, run.folder / OUTPUT
        if run.is_finished:
            typer.echo(f"{name}: finished earlier")
        elif hours is not None and time.monotonic() - begun >= hours * HOUR:
            typer.echo(f"{name}: not started, --hours {hours:g} are over")
        else:
            typer.echo(f"{name}: output in {output}")
            status = run.play()
            failed = failed or status
            if status:
                typer.echo(f"{name}: failed with exit status {status}; see {output}", err=True)
        if failed and not keep_going:
            break
    if keep_going or not failed:
        _compare_finished(runs, out / "compare", x, metric)
    if failed:  # a signal's number is negative, a shell adds it to 128
        raise typer.Exit(failed if failed > 0 else 128 - failed)


def _compare_finished(runs: Sequence[SeedRun], out: Path, x: str, metric: list[str] | None) -> None:
    """Arm by arm: `compare` takes the first for the baseline."""
    arms = list(dict.fromkeys(run.arm for run in runs))
    done = [run for arm in arms for run in runs if run.arm == arm and run.is_finished]
    if done and done[0].arm != arms[0]:
        typer.echo(f"--arm {arms[0]}: the baseline has no finished run to compare with", err=True)
    elif done:
        compare([str(run.folder) for run in done], out, x, metric)
