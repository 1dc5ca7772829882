"""Every arm on houses that no setting was chosen on, from two starts; each run once, resumable.

    python recipes/pretrained/study.py [--hours 2]    # rates on another house, then all runs
    python recipes/pretrained/study_report.py         # table and picture of what is there

Finished runs are lines of results.jsonl beside this file and are not run again; a run that was cut
short starts anew. A second process with the same folder takes the runs that the first one has not
begun. Dates first, from both starts, with a constant rate, so that a budget of answers means the
same in each run; houses are outermost, so that a study that is not whole has all arms. Then with
the recipe's rate, which falls: letters; the dates of four houses at once, where another problem's
text mostly tells another house's rule; entries; dates, with the arms that had right answers.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, astuple, dataclass, fields
from itertools import chain, product
from pathlib import Path
from statistics import fmean
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.jsonl"
STARTS = ("zero", "mixed")
FOUR_HOUSES = "date, 4 houses"
HOUSES = (11, 12, 13)
TUNING_HOUSE, RATES = 20, (2e-5, 1e-4)
TEACHERS, CONTROL = ("sdpo", "opsd", "srpo", "rlsd", "rlcsd"), ", another problem's text"
GRPO, SHUFFLED, FORWARD_KL = "grpo 1 turn n=8", "fm, feedback shuffled", "sdpo, forward KL"
ONE_TURN, TWO_TURNS = (f"trainer.total_training_steps={steps}" for steps in (12, 16))
TWICE = {ONE_TURN: "trainer.total_training_steps=24", TWO_TURNS: "trainer.total_training_steps=32"}
"""Steps -> those of four houses: with 16, SFT had 0.30 right in one run."""
ONE = ("data.train_batch_size=8", "actor_rollout_ref.rollout.n=8", ONE_TURN)
RIGHT_ONLY = ("rltf.distill.weight=1.0", "rltf.distill.baseline=rejection")
FLOOR = ("rltf.distill.log_prob_floor=-5.0",)

ARMS: dict[str, tuple[str, ...]] = {
    GRPO: ("rltf/method=grpo_single", *ONE),
    "grpo n=2": ("rltf/method=grpo",),
    "grpo n=8": (
        "rltf/method=grpo",
        "data.train_batch_size=4",
        "actor_rollout_ref.rollout.n=8",
    ),
    "sft": ("rltf/method=sft", "rltf.imitate.weight=1.0"),
    "raft": ("rltf/method=raft",),
    "sd paper": ("rltf/method=sd", *FLOOR, "rltf.distill.floor=hard"),
    "sd soft floor": ("rltf/method=sd", *FLOOR),
    "sd rejection w=1": ("rltf/method=sd", *RIGHT_ONLY),
    "fm": ("rltf/method=fm",),
    SHUFFLED: ("rltf/method=fm", "rltf/feedback=shuffled"),
    "sd soft floor + fm": ("rltf/method=sd_fm", *FLOOR),
}
"""Arm -> overrides of the recipe's config. A step has 64 answers, or 32 to 64 with two turns."""
for _name in TEACHERS:
    ARMS[_name] = (
        f"rltf/method=teacher/{_name}",
        f"rltf.teacher.prompt={HERE / 'teacher.j2'}",
        *ONE,
    )
ARMS[FORWARD_KL] = (*ARMS["sdpo"], "rltf.logit_distill.divergence=forward_kl")
CONTROLS = {
    name + CONTROL: (*ARMS[name], "rltf.teacher.shuffled=true") for name in (*TEACHERS, FORWARD_KL)
} | {"rlcsd" + CONTROL: (*ARMS["rlcsd"], "rltf.teacher.against=other_problem")}
"""Each with a teacher that reads what was meant for another problem, at its method's rate."""

