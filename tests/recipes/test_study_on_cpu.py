"""recipes/pretrained/study.py: how rates and weights are chosen, and which runs are results."""

import os
import re
import signal
import subprocess
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest

from rltf_verl.jsonl import append_lines
from tests.recipes import (
    composing,
    house_style,  # noqa: F401  # makes the files beside it importable
)
from tests.recipes.composing import program


@pytest.fixture
def study(monkeypatch, tmp_path):
    """The study, without a finished run."""
    study = program("pretrained/study.py")
    monkeypatch.setattr(study, "RESULTS", tmp_path / "results.jsonl")
    return study


def choose(study, accuracy) -> Counter:
    """Make every run of the choice with this accuracy; runs of each arm."""
    for run in study.choosing_runs(study.ARMS):
        points = [{"accuracy": 0.0}, {"accuracy": accuracy(run)}]
        append_lines(study.RESULTS, [{**asdict(run), "curve": points}])
    return Counter(line["arm"] for line in study.finished())


def test_each_arm_has_six_runs_where_its_best_values_are_inner_ones(study):
    usual = {arm: of.usual for arm, of in study.ARMS.items()}
    right = {5e-5: 0.2, 1e-4: 0.6, 2e-4: 0.3}
    counts = choose(study, lambda run: right[run.rate] - 0.1 * abs(run.weight - usual[run.arm]))
    assert set(counts.values()) == {6}
    assert all(study.choice(arm) == (1e-4, usual[arm]) for arm in study.ARMS)


def test_an_edge_is_followed_outwards_and_not_for_ever(study):
    counts = choose(study, lambda run: 0.3 if run.rate == 2.5e-5 else run.rate)
    assert study.best_rate("sft") == 16e-4
    assert set(counts.values()) <= {study.MOST * 2, study.MOST + 3, study.MOST + 4}


def test_results_are_paired_by_house_and_have_a_null_pair(study):
    choose(study, lambda run: 0.5)
    runs = list(study.result_runs(study.ARMS, study.GRID))
    assert len(runs) == len(set(runs))
    assert not {run.house for run in runs} & set(study.CHOOSING)
    dates = [run for run in runs if run.task == "date"]
    for arm in (*study.CORE, study.AGAIN):
        starts = Counter(run.start for run in dates if run.arm == arm)
        assert starts == {"zero": 8, "mixed": 4}
    null, again = ([run for run in runs if run.arm == arm] for arm in (study.NULL, study.AGAIN))
    assert {replace(run, arm=study.NULL, seed=1) for run in again} <= set(null)
    assert {run.house for run in dates if run.arm in study.OTHERS} == set(study.FEW)


def test_every_run_of_a_task_starts(study, tmp_path):
    choose(study, lambda run: 0.5)
    firsts = {(run.task, run.arm): run for run in study.result_runs(study.ARMS, study.GRID)}
    assert {task for task, _ in firsts} == {task for task, *_ in study.GRID}
    env = f"rltf.env.name={study.HERE / 'house_style.py'}:HouseStyle"
    for run in firsts.values():
        (tmp_path / f"data_{run.task}_{run.house}").mkdir(exist_ok=True)  # as if they were made
        own = run.task in study.OWN_DATA
        words = study.words_with_data(study.Study(tmp_path), run) if own else [env]
        assert composing.rltf_of("pretrained", *study.words_of(run), *words)


@pytest.fixture
def report(study):
    """What writes the pages."""
    return program("pretrained/study_report.py")


@pytest.mark.parametrize(
    ("ends", "table"),
    [
        (  # Student's interval: stdev 0.1 of three, 4.303 × 0.1 / √3
            {"sft": (0.8, 0.9, 0.7), "sd": (0.9, 0.9, 0.9)},
            [["3", "0.80 ± 0.25", "-0.10 ± 0.25 (0 : 2) |"], ["3", "0.90 ± 0.00", " |"]],
        ),
        (  # few right answers are counted, and two houses have their values
            {"sft": (0.0, 2 / 64), "sd": (0.25, 0.5)},
            [["2", "2 of 128", " |"], ["2", "0.25, 0.50", " |"]],
        ),
    ],
)
def test_a_table_compares_paired_houses(report, ends, table):
    lines = [
        {
            "task": "form",
            "start": "zero",
            "arm": arm,
            "house": house,
            "curve": [{"accuracy": 0.0}, {"accuracy": end}],
        }
        for arm, of in ends.items()
        for house, end in enumerate(of)
    ]
    page = report.with_tables("<!-- table: form; zero -->\n\nold\n\n<!-- end -->", lines)
    assert report.with_tables(page, lines) == page
    assert [row.split(" | ")[1:] for row in page.splitlines() if row.startswith("| s")] == table


