"""Comparisons of hand-made runs whose numbers are plain to see; what `rltf compare` prints, writes
and refuses.
"""

import json
from dataclasses import replace

import pandas as pd
import pytest

from rltf_verl.tools.report.compare.comparison import compare, file_names
from rltf_verl.tools.report.compare.numbers import Panel, at_budget, mean_curve
from rltf_verl.tools.report.compare.run import arms_of, read_arms
from rltf_verl.tools.report.compare.show import sections
from rltf_verl.tools.report.history import read_history
from tests.support.commands import ran, refused
from tests.support.log_records import HINT, line, turn, write
from tests.support.run_files import ACC, evaluated, run, step, write_metrics

AXES = ("step", "rollouts", "tokens", "hours", "cost")


@pytest.mark.parametrize(
    ("quantities", "names"),
    [
        (["val-core/a b/acc/mean@1"], ["val_core_a_b_acc_mean@1.step"]),
        (["first_turn 数学", "first_turn 物理"], ["first_turn_数学.step", "first_turn_物理.step"]),
        (["a/b", "a b", "a+b"], ["a_b.step", "a_b.step.2", "a_b.step.3"]),
    ],
)
def test_each_picture_has_a_name_of_its_own(quantities, names):
    drawn = [Panel(name, name, "step", "steps", pd.DataFrame(), {}) for name in quantities]
    assert file_names(drawn) == names


def compared(*arguments, axes=AXES, metrics=("first_turn",)):
    return compare(read_arms([str(a) for a in arguments]), axes, metrics)


def panels(comparison):
    return {panel.axis: panel for panel in comparison.panels}


def spent(panel):
    """What each run had spent at its evaluations."""
    return [points["x"].tolist() for _, points in panel.points.groupby("run", sort=False)]


def test_two_seeds_of_one_arm_against_one_of_another(tmp_path):
    shares = {"b": [0.0, 0.2, 0.25], "a1": [0.1, 0.3, 0.5], "a2": [0.2, 0.5, 0.3]}
    runs = [f"{arm[0]}={run(tmp_path / f'{arm}.jsonl', of)}" for arm, of in shares.items()]
    comparison = compared(*runs, axes=["step"])
    (_, (whole, budget), _) = next(sections(comparison))
    assert whole[1:] == [
        ("b", "1", "0.000", "0.250", "0.250", "2"),
        ("a", "2", "0.150±0.071", "0.500±0.000", "0.400±0.141", "2"),
    ]
    assert budget[1:] == [
        ("step 2", "b", "0.250", "2", "–"),
        ("", "a", "0.400±0.141", "2", "+0.150"),  # one seed has no range: no mark
    ]
    (panel,) = comparison.panels
    curve = mean_curve(panel.points[panel.points["arm"] == "a"])
    assert curve.round(9).to_dict("split")["data"] == [
        [0, 0.15, 0.1, 0.2],
        [1, 0.4, 0.3, 0.5],
        [2, 0.4, 0.3, 0.5],
    ]


def test_equal_hours_and_tokens_are_not_equal_steps(tmp_path):
    slow, fast = tmp_path / "slow.jsonl", tmp_path / "fast.jsonl"
    run(slow, [0.0, 0.4, 0.6, 0.8], seconds=7200.0, tokens=500)  # 0 to 6 h; 0 to 1500
    run(fast, [0.0, 0.1, 0.2, 0.3], seconds=3600.0, tokens=1000)  # 0 to 3 h; 0 to 3000
    by_axis = panels(compared(fast, slow))
    assert set(by_axis) == {"step", "tokens", "hours"}
    reached = {
        axis: [(point.value.item(), point.spent.item()) for point in at_budget(panel).values()]
        for axis, panel in by_axis.items()
    }
    # at 3 h the slow one had not been evaluated again
    assert reached["hours"] == [(0.3, 3.0), (0.4, 2.0)]
    assert reached["tokens"] == [(0.1, 1000), (0.8, 1500)]