FM_WEIGHTS = {
    f"fm, weight {weight}": ("rltf/method=fm", f"rltf.feedback_modeling.weight={weight}")
    for weight in ("0.02", "0.1", "0.5", "[0.5,0.02]")
}
"""Tried on the tuning house from the start with no right first answer, at 1e-4; the last one falls
line by line, so that the policy learns the words first. `fm` is the best of them.
"""
THEN: tuple[tuple[str, str, Sequence[int], tuple[str, ...], bool], ...] = (
    ("reply", "zero", (11,), ("grpo n=2", "sft", "sd soft floor", "sd rejection w=1"), True),
    (FOUR_HOUSES, "zero", (13,), ("fm", SHUFFLED, FORWARD_KL, FORWARD_KL + CONTROL), True),
    ("entries", "zero", HOUSES, ("grpo n=2", "sft", "sd soft floor"), True),
    *(("entries", "zero", (11,), ("fm",), falls) for falls in (True, False)),
    ("date", "zero", HOUSES, ("sft", "raft", "sd soft floor", "sd rejection w=1"), True),
    ("date", "zero", (11,), ("fm", FORWARD_KL), True),
    ("date", "mixed", HOUSES, (GRPO, "sft", "raft", "sd soft floor"), True),
    ("date", "mixed", (11,), ("grpo n=2", "sdpo"), True),
)
"""Family, start, houses and arms of what follows, and whether the rate falls. One house of what
takes longest, and of arms that no text compares over houses. FM begins late, and learned less with
a rate that falls. A letter's reward is graded. How long four houses need was tried on house 11.
"""

RECIPE = ("--config-dir", str(HERE / "config"), "--config-name", "pretrained")
CONSTANT = "actor_rollout_ref.actor.optim.lr_scheduler_type=constant"
SHARED = (TWO_TURNS, "trainer.logger=[file]")
"""Before an arm's own words."""


@dataclass(frozen=True)
class Run:
    """One training run of the study."""

    family: str
    arm: str
    start: str
    house: int
    seed: int
    rate: float
    falls: bool = False
    """The rate, to a fifth at the last step."""


def finished() -> list[dict[str, Any]]:
    """Every line of results.jsonl."""
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text("utf-8").splitlines()]


def tuning_runs() -> Iterator[Run]:
    """Each arm at each rate on the mixed start, where all of them can learn."""
    for rate in RATES:
        for arm in ARMS:
            yield Run("date", arm, "mixed", TUNING_HOUSE, 0, rate)
    for arm in FM_WEIGHTS:
        yield Run("date", arm, "zero", TUNING_HOUSE, 0, RATES[-1])


def main_runs() -> Iterator[Run]:
    """Each arm at its own best rate, which was chosen on dates. Teachers and their controls first,
    then the others.
    """
    rates = best_rates()
    rates |= {control: rates[control.removesuffix(CONTROL)] for control in CONTROLS}
    for house, arm in product(HOUSES, (GRPO, *TEACHERS, *CONTROLS)):
        yield Run("date", arm, "mixed", house, 1, rates[arm])
    ours = [arm for arm in ARMS if arm not in (*TEACHERS[1:], SHUFFLED)]
    for house, start, arm in product(HOUSES, STARTS, ours):
        yield Run("date", arm, start, house, 1, rates[arm])
    for family, start, houses, arms, falls in THEN:
        for house, arm in product(houses, arms):
            yield Run(family, arm, start, house, 1, rates[arm], falls)


