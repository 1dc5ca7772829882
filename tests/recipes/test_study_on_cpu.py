"""recipes/pretrained/study.py: how rates and weights are chosen, and which runs are results."""

from collections import Counter
from dataclasses import asdict, dataclass, replace

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
        of = Counter(run.start for run in dates if run.arm == arm)
        assert of == {"zero": 8, "mixed": 4}
    null, again = ([run for run in runs if run.arm == arm] for arm in (study.NULL, study.AGAIN))
    assert {replace(run, arm=study.NULL, seed=1) for run in again} <= set(null)
    assert set(study.result_runs(study.FIRST, study.GRID)) < set(runs)
    others = {run.house for run in dates if run.arm in study.OTHERS}
    assert others == set(study.FEW)


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


def test_a_table_has_students_interval_of_paired_houses(study):
    report = program("pretrained/study_report.py")
    lines = [
        {
            "task": "date",
            "start": "zero",
            "arm": arm,
            "house": house,
            "curve": [{"accuracy": 0.0}, {"accuracy": 0.5}, {"accuracy": end}],
        }
        for arm, ends in (("sft", (0.8, 0.9, 0.7)), ("sd", (0.9, 0.9, 0.9)))
        for house, end in enumerate(ends)
    ]
    page = report.with_tables("<!-- table: date; zero -->\n\nold\n\n<!-- end -->", lines)
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| s")]
    # stdev 0.1 of three: 4.303 × 0.1 / √3
    assert rows[0][1:] == ["3", "0.80 ± 0.25", "0.65 ± 0.12", "", "-0.10 ± 0.25 |"]
    assert rows[1][2:] == ["0.90 ± 0.00", "0.70 ± 0.00", "+0.10 ± 0.25", " |"]
    assert report.with_tables(page, lines) == page


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


def test_half_a_line_of_a_full_disk_costs_its_run_only(tmp_path):
    training = program("pretrained/training.py")
    results, runs = tmp_path / "lines.jsonl", [Made("sd", house) for house in range(3)]
    results.write_text('{"arm": "sd", "hou')
    append_lines(results, [asdict(runs[1])])
    left = [run for run, _ in training.Study(tmp_path).missing(runs, results)]
    assert left == [runs[0], runs[2]]


TRAINER = """
import os
print([os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")])
"""


def test_a_trainer_holds_the_claim_of_its_run(tmp_path, monkeypatch):
    """So that one that outlives its study has no rival."""
    trainer = tmp_path / "verl" / "trainer" / "main_ppo.py"
    trainer.parent.mkdir(parents=True)
    for package in (trainer.parent.parent, trainer.parent):
        (package / "__init__.py").touch()
    trainer.write_text(TRAINER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    study = program("pretrained/training.py").Study(tmp_path)
    for _, folder in study.missing([Made("sd", 0)], tmp_path / "lines.jsonl"):
        study.train_with(folder, None, [])
    assert str(folder.with_suffix(".lock")) in (folder / "log.txt").read_text()


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


def test_the_page_has_the_tables_of_the_lines():
    report = program("pretrained/study_report.py")
    page = report.PAGE.read_text("utf-8")
    assert report.with_tables(page, report.finished()) == page
