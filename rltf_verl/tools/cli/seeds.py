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
from pathlib import Path
from typing import Annotated

import typer

from rltf_verl.tools.cli.compare import AXES, compare

PROGRAM = "python -m verl.trainer.main_ppo"
COMMAND, FINISHED, OUTPUT = "command.json", "finished", "output.txt"
HOUR = 3600
"""Seconds."""
WITH_VALUE = {
    *("--config-name", "-cn", "--config-path", "-cp", "--config-dir", "-cd"),
    *("--cfg", "-c", "--package", "-p"),
}
"""Hydra's options whose value may be the next word."""


@dataclass(frozen=True)
class SeedRun:
    """One run, in a folder of its own."""

    arm: str
    folder: Path
    command: tuple[str, ...]

    @property
    def is_finished(self) -> bool:
        """An earlier call has seen it end well."""
        return (self.folder / FINISHED).exists()

    def check(self) -> None:
        """Raise ValueError if the folder holds a run of another command: it would be resumed, or
        taken for this one.
        """
        path = self.folder / COMMAND
        if not path.exists():
            return
        known = json.loads(path.read_text(encoding="utf-8"))
        differing = sorted({*self.command, *known} - ({*self.command} & {*known}))
        if tuple(known) != self.command:
            raise ValueError(
                f"--out: {self.folder} holds a run of another command (other words:"
                f" {shlex.join(differing)[:300]}); name another folder, or remove that one"
            )

    def play(self) -> int:
        """Run it, or go on with it; its output goes to a file. Returns the exit status."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / COMMAND).write_text(json.dumps(self.command), encoding="utf-8")
        env = {**os.environ, "VERL_FILE_LOGGER_PATH": str(self.folder / "metrics.jsonl")}
        with (self.folder / OUTPUT).open("ab") as output:
            status = subprocess.run(
                self.command, env=env, stdout=output, stderr=subprocess.STDOUT
            ).returncode
        if status == 0:
            (self.folder / FINISHED).touch()
        return status


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
        ValueError: an arm without a name, or two of one name.
    """
    pairs = [arm.partition("=") for arm in arms] or [("run", "=", "")]
    names = [name for name, _, _ in pairs]
    for name, equals, own in pairs:
        if not (equals and name.replace("-", "_").isidentifier()):
            raise ValueError(
                f"--arm {name}{equals}{own}: is written NAME='--config-name=… key=value …'"
            )
    if len(set(names)) < len(names):
        raise ValueError(f"--arm {' --arm '.join(names)}: each arm needs a name of its own")
    start = shlex.split(program)
    start = [sys.executable, *start[1:]] if start[:1] == ["python"] else start
    return [
        SeedRun(
            name,
            folder,
            (*start, *_options_first([*shlex.split(own), *words]), *_own_words(folder, seed)),
        )
        for seed in seeds
        for name, _, own in pairs
        for folder in [out.absolute() / f"{name}_seed{seed}"]
    ]


def _options_first(words: Sequence[str]) -> list[str]:
    """Hydra's parser refuses overrides on both sides of an option. Words before the first of both
    are the program's own.
    """
    ends = (i for i, word in enumerate(words) if "=" in word or word.startswith(("-", "~")))
    start = next(ends, len(words))
    options, overrides = list(words[:start]), list[str]()
    for before, word in zip(["", *words[start:]], words[start:], strict=False):
        of_option = word.startswith("-") or before in WITH_VALUE
        (options if of_option else overrides).append(word)
    return options + overrides


def _by_arm(runs: Sequence[SeedRun]) -> list[str]:
    """Folders of the finished ones, arm by arm: `compare` takes the first for the baseline. None if
    that arm has none.
    """
    arms = list(dict.fromkeys(run.arm for run in runs))
    done = [run for run in runs if run.is_finished]
    if done and all(run.arm != arms[0] for run in done):
        typer.echo(
            f"--arm {arms[0]}: is the baseline, and no run of it has finished; compare the others"
            " with rltf compare",
            err=True,
        )
        return []
    return [str(run.folder) for arm in arms for run in done if run.arm == arm]


def _own_words(folder: Path, seed: int) -> list[str]:
    return [
        f"rltf.seed={seed}",
        f"data.seed={seed}",
        f"trainer.experiment_name={folder.name}",
        f"trainer.default_local_dir={folder / 'checkpoints'}",
        f"hydra.run.dir={folder / 'hydra'}",
    ]


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or len(set(numbers)) < len(numbers) or min(numbers) < 0:
        raise ValueError(
            f"--seeds {text}: must be different whole numbers, not negative, e.g. 0,1,2"
        )
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
    runs, failed = runs_of(arm or [], _numbers(seeds), out, words, program), 0
    for run in runs:
        run.check()
    begun, played = time.monotonic(), 0
    for place, run in enumerate(runs):
        if run.is_finished:
            typer.echo(f"{run.folder.name}: finished earlier")
            continue
        if hours is not None and time.monotonic() - begun >= hours * HOUR:
            typer.echo(f"{run.folder.name}: not started, --hours {hours:g} are over")
            continue
        typer.echo(f"{run.folder.name}: output in {run.folder / OUTPUT}")
        status = run.play()
        played += 1
        if status != 0:
            typer.echo(
                f"{run.folder.name}: failed with exit status {status}; see {run.folder / OUTPUT}",
                err=True,
            )
            failed = failed or status
            if not keep_going:
                break
        left = sum(not other.is_finished for other in runs[place + 1 :])
        if left:
            each = (time.monotonic() - begun) / played / HOUR
            typer.echo(f"{each:.2g} hours a run, about {left * each:.2g} for the {left} to come")
    if keep_going or not failed:
        finished = _by_arm(runs)
        if finished:
            compare(finished, out / "compare", x, metric)
    if failed:
        raise typer.Exit(
            failed if failed > 0 else 128 - failed
        )  # a signal's number is negative, a shell adds it to 128
