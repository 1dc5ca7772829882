"""One session, one set of numbers: training, validation, the log's statistics, the viewer and the
evaluation agree.
"""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.adapters.metrics.episodes import session_metrics
from rltf_verl.adapters.metrics.validation import (
    averaged_info,
    first_answers_only,
    sampled_sessions,
    told_info,
    validation_lost_shares,
    validation_metrics,
)
from rltf_verl.adapters.queue.columns import session_facts, sessions_of
from rltf_verl.report.evaluation.results import evaluate
from rltf_verl.report.stats import stats
from rltf_verl.report.view.curves import curves
from rltf_verl.runlog.record import episode_record
from rltf_verl.types import Attempt, Episode, Feedback, Grade, Problem, Turn

NODES, HORIZON = 7, 4
ANSWERS = ("42", "1", "2", "")
TEXTS = ("Your answer is wrong.", "look at row two", "wrong, it is not 1")


@st.composite
def turns(draw, parent, *, last):
    said, ungraded = draw(st.sampled_from(ANSWERS)), last and draw(st.integers(0, 5)) == 0
    grade = Grade(False, True) if ungraded else Grade(said == "42", bool(said), parsed=said or None)
    leak = draw(st.sampled_from([None, "", "answer: 42"]))
    feedback = (
        None if last else Feedback(draw(st.sampled_from(TEXTS)), "judge", latency_s=1.0, leak=leak)
    )
    stop = ("ungraded" if ungraded else "horizon") if last else None
    attempt = Attempt(
        (1,), (2,) * draw(st.integers(1, 4)), None, f"so {said}", ended=draw(st.booleans())
    )
    return Turn(attempt, grade, float(said == "42"), feedback, parent, stop)


@st.composite
def lines(draw, index=0):
    num = draw(st.integers(1, HORIZON))
    played = [draw(turns(k - 1 if k else None, last=k == num - 1)) for k in range(num)]
    return Episode(Problem("sums", index, {}, "42"), 0, tuple(played))


@st.composite
def trees(draw):
    """A first attempt, two revisions of it, and what follows them."""
    played = [draw(turns(None, last=False))]
    for _ in range(2):
        num, parent = draw(st.integers(1, HORIZON - 1)), 0
        for k in range(num):
            played.append(draw(turns(parent, last=k == num - 1)))
            parent = len(played) - 1
    return Episode(Problem("sums", 0, {}, "42"), 0, tuple(played))


def metrics_of(episodes, nodes=NODES):
    facts = torch.stack([session_facts(episode, nodes) for episode in episodes])
    return session_metrics(
        sessions_of(facts, torch.zeros(len(episodes), dtype=torch.int64)), facts, HORIZON
    )


def records_of(episodes, split="train"):
    place = {"step": 1, "split": split, "question": "q"}
    return [
        place | {"uid": f"u{i}", "question": f"q{i}"} | episode_record(e)
        for i, e in enumerate(episodes)
    ]


def expected(s):
    """The numbers of `report.stats` under the names of training."""
    numbers = {
        "rltf/session/friction": s.friction,
        "rltf/feedback/leak_share": s.feedback.leaks,
        "rltf/feedback/no_op": s.feedback.no_op,
        "rltf/feedback/words": s.feedback.words,
    }
    for t in s.turns:
        r, name = t.revisions, f"rltf/turn_{t.turn}"
        numbers |= {f"{name}/acc": t.accuracy, f"{name}/format": t.format}
        if t.turn > 1:
            numbers |= {
                f"{name}/{n}": getattr(r, n)
                for n in ("fixed", "broken", "gain", "plasticity", "corrected", "repeated")
            }
            numbers |= {f"{name}/solved": t.solved, f"{name}/standing": t.standing}
    return {name: value for name, value in numbers.items() if value is not None}


def assert_agree(episodes):
    ours, theirs = metrics_of(episodes), expected(stats(records_of(episodes), "train"))
    assert {name: ours.get(name, math.nan) for name in theirs} == pytest.approx(theirs, abs=1e-6)
    extra = {
        n
        for n in ours
        if n.startswith("rltf/turn_")
        and n.rpartition("/")[2]
        in ("acc", "gain", "fixed", "plasticity", "corrected", "solved", "standing")
    } - set(theirs)
    assert not extra


@given(st.lists(st.one_of(lines(), trees()), min_size=1, max_size=6))
def test_training_says_what_the_log_says(episodes):
    assert_agree(episodes)


@given(st.lists(lines(), min_size=1, max_size=6))
def test_validation_and_evaluation_say_it_too(episodes):
    """An evaluation takes means over problems; here each has one session."""
    episodes = [replace(e, problem=replace(e.problem, index=i)) for i, e in enumerate(episodes)]
    told = [told_info(e, HORIZON, None)["rltf_facts"] for e in episodes]
    val = {
        k.removeprefix("rltf_val/sums/"): v
        for k, v in validation_metrics(["sums"] * len(told), told, HORIZON).items()
    }
    assert {f"rltf/{name}": value for name, value in val.items()} == pytest.approx(
        metrics_of(episodes), abs=1e-6
    )
    result = evaluate(records_of(episodes, "val"))
    assert_same(result.turns[0].accuracy.value, val.get("turn_1/acc"))
    for t in result.turns[1:]:
        assert_same(t.accuracy.value, val.get(f"turn_{t.turn}/standing"))
        assert_same(t.cumulative.value, val.get(f"turn_{t.turn}/solved"))
    for r in result.rounds:
        if r.round is not None:
            assert_same(r.plasticity.value, val.get(f"turn_{r.round + 1}/plasticity"))
            assert_same(r.corrected.value, val.get(f"turn_{r.round + 1}/corrected"))


