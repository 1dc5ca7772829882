"""Prepares the starts and the problems of the pretrained recipe, and trains one run at a time: for
`study.py`, `law.py`, `unseen_runs.py` and recipes/corrections.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from rltf_verl.jsonl import append_lines, read_lines

HERE = Path(__file__).resolve().parent
SCRIPT = str(HERE / "pretrained.sh")
RECIPE = ("--config-dir", str(HERE / "config"), "--config-name", "pretrained")
MOST_ROUNDS = 4
"""Of 80 supervised steps each: those of the adapters that the project holds."""
Run = TypeVar("Run")
"""A dataclass; its fields say which run a line is of."""
TABLE = r"(<!-- {} --table -->\n\n).*?(\n\n<!-- end -->)"
"""The part of a page that a program writes."""


class Study:
    """Prepares starts and data in a folder, and trains one run at a time."""

    def __init__(self, out: Path) -> None:
        self.out = out.resolve()
        self.environment = {
            **os.environ,
            "OUT": str(self.out),
            "VERL_PLATFORM": "cpu",
            "OMP_NUM_THREADS": "1",
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def model(self, family: str, start: str, house: int) -> Path:
        """The folder of a start's weights; made where it is not there."""
        warm = self.made(self.out / f"warm_{family}", partial(self._warm_up, family))
        if start == "zero":
            return warm
        return self.made(self.out / f"mixed_{house}", partial(self._make_mixed, warm, house))

    def _smollm2(self) -> Path:
        return self.made(
            self.out / "smollm2", lambda part: self.call([SCRIPT, "model"], OUT=str(part))
        )

    def _warm_up(self, family: str, out: Path) -> None:
        variables = {"FAMILY": family, "MODEL": str(self._smollm2())}
        self.call([SCRIPT, "warm_up"], OUT=str(out), **variables)

    def _make_mixed(self, warm: Path, house: int, out: Path) -> None:
        """Thirty supervised steps in verl's SFT trainer on first questions of the house."""
        work = out / "first_questions"
        table = work / "dialogues.parquet"
        self.call(
            [sys.executable, str(HERE / "first_questions.py"), str(table), "--house", str(house)]
        )
        settings = [
            *("--config-dir", str(HERE / "config"), "--config-name", "warm_up"),
            f"trainer.default_local_dir={work / 'sft'}",
            f"hydra.run.dir={work / 'hydra'}",
        ]
        torchrun = ["torchrun", "--standalone", "--nproc_per_node=1"]
        variables = {"MODEL": str(warm), "OUT": str(work)}
        variables["VERL_FILE_LOGGER_PATH"] = str(work / "metrics.jsonl")
        self.call([*torchrun, "-m", "verl.trainer.sft_trainer", *settings], **variables)
        (checkpoint,) = (work / "sft").glob("global_step_*")
        merge = ["verl.model_merger", "merge", "--backend", "fsdp"]
        folders = ["--local_dir", str(checkpoint), "--target_dir", str(work / "merged")]
        self.call([sys.executable, "-m", *merge, *folders])
        adapter = str(work / "merged" / "lora_adapter")
        mixed = str(out / f"mixed_{house}")
        self.call([sys.executable, str(HERE / "merge.py"), str(warm), adapter, mixed])

    def policy(self, family: str, rounds: int) -> Path:
        """The weights after so many rounds of warm-up; made where they are not there."""
        if rounds == MOST_ROUNDS:
            return self.model(family, "zero", 0)
        variables = {"FAMILY": family, "ROUNDS": str(rounds), "MODEL": str(self._smollm2())}

        def make(out: Path) -> None:
            for command in ("adapter", "warm_up"):
                self.call([SCRIPT, command], OUT=str(out), **variables)

        return self.made(self.out / f"rounds_{rounds}" / f"warm_{family}", make)

    def data(self, family: str, house: int) -> Path:
        """The folder of a house's problems."""
        variables = {"FAMILY": family, "SEED": str(house)}
        return self.made(
            self.out / f"data_{family}_{house}",
            lambda out: self.call([SCRIPT, "data"], OUT=str(out), **variables),
        )

    def made(self, folder: Path, make: Callable[[Path], object]) -> Path:
        """A folder, whole or not there: by one process at a time, `make` writes it into another
        one, with the same name.
        """
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                part = folder.with_suffix(".part")
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir()
                make(part)
                (part / folder.name).rename(folder)
                shutil.rmtree(part)
        return folder

    def call(self, command: list[str], **variables: str) -> None:
        """Run one of the recipe's commands. Raises CalledProcessError."""
        subprocess.run(command, env={**self.environment, **variables}, check=True)

    def missing(
        self, runs: Iterable[Run], results: Path, hours: float = math.inf
    ) -> Iterator[tuple[Run, Path]]:
        """Each run that has no line in a file yet, and its folder; no more after so many hours. The
        caller adds its line before it goes on. What another process makes just now is left to it.
        """
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # `train_with` ends its run
        end = time.monotonic() + 3600 * hours
        for run in runs:
            values = asdict(run)  # type: ignore[call-overload]  # no bound says "a dataclass"
            name = "_".join(map(str, (results.stem, *values.values())))
            folder = self.out / "runs" / re.sub(r"\W+", "_", name)
            if _has_line(results, values):
                continue
            with _claimed(folder) as mine:
                if time.monotonic() > end:
                    return
                if not mine:
                    # Where the runs depend on the lines, this one comes again and again.
                    time.sleep(2)
                elif not _has_line(results, values):  # by another process before the claim
                    yield run, folder

    def play(
        self, folder: Path, model: Path, family: str, house: int, seed: int, words: Sequence[str]
    ) -> int:
        """One run into a folder, made anew; its seconds.

        Args:
            folder: of the run.
            model: weights at the start.
            family: of the house's problems.
            house: number of the house.
            seed: of the run.
            words: overrides of the recipe's config.

        Raises:
            SystemExit: it failed; names its log.
        """
        data = self.data(family, house)
        words = [
            "trainer.logger=[file]",
            *words,
            f"data.max_response_length={96 if family == 'reply' else 48}",
            f"rltf.seed={seed}",
            f"data.seed={seed}",
            f"rltf.env.name={HERE / 'house_style.py'}:HouseStyle",
            f"rltf.env.family={family}",
            f"data.train_files={data / 'train.parquet'}",
            f"data.val_files={data / 'test.parquet'}",
        ]
        return self.train_with(folder, model, words)

    def train_with(
        self,
        folder: Path,
        model: Path | None,
        words: Sequence[str],
        config: Sequence[str] = RECIPE,
    ) -> int:
        """One run of a config, the recipe's, with these overrides, made anew; its seconds.

        Raises:
            SystemExit: it failed; names its log.
        """
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        command = [
            *(sys.executable, "-m", "verl.trainer.main_ppo"),
            *config,
            *words,
            f"trainer.default_local_dir={folder / 'checkpoints'}",
            f"hydra.run.dir={folder / 'hydra'}",
        ]
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="rltf", ignore_cleanup_errors=True) as ray_folder:
            variables = {
                **({"MODEL": str(model)} if model else {}),
                "RAY_TMPDIR": ray_folder,
                "VERL_FILE_LOGGER_PATH": str(folder / "metrics.jsonl"),
            }
            with (folder / "log.txt").open("wb") as log:
                # An end that came before there is a process to end would leave it alone.
                early: list[int] = []
                ends = signal.signal(signal.SIGTERM, lambda number, _: early.append(number))
                process = subprocess.Popen(
                    command,
                    env={**self.environment, **variables},
                    cwd=folder,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    close_fds=False,  # the claim of the run is its own too: it may outlive us
                )
                try:
                    signal.signal(signal.SIGTERM, ends)
                    code = 128 + early[0] if early else process.wait()
                finally:
                    _end(process)
        if code:
            raise SystemExit(f"{folder.name} ended with {code}: see {folder / 'log.txt'}")
        return round(time.monotonic() - began)


