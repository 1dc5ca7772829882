"""What episodes say about learning from feedback, on episodes whose numbers are plain to see."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.tools.report.stats import by_steps, stats
from rltf_verl.tools.report.terminal.tables import stats_tables
from tests.support.effort import examples
from tests.support.log_records import (
    EMPTY,
    HINT,
    LEAKY,
    acted,
    acts,
    line,
    records,
    turn,
    write,
)

TREE = (
    turn("1"),
    turn("2", parent=0),
    turn("42", parent=1, stop="solved"),
    turn("1", parent=0, stop="feedback_unavailable"),
    turn("42", parent=0, stop="solved"),
)


def of(tmp_path, *episodes, split="train"):
    return stats(records(tmp_path, episodes), split)


def test_early_stops_leave_the_turns_that_they_did_not_play(tmp_path):
    s = of(
        tmp_path,
        line("42", stop="solved"),
        line("1", stop="feedback_unavailable"),
        line("1", "42"),
        line("1", "2"),
    )
    first, second = s.turns
    assert (first.num, first.acc, first.solved, first.standing) == (4, 0.25, 0.25, 0.25)
    assert (second.num, second.acc) == (2, 0.5)
    assert (second.solved, second.standing) == (
        0.5,
        0.5,
    )  # of all four: one from turn 1, one from turn 2
    assert (second.revisions.fixed, second.revisions.broken, second.revisions.corrected) == (
        0.5,
        0.0,
        0.5,
    )
    assert s.friction == 0.5  # who got no feedback resisted none
    assert s.stops == {"solved": 1, "feedback_unavailable": 1, "horizon": 2}


def test_validations_of_first_answers_only_say_nothing_of_later_turns(tmp_path):
    """Read together with one that gave feedback: each number keeps the denominator that it has
    alone.
    """
    alone = of(
        tmp_path / "alone",
        line("1", "42"),
        line("42", "42"),
        line("1", "2"),
        line("42", stop="solved"),
    )
    both = write(
        tmp_path / "both",
        [line("1", "42"), line("42", "42"), line("1", "2"), line("42", stop="solved")],
    )
    write(both, [line("1"), line("42"), line("42", stop="solved"), line("2")], step=2, horizon=1)
    s = stats(read_episodes(both), "train")
    assert (alone.turns[1].solved, alone.turns[1].standing) == (0.75, 0.75)
    assert (s.turns[0].num, s.turns[0].acc) == (8, 0.5)
    assert s.turns[1] == alone.turns[1]
    assert (s.friction, s.revisions) == (alone.friction, alone.revisions)


def test_a_tree_counts_each_attempt_but_its_episode_once(tmp_path):
    s = of(tmp_path, TREE, line("42", stop="solved"))
    first, second, third = s.turns
    assert (first.num, first.acc) == (2, 0.5)
    assert (second.num, second.acc, second.revisions.fixed) == (3, 1 / 3, 1 / 3)
    assert (second.revisions.plasticity, second.revisions.repeated) == (2 / 3, 1 / 3)
    assert (third.num, third.revisions.corrected) == (1, 1.0)
    assert second.standing == (1 / 3 + 1) / 2
    assert (
        third.standing == third.solved == (2 / 3 + 1) / 2
    )  # the branch that ended at turn 2 keeps its answer
    assert s.friction == pytest.approx(1 / 3)
    assert s.feedback.num == 2  # said once, though three revisions followed
    assert s.stops == {"solved": 3, "feedback_unavailable": 1}


def test_an_ungraded_attempt_is_neither_right_nor_wrong(tmp_path):
    s = of(
        tmp_path,
        line("1", "?", stop="ungraded"),
        line("42", "?", stop="ungraded"),
        line("?", stop="ungraded"),
        line("1", "42"),
    )
    first, second = s.turns
    assert (first.num, first.acc, first.format) == (3, 1 / 3, 1.0)
    assert (second.num, second.acc, second.format) == (1, 1.0, 1.0)
    assert s.revisions.num == 1
    assert (s.revisions.fixed, s.revisions.broken, s.revisions.plasticity) == (1.0, 0.0, 1.0)
    assert second.standing == 1.0
    assert second.solved == 1.0  # one was solved before it became unknown; of two nobody knows
    assert (s.friction, s.stops) == (0.0, {"ungraded": 3, "horizon": 1})


def test_format_needs_an_answer_and_an_end(tmp_path):
    s = of(
        tmp_path, (turn("42", ended=False, stop="solved"),), (turn("", stop="horizon"),), line("1")
    )
    assert s.turns[0].format == pytest.approx(1 / 3)
    assert s.turns[0].acc == pytest.approx(1 / 3)  # right all the same


def test_trajectories_are_counted_by_their_end(tmp_path):
    called, told = acts("now", "ok!", what="ok"), acts("It is done.")
    s = of(
        tmp_path,
        (acted("42", called, called, told, stop="solved"),),
        (acted("1", called, end="deadline", stop="horizon"),),
    )
    assert s.trajectories == {"mean": 2.0, "ends/answered": 0.5, "ends/deadline": 0.5}
    line_of = {table[0][-1]: table[1] for table in stats_tables([s])}
    assert line_of["trajectories ended"] == ("train 1", "2.0", "answered 50.0 %, deadline 50.0 %")
    plain = of(tmp_path / "plain", line("42", stop="solved"))
    assert plain.trajectories == {}
    assert not [table for table in stats_tables([plain]) if "trajectories ended" in table[0]]


def test_white_space_is_no_change(tmp_path):
    assert of(tmp_path, line("1  2", "1\n2")).revisions.plasticity == 0.0


def test_feedback(tmp_path):
    fallback = type(EMPTY)(EMPTY.text, "correctness", fallback=True)
    s = of(
        tmp_path,
        line("1", "2"),
        line("1", "2", feedback=EMPTY),
        (
            turn("1", None, withheld=LEAKY, stop="feedback_unavailable"),
        ),  # kept back: nobody read it
        (turn("1", fallback, withheld=LEAKY), turn("2", parent=0, stop="horizon")),
    )
    assert (s.feedback.num, s.feedback.words) == (3, (4 + 6 + 6) / 3)
    assert s.feedback.no_op == 2 / 3
    assert (s.feedback.failed_share, s.feedback.fallback_share) == (1 / 4, 1 / 4)
    assert (s.feedback.withheld_share, s.feedback.leak_share) == (
        0.5,
        2 / 3,
    )  # of four that providers said; three were looked at


def test_nothing_played_is_no_zero(tmp_path):
    s = of(tmp_path, line("1", "2"), split="val")
    assert (s.sessions, s.turns, s.friction, s.first_step, s.stops) == (0, (), None, None, {})
    assert s.feedback.words is s.feedback.leak_share is s.revisions.fixed is None
    assert by_steps([], 5) == []
    broken_off = [{"split": "train", "step": 1, "turns": []}]
    assert stats(broken_off, "train").sessions == 1


def test_ranges_of_steps(tmp_path):
    for step in (3, 4, 5, 9):
        write(tmp_path, [line("1", "42")], step=step)
    write(tmp_path, [line("42", stop="horizon")], step=4, validate=True)
    ranges = by_steps(read_episodes(tmp_path), 2)
    assert [(s.split, s.first_step, s.last_step, s.sessions) for s in ranges] == [
        ("train", 3, 4, 2),
        ("train", 5, 5, 1),
        ("train", 9, 9, 1),
        ("val", 4, 4, 1),
    ]


ANSWERS = st.lists(
    st.lists(st.sampled_from(["42", "1", "2", ""]), min_size=1, max_size=4), min_size=1, max_size=6
)


@examples(40)
@given(ANSWERS)
def test_what_holds_of_any_episodes(tmp_path_factory, answers):
    s = of(tmp_path_factory.mktemp("log"), *(line(*answers_of_line) for answers_of_line in answers))
    solved = [t.solved for t in s.turns]
    assert solved == sorted(solved)
    assert sum(t.num for t in s.turns) == sum(map(len, answers))
    for t in s.turns:
        r = t.revisions
        assert t.standing <= t.solved
        if t.turn > 1:
            assert r.gain == pytest.approx(r.fixed - r.broken)
            assert r.repeated >= 1 - r.plasticity - 1e-9  # the turn before is on the line
    assert s.feedback.words in (None, len(HINT.text.split()))