def test_a_resumed_run_goes_on_where_the_later_process_began(tmp_path):
    folder = tmp_path / "run"
    first = [
        (0, evaluated(0.1)),
        (1, step(3600)),
        (2, step(3600) | evaluated(0.2)),
        (3, step(3600)),
        (4, step(3600) | evaluated(0.9)),
        (5, step(3600)),
    ]
    resumed = [(2, evaluated(0.21)), (3, step(7200)), (4, step(7200) | evaluated(0.4))]
    parts = write_metrics(folder / "1.jsonl", first), write_metrics(folder / "2.jsonl", resumed)
    points = panels(compared(f"a={parts[0]},{parts[1]}"))["hours"].points
    assert points[["step", "x", "y"]].to_numpy().tolist() == [
        [0, 0, 0.1],
        [2, 2, 0.21],
        [4, 6, 0.4],
    ]


def test_a_mean_is_taken_where_all_seeds_are_and_says_so(tmp_path):
    first = run(tmp_path / "1.jsonl", [0.0, 0.1, 0.2, 0.3, 0.4], every=1)
    comparison = compared(f"a={first}", f"a={run(tmp_path / '2.jsonl', [0.0, 0.4], every=2)}")
    panel = panels(comparison)["step"]
    assert mean_curve(panel.points)["mean"].round(9).to_dict() == {0: 0.0, 2: 0.3}
    assert panel.budget == 2, "a seed that ended early is not carried on"
    assert "3 of 5 steps in the mean of first_turn of a" in comparison.left_out


def test_a_step_that_a_killed_process_left_without_a_line_counts_as_those_beside_it(tmp_path):
    path, hours = tmp_path / "a.jsonl", {1: 3600.0, 2: 3600.0, 4: 7200.0}
    records = [(n, step(seconds) | evaluated(0.1 * n)) for n, seconds in hours.items()]
    write_metrics(path, [(0, evaluated(0.0)), *records])
    comparison = compared(path)
    assert spent(panels(comparison)["hours"]) == [[0.0, 1.0, 2.0, 5.5]]
    assert f"filled in: step 3 of {path} in --x hours: " in "\n".join(comparison.remarks)
    write_metrics(path, [(0, evaluated(0.0)), records[0], (9, step() | evaluated(0.9))])
    assert "no timing_s/step of 7 steps from 2 to 8" in compared(path).left_out["--x hours"]


def test_an_arm_without_a_judge_is_left_out_of_cost_and_looks_the_same_elsewhere(tmp_path):
    grpo = run(tmp_path / "grpo.jsonl", [0.0, 0.2, 0.3])
    comparison = compared(grpo, run(tmp_path / "sd.jsonl", [0.0, 0.2, 0.4], cost=1.5))
    cost = panels(comparison)["cost"]
    assert cost.points[["arm", "place"]].drop_duplicates().to_numpy().tolist() == [["sd", 1]]
    assert spent(cost) == [[0.0, 1.5, 3.0]]
    assert "no rltf/feedback/judge/cost" in comparison.left_out["grpo in --x cost"]


def test_costs_of_two_judges_add_up_and_a_silent_step_costs_what_the_next_one_tells(tmp_path):
    two = {
        "rltf/feedback/judge/cost": 1.0,
        "rltf/feedback/judge_2/cost": 0.5,
        "rltf/feedback/judge/cost_run": 99.0,
    }
    records = [
        (0, evaluated(0.0)),
        (1, step() | two),
        (2, step()),
        (3, step() | two | evaluated(0.5)),
    ]
    comparison = compared(write_metrics(tmp_path / "a.jsonl", records), axes=["cost"])
    assert spent(comparison.panels[0]) == [[0.0, 3.0]]


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([(0, evaluated(0.0)), (1, step() | evaluated(0.5))], "it asks no judge"),
        (
            [(0, evaluated(0.0)), (1, step(cost=0.0) | evaluated(0.5))],
            "is rltf.feedback.price set?",
        ),
        (
            [(50, evaluated(0.0)), (51, step(cost=1.0) | evaluated(0.5))],
            "no metrics of 49 steps from 1 to 49",
        ),
    ],
)
def test_why_there_is_no_cost(tmp_path, records, why):
    comparison = compared(write_metrics(tmp_path / "a.jsonl", records), axes=["step", "cost"])
    assert why in comparison.left_out["--x cost"]
    assert [panel.axis for panel in comparison.panels] == ["step"]


def with_log(folder, accuracies, episodes, **place):
    """A run with metrics and an episode log of as many training episodes per step."""
    run(folder / "metrics.jsonl", accuracies)
    for number in range(1, len(accuracies)):
        write(folder / "checkpoints" / "episodes", episodes, step=number, **place)
    return folder