def assert_same(one, other):
    missing = [value is None or math.isnan(value) for value in (one, other)]
    assert missing in ([True, True], [False, False])
    if not missing[0]:
        assert one == pytest.approx(other, abs=1e-6)


@given(st.lists(lines(), min_size=1, max_size=6))
def test_the_viewer_draws_it(episodes):
    ours = metrics_of(episodes)
    drawn = {c["label"]: c["train"][0][1] for c in curves(records_of(episodes)) if c["train"]}
    assert_same(drawn.get("First answer right"), ours.get("rltf/turn_1/acc"))
    assert_same(drawn.get("Right after turn 2"), ours.get("rltf/turn_2/standing"))
    assert_same(drawn.get("Friction"), ours.get("rltf/session/friction"))


def test_verls_own_averages_are_those_of_ours():
    right, wrong = Grade(True, True, "42"), Grade(False, True, "1")
    played = [
        Turn(Attempt((1,), (2,), None, "", True), g, 0.0, None, k - 1 if k else None)
        for k, g in enumerate((wrong, right))
    ]
    episode = Episode(
        Problem("sums", 0, {}, "42"), 0, (*played[:-1], replace(played[-1], stop="horizon"))
    )
    info, ours = averaged_info(episode, HORIZON), metrics_of([episode])
    assert (info["acc"], info["acc_turn_2"]) == (
        ours["rltf/turn_1/acc"],
        ours["rltf/turn_2/standing"],
    )


def test_sources_are_kept_apart_and_other_loops_left_out():
    def facts(said):
        turn = Turn(
            Attempt((1,), (2,), None, "", True), Grade(said == "42", True, said), 0.0, stop="solved"
        )
        return told_info(Episode(Problem("sums", 0, {}, "42"), 0, (turn,)), 2, None)["rltf_facts"]

    found = validation_metrics(
        ["a", "b", "b", "c"], [facts("42"), facts("42"), facts("1"), None], 2
    )
    assert (found["rltf_val/a/turn_1/acc"], found["rltf_val/b/turn_1/acc"]) == (1.0, 0.5)
    assert not any("/c/" in name for name in found)


@given(st.lists(lines(), min_size=1, max_size=6))
def test_first_answers_say_the_same_in_both_kinds_of_validation(episodes):
    """One of first answers only reports fewer numbers, and those with the value that they have with
    feedback.
    """
    cut = [
        replace(e, turns=(replace(e.turns[0], feedback=None, stop=e.turns[0].stop or "horizon"),))
        for e in episodes
    ]
    whole, first = (
        [told_info(e, horizon, None)["rltf_facts"] for e in played]
        for horizon, played in ((HORIZON, episodes), (1, cut))
    )
    assert (first_answers_only(whole, HORIZON), first_answers_only(first, HORIZON)) == (False, True)
    sources = ["sums"] * len(episodes)
    with_feedback, alone = (validation_metrics(sources, facts, HORIZON) for facts in (whole, first))
    assert alone.keys() <= with_feedback.keys()
    of_answers = {
        name: value
        for name, value in alone.items()
        if "/turn_1/" in name or name.endswith("session/total")
    }
    assert of_answers == {name: with_feedback[name] for name in of_answers}
    assert {name.partition("sums/")[2].partition("/")[0] for name in alone} == {
        "turn_1",
        "session",
        "grader",
    }
    infos = [averaged_info(e, 1) for e in cut]
    assert all(info.keys() == {"acc", "format_ok"} for info in infos)
    assert [i["acc"] for i in infos] == [averaged_info(e, HORIZON)["acc"] for e in episodes]


def test_sessions_that_never_came_back_are_counted():
    expected = {("a", "u1"): 4, ("a", "u2"): 4, ("b", "u3"): 2}
    assert validation_lost_shares(["a"] * 6 + ["b"] * 2, expected) == {
        "rltf_val/a/session/lost_share": 0.25,
        "rltf_val/b/session/lost_share": 0.0,
    }
    assert validation_lost_shares([], {("a", "u1"): 2}) == {"rltf_val/a/session/lost_share": 1.0}


def test_the_table_shows_whole_sessions_and_the_same_problems_every_time():
    def told(k, said):
        first = Turn(
            Attempt((1,), (2,), None, f"I say {said}", True),
            Grade(False, True, said),
            0.0,
            Feedback("look again", "judge"),
        )
        last = Turn(
            Attempt((1,), (2,), None, "then 42", True),
            Grade(True, True, "42"),
            1.0,
            None,
            0,
            "solved",
        )
        return told_info(
            Episode(Problem("sums", k, {}, "42"), 0, (first, last)), 2, f"question {k}"
        )["rltf_session"]

    def infos(said):
        return {"rltf_session": [*(told(k, said) for k in range(9)), None], "acc": [0.0] * 10}

    rows = sampled_sessions(infos("1"), 3)
    assert len(rows) == 3
    for question, session, score in rows:
        assert question.startswith("question ")
        assert (
            session
            == "[attempt 1 ✗]\nI say 1\n\n[feedback of judge]\nlook again\n\n[attempt 2 ✓]\nthen 42"
        )
        assert score == 0.0
    assert [row[0] for row in sampled_sessions(infos("7"), 3)] == [row[0] for row in rows]
