"""`rltf compare`: what it prints, writes and refuses."""

import json

import pytest

from tests.support.commands import ran, refused
from tests.support.log_records import line, write
from tests.support.run_files import ACC, evaluated, run, step, write_metrics


def test_tables_files_and_pictures(tmp_path):
    for name, ends in {
        "grpo_seed0": 0.3,
        "grpo_seed1": 0.4,
        "sd_seed0": 0.6,
        "sd_seed1": 0.7,
    }.items():
        run(tmp_path / name / "metrics.jsonl", [0.1, 0.2, ends], every=2)
    out = tmp_path / "out"
    result = ran(
        "compare",
        *(tmp_path / f"{arm}_seed{k}" for arm in ("grpo", "sd") for k in (0, 1)),
        "--out",
        out,
    )
    for part in ("0.350±0.071", "+0.300 *", "left out: --x rollouts", "left out: --x cost"):
        assert part in result.stdout
    assert sorted(p.name for p in out.iterdir()) == [
        "compare.json",
        "compare.md",
        *(
            f"first_turn.{axis}.{kind}"
            for axis in ("hours", "step", "tokens")
            for kind in ("png", "svg")
        ),
    ]
    assert (out / "first_turn.step.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert "sd (2 seeds)" in (out / "first_turn.step.svg").read_text()
    written = json.loads((out / "compare.json").read_text())
    (hours,) = (panel for panel in written["panels"] if panel["axis"] == "hours")
    assert [p["y"] for p in hours["points"] if "sd_seed0" in p["run"]] == [0.1, 0.2, 0.6]
    page = (out / "compare.md").read_text().splitlines()
    assert "| sd | 2 | 0.100±0.000 | 0.650±0.071 | 0.650±0.071 | 4 |" in page


def test_other_metrics_by_name(tmp_path):
    run(tmp_path / "a" / "metrics.jsonl", [0.1, 0.2, 0.3])
    for number in (1, 2):
        write(tmp_path / "a" / "episodes", [line("1", "42")], step=number)
    out = tmp_path / "out"
    words = (
        "--metric",
        "log/train/turn_2/standing",
        "--metric",
        "perf/total_num_tokens",
        "--x",
        "rollouts",
    )
    ran("compare", tmp_path / "a", *words, "--out", out)
    drawn = ("log_train_turn_2_standing.rollouts", "perf_total_num_tokens.rollouts")
    assert {path.stem for path in out.glob("*.rollouts.*")} == {*drawn}


def test_one_picture_per_validation_set(tmp_path):
    easy, hard = "val-core/easy/acc/mean@1", "val-core/hard/acc/mean@1"
    for name in ("a", "b"):
        records = [(0, {easy: 0.5, hard: 0.1}), (1, step() | {easy: 0.6, hard: 0.2})]
        write_metrics(tmp_path / f"{name}.jsonl", records)
    out = tmp_path / "out"
    ran("compare", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--x", "step", "--out", out)
    pictures = {path.name for path in out.glob("*.png")}
    assert pictures == {"first_turn_easy.step.png", "first_turn_hard.step.png"}


@pytest.fixture(scope="module")
def runs_that_cannot_be_compared(tmp_path_factory):
    """Their folder."""
    t = tmp_path_factory.mktemp("runs")
    run(t / "good.jsonl", [0.1, 0.2])
    write_metrics(t / "once.jsonl", [(0, evaluated(0.1))])
    write_metrics(t / "no_validation.jsonl", [(1, step()), (2, step())])
    write_metrics(
        t / "other_set.jsonl",
        [(0, {"val-core/other/acc/mean@1": 0.1}), (1, {"val-core/other/acc/mean@1": 1})],
    )
    (t / "chart.csv").write_text("Step,sd - acc\n0,0.1\n")
    (t / "empty").mkdir()
    for name in ("one", "two"):
        run(t / "several" / f"{name}.jsonl", [0.1, 0.2])
        write(t / "logs" / name / "episodes", [line("42")])
    write(t / "logged" / "episodes", [line("42")], step=0, validate=True)
    write(t / "logged" / "episodes", [line("42")], step=1, validate=True)
    return t


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["nowhere"], "nowhere: no such file or folder"),
        (["a=nowhere_*"], "no file or folder matches"),
        (["=good.jsonl"], "write NAME=good.jsonl"),
        (["empty"], "empty: no metrics in it"),
        (["chart.csv"], "chart.csv: no metrics in it"),
        (["once.jsonl"], "has first_turn at step 0 only"),
        (["no_validation.jsonl"], "no episode log with a validation in no_validation.jsonl"),
        (["good.jsonl", "other_set.jsonl"], "is common to all runs"),
        (
            ["good.jsonl", "logged"],
            "logged has none; no episode log with a validation in good.jsonl",
        ),
        (["good.jsonl", "good.jsonl"], "given 2 times"),
        (["several"], "holds several runs"),
        (["logs"], "holds several runs, with episode logs in"),
        (["good.jsonl", "--x", "step,hour"], "Did you mean 'hours'?"),
        (
            ["good.jsonl", "--metric", "timing_s/stepp"],
            "not in good.jsonl; names like it: timing_s/step",
        ),
        (["good.jsonl", "--metric", "acc"], f"names like it: {ACC}"),
        (["good.jsonl", "--metric", "zzz"], "none with a name like it"),
    ],
)
def test_what_a_user_can_fix_is_one_line(runs_that_cannot_be_compared, monkeypatch, words, cause):
    monkeypatch.chdir(runs_that_cannot_be_compared)
    assert cause in refused("compare", *words, "--out", "out")
    assert not (runs_that_cannot_be_compared / "out").exists()