def test_rollouts_and_generated_tokens_come_from_the_episode_log(tmp_path):
    long = with_log(tmp_path / "long", [0.0, 0.5], [line("1", "2", "42")] * 3)
    short = with_log(tmp_path / "short", [0.0, 0.3, 0.4, 0.5], [line("42")] * 2)
    by_axis = panels(compared(long, short, axes=["rollouts", "tokens"]))
    assert spent(by_axis["rollouts"]) == [[0, 3], [0, 2, 4, 6]]
    assert spent(by_axis["tokens"]) == [[0, 9], [0, 2, 4, 6]]  # one a turn


def test_what_the_metrics_count_comes_before_a_log_that_may_hold_a_share_only(tmp_path):
    counted = {"rltf/session/total": 8.0, "rltf/session/tokens/total": 100.0}
    write_metrics(
        tmp_path / "a" / "metrics.jsonl",
        [(0, evaluated(0.0)), *((n, counted | evaluated(0.1)) for n in (1, 2))],
    )
    write(tmp_path / "a" / "checkpoints" / "episodes", [line("42")], step=1)
    by_axis = panels(compared(tmp_path / "a", axes=["rollouts", "tokens"]))
    assert spent(by_axis["rollouts"]) == [[0, 8, 16]]
    assert spent(by_axis["tokens"]) == [[0, 100, 200]]


def test_tokens_are_those_trained_on_for_all_where_the_policy_writes_feedback(tmp_path):
    own = turn("1", feedback=replace(HINT, provider="policy"))
    a = with_log(tmp_path / "a", [0.0, 0.5], [(own, turn("42", stop="solved"))])
    b = with_log(tmp_path / "b", [0.0, 0.5], [line("42")])
    (panel,) = compared(a, b, axes=["tokens"]).panels
    assert panel.axis_label.startswith("tokens trained on")
    assert [xs[-1] for xs in spent(panel)] == [1000, 1000]


def test_nothing_is_known_beyond_the_end_of_the_episode_log(tmp_path):
    folder = with_log(tmp_path / "a", [0.0, 0.1, 0.2, 0.3], [line("42")])
    (folder / "checkpoints" / "episodes" / "00000003.train.w.jsonl").unlink()
    (panel,) = compared(folder, axes=["rollouts"]).panels
    assert panel.points["step"].tolist() == [0, 1, 2]


def only_run(*arguments):
    """The only run."""
    (arm,) = read_arms([str(a) for a in arguments])
    (read,) = arm.runs
    return read


def test_the_folder_of_a_run(tmp_path):
    run(tmp_path / "sd" / "metrics.jsonl", [0.1, 0.2])
    write(tmp_path / "sd" / "checkpoints" / "episodes", [line("42")])
    write(tmp_path / "sd" / "checkpoints" / "episodes" / "superseded", [line("1")])
    (tmp_path / "sd" / "checkpoints" / "global_step_1").mkdir()
    run(tmp_path / "sd" / "checkpoints" / "global_step_1" / "old.jsonl", [0.9, 0.9])
    (tmp_path / "sd" / "notes.jsonl").write_text('{"step": 3, "input": "x"}\n')
    read = only_run(tmp_path / "sd")
    assert read.series(ACC).to_dict() == {0: 0.1, 1: 0.2}
    assert read.series("log/train/sessions").to_dict() == {1: 1}


def test_verls_own_places(tmp_path, monkeypatch):
    run(tmp_path / "sums" / "sd.jsonl", [0.1, 0.2])
    run(tmp_path / "sums" / "grpo.jsonl", [0.7, 0.8])
    write(tmp_path / "checkpoints" / "sums" / "sd" / "episodes", [line("42")])
    monkeypatch.chdir(tmp_path)
    read = only_run("checkpoints/sums/sd")
    assert read.series(ACC).to_dict() == {0: 0.1, 1: 0.2}
    assert len(read.series("log/train/sessions")) == 1


def test_an_episode_log_alone(tmp_path):
    for number, answer in ((0, "1"), (4, "42")):
        log = write(tmp_path / "episodes", [line(answer)], step=number, validate=True)
    (panel,) = compared(log, axes=["step"]).panels
    assert panel.points[["step", "y"]].to_numpy().tolist() == [[0, 0.0], [4, 1.0]]