def best_rates() -> dict[str, float]:
    """Arm -> the rate with the best mean accuracy over the tuning run's validations."""
    scores: dict[str, dict[float, float]] = {}
    for line in finished():
        if (line["house"], line["start"]) == (TUNING_HOUSE, "mixed"):
            accuracies = [point["accuracy"] for point in line["curve"][1:]]
            mean = sum(accuracies) / len(accuracies)
            scores.setdefault(line["arm"], {})[line["rate"]] = mean
    missing = [arm for arm in ARMS if len(scores.get(arm, {})) < len(RATES)]
    if missing:
        raise SystemExit(f"no rate yet for {', '.join(missing)}")
    return {arm: max(rates, key=lambda rate: rates[rate]) for arm, rates in scores.items()}


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
        family = family.partition(",")[0]
        warm = self.out / f"warm_{family}"
        for command, folder in (("model", self.out / "smollm2"), ("warm_up", warm)):
            if not folder.is_dir():
                self.call([str(HERE / "pretrained.sh"), command], FAMILY=family)
        if start == "zero":
            return warm
        mixed = self.out / f"mixed_{house}"
        if not mixed.is_dir():
            self._make_mixed(warm, house, mixed)
        return mixed

    def _make_mixed(self, warm: Path, house: int, mixed: Path) -> None:
        """Thirty supervised steps in verl's SFT trainer on first questions of the house."""
        work = self.out / f"first_questions_{house}"
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
        self.call([sys.executable, str(HERE / "merge.py"), str(warm), adapter, str(mixed)])

    def data(self, family: str, house: int) -> Path:
        """The folder of a house's problems."""
        base = family.partition(", ")[0]
        place = {"FAMILY": base, "SEED": str(house)}
        if family == FOUR_HOUSES:
            place |= {"HOUSES": "4", "OUT": str(self.out / "four_houses")}
        folder = Path(place.get("OUT", self.out)) / f"data_{base}_{house}"
        if not folder.is_dir():
            self.call([str(HERE / "pretrained.sh"), "data"], **place)
        return folder

    def call(self, command: list[str], **variables: str) -> None:
        """Run one of the recipe's commands. Raises CalledProcessError."""
        subprocess.run(command, env={**self.environment, **variables}, check=True)

    def folder(self, run: Iterable[Any]) -> Path:
        """Of a run's values."""
        return self.out / "runs" / re.sub(r"\W+", "_", "_".join(map(str, run)))

    def train(self, run: Run) -> dict[str, Any]:
        """One run, and its line of results.jsonl."""
        model = self.model(run.family, run.start, run.house)
        folder = self.folder(astuple(run))
        words = (
            *([] if run.falls else [CONSTANT]),
            *(ARMS | CONTROLS | FM_WEIGHTS)[run.arm],
            f"actor_rollout_ref.actor.optim.lr={run.rate}",
        )
        seconds = self.play(folder, model, run.family, run.house, run.seed, words)
        return {**asdict(run), **measured(folder, seconds)}

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
        words = [*SHARED, *words]
        if family == FOUR_HOUSES:
            words = [TWICE.get(word, word) for word in words]
        words += [
            f"data.max_response_length={96 if family == 'reply' else 48}",
            f"rltf.seed={seed}",
            f"data.seed={seed}",
            f"rltf.env.name={HERE / 'house_style.py'}:HouseStyle",
            f"rltf.env.family={family.partition(', ')[0]}",
            f"rltf.env.num_houses={4 if family == FOUR_HOUSES else 1}",
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
                process = subprocess.Popen(
                    command,
                    env={**self.environment, **variables},
                    cwd=folder,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                try:
                    code = process.wait()
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


def commit() -> str:
    """The version of the code that made a line."""
    asked = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def training_steps(folder: Path) -> list[dict[str, Any]]:
    """The metrics of each."""
    lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    trained = (json.loads(line)["data"] for line in lines)
    return [data for data in trained if "rltf/turn_1/acc" in data]


def measured(folder: Path, seconds: int) -> dict[str, Any]:
    """What a line says of a finished run."""
    return {
        "seconds": seconds,
        "commit": commit(),
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


@contextmanager
def claimed(folder: Path) -> Iterator[bool]:
    """Whether this process has a run's folder, and not another one that makes it just now."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as claim:
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def play(runs: Iterator[Run], out: Path, hours: float) -> None:
    """All runs that have no line yet, until the hours are over."""
    study, end = Study(out), time.monotonic() + 3600 * hours
    names = [field.name for field in fields(Run)]
    for run in runs:
        with claimed(study.folder(astuple(run))) as mine:
            made = {tuple(line[name] for name in names) for line in finished()}
            if not mine or astuple(run) in made:
                continue
            if time.monotonic() > end:
                return
            line = study.train(run)
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            last = line["curve"][-1]
            print(f"{run}: {last['accuracy']:.2f} after {last['answers']} answers", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("outputs/study_lm"))
    parser.add_argument("--hours", type=float, default=1000.0, help="start no run after so long")
    parser.add_argument("--start", type=int, metavar="HOUSE", help="only make its mixed start")
    args = parser.parse_args()
    if args.start is not None:
        print(Study(args.out).model("date", "mixed", args.start))
        return
    # The rates are read from the tuning's lines: `main_runs` starts when those are there.
    play(chain(tuning_runs(), main_runs()), args.out, args.hours)


if __name__ == "__main__":
    main()