def _end(process: subprocess.Popen[bytes]) -> None:
    """The run's whole process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _commit() -> str:
    asked = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


COMMIT = _commit()
"""The version of the code that made a line: at the start, it may move meanwhile."""


def training_steps(folder: Path) -> list[dict[str, Any]]:
    """The metrics of each."""
    lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    trained = (json.loads(line)["data"] for line in lines)
    return [data for data in trained if "rltf/turn_1/acc" in data]


def measured(folder: Path, seconds: int) -> dict[str, Any]:
    """What a line says of a finished run."""
    return {
        "seconds": seconds,
        "commit": COMMIT,
        "right_before_and_after_feedback": first_step(folder),
        "entropy_and_corrected_at_the_end": last_steps(folder),
        "curve": curve(folder),
    }


def first_step(folder: Path) -> list[float | None]:
    """Shares of answers that are right in the first training step: the first ones, and those that
    stand after feedback; None with one turn, and where nothing is trained.
    """
    data = next(iter(training_steps(folder)), {})
    return [data.get("rltf/turn_1/acc"), data.get("rltf/turn_2/standing")]


def last_steps(folder: Path) -> list[float | None]:
    """Nats per token, and the share of wrong first answers that feedback rights; means over the
    last quarter of the steps, None where no step has it.
    """
    steps = training_steps(folder)
    late = steps[-(len(steps) // 4) :]
    found = ([d[k] for d in late if k in d] for k in ("actor/entropy", "rltf/turn_2/corrected"))
    return [round(fmean(values), 4) if values else None for values in found]


def curve(folder: Path) -> list[dict[str, Any]]:
    """A point per validation: answers sampled and seconds of training until then, accuracy."""
    points, answers, seconds = [], 0.0, 0.0
    for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        data = record["data"]
        answers += data.get("rltf/session/total", 0) * data.get("rltf/session/turns", 0)
        seconds += data.get("timing_s/step", 0.0) - data.get("timing_s/testing", 0.0)
        accuracy = [v for k, v in data.items() if k.startswith("val-core/") and "/acc/" in k]
        if accuracy:
            points.append(
                {
                    "step": record["step"],
                    "answers": round(answers),
                    "seconds": round(seconds, 1),
                    "accuracy": round(accuracy[0], 4),
                }
            )
    return points


def lines_of(results: Path) -> list[dict[str, Any]]:
    """The finished runs."""
    return read_lines(results) if results.exists() else []


def mean_and_each(shares: Sequence[float]) -> str:
    """`0.90 (0.89 0.91)`."""
    return f"{fmean(shares):.2f} ({' '.join(f'{share:.2f}' for share in shares)})"


def with_table(page: str, table: str, program: str = "runs.py") -> str:
    """The page with this table of a program."""
    place = re.compile(TABLE.format(re.escape(program)), re.DOTALL)
    return place.sub(lambda mark: f"{mark[1]}{table}{mark[2]}", page)


def make_runs(
    results: Path,
    page: Path,
    description: str,
    runs: Iterable[Run],
    train: Callable[[Study, Run, Path], dict[str, Any]],
    table: Callable[[list[dict[str, Any]]], str],
) -> None:
    """The command line of a program's runs: make those that a file of lines lacks, or, with
    --table, write their table.

    Args:
        results: the lines, in the recipe's folder.
        page: has the table.
        description: its first line is the command's.
        runs: in order.
        train: makes a run in a folder; returns its line.
        table: Markdown of the lines.
    """
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("outputs") / results.parent.name)
    parser.add_argument("--hours", type=float, default=1000.0, help="start no run after so long")
    parser.add_argument("--table", action="store_true", help=f"only write that of {page.name}")
    args = parser.parse_args()
    if args.table:
        text, program = page.read_text("utf-8"), Path(sys.argv[0]).name
        page.write_text(with_table(text, table(lines_of(results)), program), "utf-8")
        return
    study = Study(args.out)
    for run, folder in study.missing(runs, results, args.hours):
        line = train(study, run, folder)
        append_lines(results, [line])
        print(line, flush=True)


def pivot(corner: str, cells: Mapping[tuple[str, str], Sequence[str]]) -> Iterator[str]:
    """Lines of a Markdown table.

    Args:
        corner: its first cell.
        cells: (row, column) -> texts; rows and columns are in the order of the keys.
    """
    rows, columns = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    yield f"| {corner} | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for row in rows:
        yield f"| {row} | {' | '.join(', '.join(cells.get((row, of), ())) for of in columns)} |"


def _has_line(results: Path, values: dict[str, Any]) -> bool:
    return any(values.items() <= line.items() for line in lines_of(results))


@contextmanager
def _claimed(folder: Path) -> Iterator[bool]:
    """Whether this process has a run's folder, and not another one that makes it just now."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as claim:
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            os.set_inheritable(claim.fileno(), True)
            yield True