def test_a_wandb_history(tmp_path):
    rows = [
        {"_step": 0, ACC: 0.1, "timing_s/step": None},
        {"_step": 1, ACC: None, "timing_s/step": 1800.0},
        {"_step": 2, ACC: 0.3, "timing_s/step": 1800.0},
    ]
    (tmp_path / "sd.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (panel,) = compared(tmp_path, axes=["hours"]).panels
    assert panel.points[["x", "y"]].to_numpy().tolist() == [[0.0, 0.1], [1.0, 0.3]]


ONE = [(0, evaluated(0.1)), (1, step() | evaluated(0.2)), (2, step() | evaluated(0.3))]
PROCESSES = {
    "a start from scratch": ([(0, evaluated(0.5)), (1, step() | evaluated(0.6))], {0: 0.5, 1: 0.6}),
    "resumed after step 1, without a validation": (
        [(2, step()), (3, step() | evaluated(0.4))],
        {0: 0.1, 1: 0.2, 3: 0.4},
    ),
    "only validated": ([(1, evaluated(0.9))], {0: 0.1, 1: 0.2, 2: 0.3}),
}


@pytest.mark.parametrize("case", PROCESSES)
def test_what_a_later_process_takes_back(tmp_path, case):
    records, expected = PROCESSES[case]
    first = write_metrics(tmp_path / "1.jsonl", ONE)
    later = write_metrics(tmp_path / "2.jsonl", records)
    assert only_run(f"a={first},{later}").series(ACC).to_dict() == expected


def test_processes_in_one_file(tmp_path):
    path = run(tmp_path / "a.jsonl", [0.1, 0.2, 0.3])
    later = write_metrics(
        tmp_path / "later.jsonl", [(1, evaluated(0.5)), (2, step() | evaluated(0.6))]
    )
    path.write_text(path.read_text() + later.read_text() + '{"step": 3, "da')  # and a killed writer
    assert {s: m[ACC] for s, m in read_history([path]).items()} == {0: 0.1, 1: 0.5, 2: 0.6}


def test_what_is_no_number_is_no_point(tmp_path):
    records = [(0, {ACC: None}), (1, {ACC: 0.2, "flag": True, "note": "x"}), (2, {ACC: 0.3})]
    read = only_run(write_metrics(tmp_path / "a.jsonl", records))
    assert read.series(ACC).to_dict() == {1: 0.2, 2: 0.3}
    assert list(read.steps) == [ACC]


@pytest.mark.parametrize(
    ("words", "arms"),
    [
        ("sd=sd_1 sd=sd_2", {"sd": 2}),
        ("sd=sd_* grpo_seed0 grpo_seed1", {"sd": 2, "grpo": 2}),
        ("sd_1 sd_2", {"sd_1": 1, "sd_2": 1}),  # two learning rates, for all we know
        ("lr=3/episodes", {"lr=3": 1}),
        ("x/run y/run", {"x": 1, "y": 1}),
    ],
)
def test_names_of_arms(tmp_path, monkeypatch, words, arms):
    monkeypatch.chdir(tmp_path)
    for name in ("sd_1", "sd_2", "grpo_seed0", "grpo_seed1", "lr=3/episodes", "x/run", "y/run"):
        (tmp_path / name).mkdir(parents=True)
    assert {arm: len(places) for arm, places in arms_of(words.split()).items()} == arms


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
    assert "sd (2 seeds)" in (out / "first_turn.step.svg").read_text()
    panels = json.loads((out / "compare.json").read_text())["panels"]
    assert [p["y"] for p in panels[0]["points"] if "sd_seed0" in p["run"]] == [0.1, 0.2, 0.6]
    assert "| sd | 2 | 0.100±0.000 | 0.650±0.071 " in (out / "compare.md").read_text()


def test_other_metrics_by_name(tmp_path):
    run(tmp_path / "a" / "metrics.jsonl", [0.1, 0.2, 0.3])
    for number in (1, 2):
        write(tmp_path / "a" / "episodes", [line("1", "42")], step=number)
    out = tmp_path / "out"
    metrics = ("--metric", "log/train/turn_2/standing", "--metric", "perf/total_num_tokens")
    ran("compare", tmp_path / "a", *metrics, "--x", "rollouts", "--out", out)
    drawn = {"log_train_turn_2_standing.rollouts", "perf_total_num_tokens.rollouts"}
    assert {path.stem for path in out.glob("*.rollouts.*")} == drawn


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
