"""What episodes say about learning from feedback, on episodes whose numbers are plain to see."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.runlog.turns import says_nothing
from rltf_verl.tools.report.stats import stats
from rltf_verl.tools.report.terminal.console import stats_table
from rltf_verl.types import Feedback
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


def of(tmp_path, *episodes, split="train"):
    return stats(records(tmp_path, episodes), split)


def means(s, block, *names):
    return tuple(s.mean.get(f"{block}/{name}") for name in names)


def test_validations_of_first_answers_only_say_nothing_of_later_turns(tmp_path):
    """Read together with one that gave feedback: each number keeps the denominator that it has
    alone.
    """
    whole = [line("1", "42"), line("42", "42"), line("1", "2"), line("42", stop="solved")]
    alone = of(tmp_path / "alone", *whole)
    both = write(tmp_path / "both", whole)
    write(both, [line("1"), line("42"), line("42", stop="solved"), line("2")], step=2, horizon=1)
    s = stats(read_episodes(both), "train")
    assert means(alone, "turn_2", "solved", "standing") == (0.75, 0.75)
    assert (s.num["turn_1/acc"], s.mean["turn_1/acc"]) == (8, 0.5)
    for name, mean in alone.mean.items():
        if name.startswith(("turn_2", "friction", "revisions", "standing")):
            assert s.mean[name] == mean, name
    first_answers = read_episodes(write(tmp_path / "cut", [line("1"), line("42")], horizon=1))
    assert "standing" not in stats(first_answers, "train").mean


def test_an_ungraded_attempt_is_neither_right_nor_wrong(tmp_path):
    s = of(
        tmp_path,
        line("1", "?", stop="ungraded"),
        line("42", "?", stop="ungraded"),
        line("?", stop="ungraded"),
        line("1", "42"),
    )
    assert (s.num["turn_1/acc"], *means(s, "turn_1", "acc", "format")) == (3, 1 / 3, 1.0)
    assert (s.num["turn_2/acc"], *means(s, "turn_2", "acc", "format")) == (1, 1.0, 1.0)
    assert s.num["revisions/gain"] == 1
    assert means(s, "revisions", "fixed", "broken", "plasticity") == (1.0, 0.0, 1.0)
    # one was solved before it became unknown; the other two are left out
    assert means(s, "turn_2", "standing", "solved") == (1.0, 1.0)
    assert (s.mean["friction"], s.stops) == (0.0, {"ungraded": 3, "horizon": 1})


def test_trajectories_are_counted_by_their_end(tmp_path):
    called, told = acts("now", "ok!", what="ok"), acts("It is done.")
    s = of(
        tmp_path,
        (acted("42", called, called, told, stop="solved"),),
        (acted("1", called, end="deadline", stop="horizon"),),
    )
    assert means(s, "steps", "mean", "ends/answered", "ends/deadline") == (2.0, 0.5, 0.5)
    lines = {name: cells for name, *cells in stats_table([s, s])}
    assert lines["steps/ends/answered"] == ["0.5", "0.5"]
    assert lines["ended: solved"] == ["1", "1"]
    assert "steps/ends/context" not in lines


def test_feedback(tmp_path):
    fallback = type(EMPTY)(EMPTY.text, "correctness", fallback=True)
    withheld = turn("1", None, withheld=LEAKY, stop="feedback_unavailable")  # the guard kept it
    s = of(
        tmp_path,
        line("1", "2"),
        line("1", "2", feedback=EMPTY),
        (withheld,),
        (turn("1", fallback, withheld=LEAKY), turn("2", stop="horizon")),
    )
    assert (s.num["feedback/words"], s.num["feedback/leak_share"]) == (3, 3)
    names = ("words", "no_op", "failed_share", "fallback_share", "withheld_share", "leak_share")
    assert means(s, "feedback", *names) == ((4 + 6 + 6) / 3, 2 / 3, 1 / 4, 1 / 4, 0.5, 2 / 3)


def test_answers_that_recite_their_feedback(tmp_path):
    """The first sentence in the answer, not in thoughts; of one or two words it is no sign."""
    said = Feedback("We do not write it so. Our files have 1987.", "judge")
    no = Feedback("No.", "judge")
    s = of(
        tmp_path,
        line("We do not write it so.", "2", feedback=said),
        line("<think>We do not write it so.</think>1987", "2", feedback=said),
        line("1987", "We do not write it so.", feedback=said),
        line("No.", "2", feedback=no),
    )
    assert s.mean["feedback/recited"] == 1 / 4


def test_nothing_played_is_no_zero(tmp_path):
    s = of(tmp_path, line("1", "2"), split="val")
    assert (s.sessions, s.num_turns, s.first_step, s.mean, s.stops) == (0, 0, None, {}, {})
    broken_off = [{"split": "train", "step": 1, "turns": []}]
    assert stats(broken_off, "train").sessions == 1


ANSWERS = st.lists(
    st.lists(st.sampled_from(["42", "1", "2", ""]), min_size=1, max_size=4), min_size=1, max_size=6
)


@examples(40)
@given(ANSWERS)
def test_what_holds_of_any_episodes(tmp_path_factory, answers):
    s = of(tmp_path_factory.mktemp("log"), *(line(*answers_of_line) for answers_of_line in answers))
    solved = [s.mean[f"turn_{k}/solved"] for k in range(1, s.num_turns + 1)]
    assert solved == sorted(solved)
    assert sum(s.num[f"turn_{k}/acc"] for k in range(1, s.num_turns + 1)) == sum(map(len, answers))
    for k in range(1, s.num_turns + 1):
        assert s.mean[f"turn_{k}/standing"] <= s.mean[f"turn_{k}/solved"]
        if k > 1:
            names = ("gain", "fixed", "broken", "repeated", "plasticity")
            gain, fixed, broken, repeated, plasticity = means(s, f"turn_{k}/revisions", *names)
            assert gain == pytest.approx(fixed - broken)
            assert repeated >= 1 - plasticity - 1e-9  # the turn before is on the line
    assert s.mean.get("feedback/words") in (None, len(HINT.text.split()))


EMPTY_TALK = [
    "",
    "Your answer is wrong.",
    "It was incorrect. Please try again.",
    "Let's try again!",
    "That is wrong…",
    "Your previous attempt was not correct",
]


@pytest.mark.parametrize(
    "text", [*EMPTY_TALK, "Your answer is wrong in row 2.", "Carry the one.", "Almost!"]
)
def test_empty_talk(text):
    assert says_nothing(text) == (text in EMPTY_TALK)
