"""Comparisons of hand-made runs whose numbers are plain to see."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.tools.report.compare.comparison import compare, file_names
from rltf_verl.tools.report.compare.numbers import Panel, Point, mean_curve
from rltf_verl.tools.report.compare.run import read_arms
from tests.support.log_records import line, turn, write
from tests.support.run_files import evaluated, run, step, write_metrics

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
    drawn = [Panel(name, name, "step", "steps", 1.0, (), {}) for name in quantities]
    assert file_names(drawn) == names


def compared(*arguments, axes=AXES, metrics=("first_turn",)):
    return compare(read_arms([str(a) for a in arguments]), axes, metrics)


def panels(comparison):
    return {panel.axis: panel for panel in comparison.panels}


def test_two_seeds_of_one_arm_against_one_of_another(tmp_path):
    run(tmp_path / "a1" / "metrics.jsonl", [0.1, 0.3, 0.5])
    run(tmp_path / "a2" / "metrics.jsonl", [0.2, 0.5, 0.3])
    run(tmp_path / "b" / "metrics.jsonl", [0.0, 0.2, 0.25])
    comparison = compared(
        f"b={tmp_path / 'b'}", f"a={tmp_path / 'a1'}", f"a={tmp_path / 'a2'}", axes=["step"]
    )
    b, a = comparison.wholes["first_turn"]
    assert (b.arm, b.start.mean, b.highest.mean, b.end.mean, b.end.std) == (
        "b",
        0.0,
        0.25,
        0.25,
        None,
    )
    assert a.start.mean == pytest.approx(0.15)
    assert (a.highest.seeds, a.end.seeds, a.last_steps) == ((0.5, 0.5), (0.5, 0.3), (2, 2))
    assert a.end.std == pytest.approx(0.2 / 2**0.5)
    (panel,) = comparison.panels
    assert panel.budget == 2
    of_b, of_a = panel.arms
    assert [(p.step, p.mean, p.low, p.high) for p in of_a.mean] == [
        (0, pytest.approx(0.15), 0.1, 0.2),
        (1, 0.4, 0.3, 0.5),
        (2, 0.4, 0.3, 0.5),
    ]
    assert of_b.at_budget.difference is None
    assert of_a.at_budget.difference == pytest.approx(0.4 - 0.25)
    assert of_a.at_budget.apart is None  # of one seed nobody knows how far it is from another


def test_equal_hours_and_tokens_are_not_equal_steps(tmp_path):
    run(
        tmp_path / "slow.jsonl", [0.0, 0.4, 0.6, 0.8], seconds=7200.0, tokens=500
    )  # 0, 2, 4, 6 h; 0, 500, 1000, 1500
    run(
        tmp_path / "fast.jsonl", [0.0, 0.1, 0.2, 0.3], seconds=3600.0, tokens=1000
    )  # 0, 1, 2, 3 h; 0, 1000, …, 3000
    by_axis = panels(compared(tmp_path / "fast.jsonl", tmp_path / "slow.jsonl"))
    assert set(by_axis) == {"step", "tokens", "hours"}
    fast, slow = by_axis["hours"].arms
    assert by_axis["hours"].budget == 3.0
    assert (fast.at_budget.value.mean, fast.at_budget.spent) == (0.3, (3.0,))
    assert (slow.at_budget.value.mean, slow.at_budget.spent) == (
        0.4,
        (2.0,),
    )  # at 3 h it had not been evaluated again
    fast, slow = by_axis["tokens"].arms
    assert by_axis["tokens"].budget == 1500
    assert by_axis["tokens"].axis_label.startswith("tokens trained on")
    assert (fast.at_budget.value.mean, slow.at_budget.value.mean) == (0.1, 0.8)


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
    second = [
        (2, evaluated(0.21)),
        (3, step(7200)),
        (4, step(7200) | evaluated(0.4)),
    ]  # resumed at 2
    write_metrics(folder / "metrics.process_1.jsonl", first)
    write_metrics(folder / "metrics.jsonl", second)
    run(tmp_path / "other" / "metrics.jsonl", [0.1, 0.2, 0.3])
    comparison = compared(f"a={folder}", f"b={tmp_path / 'other'}")
    assert [(p.step, p.x, p.y) for p in panels(comparison)["hours"].arms[0].seeds[0]] == [
        (0, 0.0, 0.1),
        (2, 2.0, 0.21),
        (4, 6.0, 0.4),
    ]


def test_a_seed_that_ended_early_is_not_carried_on(tmp_path):
    run(tmp_path / "a1" / "metrics.jsonl", [0.0, 0.2, 0.4, 0.6, 0.8])
    run(tmp_path / "a2" / "metrics.jsonl", [0.0, 0.1, 0.2])
    run(tmp_path / "b" / "metrics.jsonl", [0.0, 0.1, 0.2, 0.3])
    (panel,) = compared(
        f"a={tmp_path / 'a1'}", f"a={tmp_path / 'a2'}", f"b={tmp_path / 'b'}", axes=["step"]
    ).panels
    assert [p.mean for p in panel.arms[0].mean] == pytest.approx([0.0, 0.15, 0.3])
    assert (panel.budget, panel.arms[0].at_budget.value.seeds) == (2, (0.4, 0.2))


def test_the_mean_is_taken_at_common_steps_only_and_says_so(tmp_path):
    run(tmp_path / "a1" / "metrics.jsonl", [0.0, 0.1, 0.2, 0.3, 0.4], every=1)
    run(tmp_path / "a2" / "metrics.jsonl", [0.0, 0.4, 0.8], every=2)
    comparison = compared(f"a={tmp_path / 'a1'}", f"a={tmp_path / 'a2'}", axes=["step"])
    assert [(p.step, p.mean) for p in comparison.panels[0].arms[0].mean] == [
        (0, 0.0),
        (2, pytest.approx(0.3)),
        (4, pytest.approx(0.6)),
    ]
    assert comparison.left_out == {
        "2 of 5 steps in the mean of first_turn of a": (
            "not all of its seeds were evaluated there (the first is step 1)"
        )
    }


def test_a_step_that_a_killed_process_left_without_a_line_counts_as_those_beside_it(tmp_path):
    path, spent = tmp_path / "a.jsonl", {1: 3600.0, 2: 3600.0, 4: 7200.0}
    records = [(n, step(seconds) | evaluated(0.1 * n)) for n, seconds in spent.items()]
    write_metrics(path, [(0, evaluated(0.0)), *records])
    comparison = compared(path)
    assert [(p.step, p.x) for p in panels(comparison)["hours"].arms[0].seeds[0]] == [
        (0, 0.0),
        (1, 1.0),
        (2, 2.0),
        (4, 5.5),
    ]
    assert f"filled in: step 3 of {path} in --x hours: the run logged nothing" in "\n".join(
        comparison.remarks
    )
    write_metrics(path, [(0, evaluated(0.0)), records[0], (9, step() | evaluated(0.9))])
    assert "no timing_s/step of 7 steps from 2 to 8" in compared(path).left_out["--x hours"]


def test_an_arm_without_a_judge_is_left_out_of_cost_and_looks_the_same_elsewhere(tmp_path):
    run(tmp_path / "grpo.jsonl", [0.0, 0.2, 0.3])
    run(tmp_path / "sd.jsonl", [0.0, 0.2, 0.4], cost=1.5)
    comparison = compared(tmp_path / "grpo.jsonl", tmp_path / "sd.jsonl")
    cost = panels(comparison)["cost"]
    assert [(curve.arm, curve.place) for curve in cost.arms] == [("sd", 1)]
    assert [p.x for p in cost.arms[0].seeds[0]] == [0.0, 1.5, 3.0]
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
    write_metrics(tmp_path / "a.jsonl", records)
    comparison = compared(tmp_path / "a.jsonl", axes=["cost"])
    assert [p.x for p in comparison.panels[0].arms[0].seeds[0]] == [0.0, 3.0]


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
    write_metrics(tmp_path / "a.jsonl", records)
    comparison = compared(tmp_path / "a.jsonl", axes=["step", "cost"])
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
    assert [[p.x for p in curve.seeds[0]] for curve in by_axis["rollouts"].arms] == [
        [0, 3],
        [0, 2, 4, 6],
    ]
    assert by_axis["tokens"].axis_label == "tokens of the attempts in the episode log"
    assert [[p.x for p in curve.seeds[0]] for curve in by_axis["tokens"].arms] == [
        [0, 9],
        [0, 2, 4, 6],
    ]  # one a turn


def test_what_the_metrics_count_comes_before_a_log_that_may_hold_a_share_only(tmp_path):
    counted = {"rltf/session/total": 8.0, "rltf/session/tokens/total": 100.0}
    write_metrics(
        tmp_path / "a" / "metrics.jsonl",
        [(0, evaluated(0.0)), *((n, counted | evaluated(0.1)) for n in (1, 2))],
    )
    write(tmp_path / "a" / "checkpoints" / "episodes", [line("42")], step=1)
    by_axis = panels(compared(tmp_path / "a", axes=["rollouts", "tokens"]))
    assert [[p.x for p in by_axis[x].arms[0].seeds[0]] for x in ("rollouts", "tokens")] == [
        [0, 8, 16],
        [0, 100, 200],
    ]


def test_tokens_are_those_trained_on_for_all_where_the_policy_writes_feedback(tmp_path):
    from rltf_verl.types import Feedback

    own = turn("1", feedback=Feedback("look", "policy"))
    a = with_log(tmp_path / "a", [0.0, 0.5], [(own, turn("42", parent=0, stop="solved"))])
    b = with_log(tmp_path / "b", [0.0, 0.5], [line("42")])
    (panel,) = compared(a, b, axes=["tokens"]).panels
    assert panel.axis_label.startswith("tokens trained on")
    assert [curve.seeds[0][-1].x for curve in panel.arms] == [1000, 1000]


def test_nothing_is_known_beyond_the_end_of_the_episode_log(tmp_path):
    folder = with_log(tmp_path / "a", [0.0, 0.1, 0.2, 0.3], [line("42")])
    (folder / "checkpoints" / "episodes" / "00000003.train.w.jsonl").unlink()
    (panel,) = compared(folder, axes=["rollouts"]).panels
    assert [p.step for p in panel.arms[0].seeds[0]] == [0, 1, 2]


POINTS = st.lists(
    st.tuples(st.integers(0, 30), st.floats(0, 1)), min_size=1, max_size=8, unique_by=lambda p: p[0]
)


def seed_of(pairs):
    return [Point(s, 2.0 * s, y) for s, y in sorted(pairs)]


@given(st.lists(POINTS, min_size=1, max_size=4))
def test_a_mean_lies_between_its_seeds_and_is_of_real_evaluations(seeds):
    seeds = [seed_of(pairs) for pairs in seeds]
    for point in mean_curve(seeds):
        here = [p.y for seed in seeds for p in seed if p.step == point.step]
        assert len(here) == len(seeds)
        assert point.low - 1e-12 <= point.mean <= point.high + 1e-12
        assert {point.low, point.high} <= set(here)