@pytest.mark.parametrize(
    ("ours", "signs"),
    [
        ([0.4, *[0.6] * 7], "(7 : 1, p 0.070)"),  # 2 (1 + 8) / 2^8
        ([0.5, *[0.6] * 7], "(7 : 0, p 0.016)"),
        ([0.5, 0.5, 0.5, *[0.6] * 5], "(5 : 0)"),
    ],
)
def test_the_sign_test_is_exact_and_ties_are_left_out(report, ours, signs):
    assert report.contrast(dict(enumerate(ours)), dict.fromkeys(range(8), 0.5)).endswith(signs)


@dataclass(frozen=True)
class Made:
    """A run."""

    arm: str
    house: int


def test_a_run_is_made_once_and_left_to_the_process_that_makes_it(study, tmp_path):
    training = program("pretrained/training.py")
    results, runs = tmp_path / "lines.jsonl", [Made("sd", house) for house in range(4)]
    append_lines(results, [{**asdict(runs[1]), "curve": []}])
    first = training.Study(tmp_path).missing(runs, results)
    run, folder = next(first)
    assert (run, folder.name) == (runs[0], "lines_sd_0")
    others = [run for run, _ in training.Study(tmp_path).missing(runs, results)]
    assert others == runs[2:]
    append_lines(results, [asdict(runs[0])])
    assert [run for run, _ in first] == runs[2:]
    assert not list(training.Study(tmp_path).missing(runs, results, hours=0))


TRAINER = """
import os
print([os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")])
"""


ASKS_TO_END = """
import os, signal, time
print(os.getpid(), flush=True)
os.kill(os.getppid(), signal.SIGTERM)
time.sleep(600)
"""


@pytest.fixture
def train(tmp_path, monkeypatch):
    """A program in the place of verl's -> the folder of its run."""

    def trained(text: str) -> Path:
        trainer = tmp_path / "verl" / "trainer" / "main_ppo.py"
        trainer.parent.mkdir(parents=True)
        for package in (trainer.parent.parent, trainer.parent):
            (package / "__init__.py").touch()
        trainer.write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        study = program("pretrained/training.py").Study(tmp_path)
        for _, folder in study.missing([Made("sd", 0)], tmp_path / "lines.jsonl"):
            study.train_with(folder, None, [])
        return folder

    before = signal.getsignal(signal.SIGTERM)
    yield trained
    signal.signal(signal.SIGTERM, before)


def test_a_trainer_holds_the_claim_of_its_run(train):
    """So that one that outlives its study has no rival."""
    folder = train(TRAINER)
    assert str(folder.with_suffix(".lock")) in (folder / "log.txt").read_text()


def test_a_study_that_is_ended_ends_its_run(train, tmp_path):
    with pytest.raises(SystemExit):
        train(ASKS_TO_END)
    pid = int((tmp_path / "runs/lines_sd_0/log.txt").read_text())
    assert not Path(f"/proc/{pid}").exists()


def test_an_end_that_comes_while_a_run_starts_ends_it(train, monkeypatch):
    class EndedAtItsStart(subprocess.Popen):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            if options.get("start_new_session"):
                started.append(self)
                os.kill(os.getpid(), signal.SIGTERM)

    started = []
    monkeypatch.setattr(subprocess, "Popen", EndedAtItsStart)
    with pytest.raises(SystemExit):
        train("import time; time.sleep(600)")
    assert [run.returncode for run in started] == [-signal.SIGKILL]


def test_what_was_made_halfway_is_made_again(tmp_path):
    study = program("pretrained/training.py").Study(tmp_path)

    def full_disk(out):
        (out / "data").mkdir()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        study.made(tmp_path / "data", full_disk)
    made = study.made(tmp_path / "data", lambda out: (out / "data").mkdir())
    assert made.is_dir()
    assert study.made(tmp_path / "data", full_disk) == made


def test_the_pages_have_the_tables_of_the_lines():
    report = program("pretrained/study_report.py")
    for page in report.PAGES:
        text = page.read_text("utf-8")
        assert report.with_tables(text, report.finished()) == text


def test_intervals_of_the_prose_are_those_of_the_tables():
    report = program("pretrained/study_report.py")
    page = report.PAGES[0].read_text("utf-8")
    tables = "".join(mark[0] for mark in report.MARK.finditer(page))
    root = report.HERE.parents[1]
    others = [(root / name).read_text("utf-8") for name in ("README.md", "docs/methods.md")]
    for text in (report.MARK.sub("", page), *others):
        told = re.findall(r"\d\.\d\d ± \d\.\d\d", text)
        assert [interval for interval in told if interval not in tables] == []
    differences = re.findall(r"[+-]\d\.\d\d ± \d\.\d\d \(", tables)
    assert f" {len(differences)} differences" in page
