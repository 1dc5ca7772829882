"""What a validation reports; and the queue's facts are those of the log."""

from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.adapters.metrics.episodes import episode_metrics
from rltf_verl.adapters.metrics.validation import (
    first_answers_only,
    sampled_episodes,
    unaveraged_info,
    validation_lost_shares,
    validation_metrics,
)
from rltf_verl.adapters.queue.columns import episode_facts
from rltf_verl.runlog.record import episode_record
from rltf_verl.tools.report.stats import by_steps
from rltf_verl.types import Attempt, Episode, Feedback, Grade, Problem, Turn
from tests.support.log_records import line

NODES, HORIZON = 7, 4
ANSWERS = ("42", "1", "2", "")
TEXTS = ("Your answer is wrong.", "look at row two", "wrong, it is not 1")


@st.composite
def turns(draw, *, last):
    answer, ungraded = draw(st.sampled_from(ANSWERS)), last and draw(st.integers(0, 5)) == 0
    grade = (
        Grade(False, True)
        if ungraded
        else Grade(answer == "42", bool(answer), parsed=answer or None)
    )
    leak = draw(st.sampled_from([None, "", "answer: 42"]))
    feedback = (
        None if last else Feedback(draw(st.sampled_from(TEXTS)), "judge", latency_s=1.0, leak=leak)
    )
    stop = ("ungraded" if ungraded else "horizon") if last else None
    attempt = Attempt(
        (1,), (2,) * draw(st.integers(1, 4)), None, f"so {answer}", ended=draw(st.booleans())
    )
    return Turn(attempt, grade, float(answer == "42"), feedback, stop)


@st.composite
def lines(draw, index=0):
    num = draw(st.integers(1, HORIZON))
    played = [draw(turns(last=k == num - 1)) for k in range(num)]
    return Episode(Problem("sums", index, {}, "42"), 0, tuple(played))


@given(st.lists(lines(), min_size=1, max_size=6))
def test_the_queue_and_the_log_give_the_same_numbers(episodes):
    """Of a tensor padded to the run's number of turns, and of records."""
    facts = torch.stack([episode_facts(episode, NODES) for episode in episodes])
    metrics = episode_metrics(facts, HORIZON)
    place = {"step": 1, "split": "train", "uid": "a", "question": "?"}
    (stats,) = by_steps([place | episode_record(episode) for episode in episodes], 1)
    same = {"session/friction": "friction"}
    for name in ("words", "no_op", "recited", "leak_share", "fallback_share"):
        same[f"feedback/{name}"] = f"feedback/{name}"
    for k in range(1, stats.num_turns + 1):
        of_later = ("solved", "standing") if k > 1 else ()
        for name in ("acc", "format", *of_later):
            same[f"turn_{k}/{name}"] = f"turn_{k}/{name}"
        for name in ("fixed", "spoiled", "repeated"):
            same[f"turn_{k}/{name}"] = f"turn_{k}/revisions/{name}"
    for ours, theirs in same.items():
        assert metrics.get(f"rltf/{ours}") == stats.mean.get(theirs), ours


def played(*answers, index=0):
    return Episode(Problem("sums", index, {}, "42"), 0, line(*answers, stop="solved"))


def test_sources_are_kept_apart_and_other_loops_left_out():
    right, wrong = (unaveraged_info(played(a), 2, None)["rltf_facts"] for a in ("42", "1"))
    values = validation_metrics(["a", "b", "b", "c"], [right, right, wrong, None], 2)
    assert (values["rltf_val/a/turn_1/acc"], values["rltf_val/b/turn_1/acc"]) == (1.0, 0.5)
    assert not any("/c/" in name for name in values)


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
        [unaveraged_info(e, horizon, None)["rltf_facts"] for e in played]
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


def test_episodes_that_never_came_back_are_counted():
    expected = {("a", "u1"): 4, ("a", "u2"): 4, ("b", "u3"): 2}
    assert validation_lost_shares(["a"] * 6 + ["b"] * 2, expected) == {
        "rltf_val/a/session/lost_share": 0.25,
        "rltf_val/b/session/lost_share": 0.0,
    }
    assert validation_lost_shares([], {("a", "u1"): 2}) == {"rltf_val/a/session/lost_share": 1.0}


def test_the_table_shows_whole_episodes_and_the_same_problems_every_time():
    def row(k, answer):
        return unaveraged_info(played(answer, "42", index=k), 2, f"question {k}")["rltf_session"]

    def infos(answer):
        return {"rltf_session": [*(row(k, answer) for k in range(9)), None], "acc": [0.0] * 10}

    rows = sampled_episodes(infos("1"), 3)
    assert len(rows) == 3
    for question, session, score in rows:
        assert question.startswith("question ")
        assert (
            session
            == "[attempt 1 ✗]\nso 1\n\n[feedback of judge]\nlook at row two\n\n[attempt 2 ✓]\nso 42"
        )
        assert score == 0.0
    assert [row[0] for row in sampled_episodes(infos("7"), 3)] == [row[0] for row in rows]
