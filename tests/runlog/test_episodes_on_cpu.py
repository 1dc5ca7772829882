"""The episode log: whole lines whoever writes, nothing twice after a resume, any text."""

import json
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import pytest

from rltf_verl.runlog.episodes import EpisodeLog, read_episodes, read_wrong_attempts
from rltf_verl.runlog.files import set_aside_after
from rltf_verl.types import Attempt, Episode, Feedback, Grade, Problem, Turn
from tests.support.log_records import line, write


def episode(text="a", feedback="f", session_id=0, stop="feedback_unavailable"):
    critique = Attempt((1,), (2,), None, "not written down", ended=True)
    first = Turn(
        Attempt((1, 2), (3, 4), (-0.5, -0.25), text, ended=True, info={"max_global_steps": 7}),
        Grade(False, True, parsed=text),
        0.0,
        Feedback(feedback, "verifier", latency_s=0.5, attempt=critique, span=(3, 4)),
    )
    last = Turn(
        Attempt((5,), (6,), None, "b", ended=False),
        Grade(True, True, error="E: x"),
        0.9,
        parent=0,
        stop=stop,
        error="why",
        prompt="again?",
    )
    return Episode(Problem("echo", 11, {"k": 1}, "ref"), session_id, (first, last), num_shortened=1)


UNSCORED = {"score": None, "details": {}}


def test_the_fields_of_a_problem_are_left_out_where_they_would_be_most_of_the_log(tmp_path):
    large = replace(episode(), problem=Problem("echo", 11, {"tests": "x" * 30_000}, "ref"))
    EpisodeLog(tmp_path, "w").append(large, question="q", step=5, validate=True, uid="u1")
    (record,) = read_episodes(tmp_path)
    assert record["task"] is None
    with pytest.raises(ValueError, match="no wrong attempt"):
        read_wrong_attempts(tmp_path, 1)
    (file,) = tmp_path.glob("*.jsonl")  # a log of an older version, which has no such field
    file.write_text(json.dumps({k: v for k, v in record.items() if k != "task"}) + "\n")
    with pytest.raises(ValueError, match="no wrong attempt"):
        read_wrong_attempts(tmp_path, 1)


def test_an_ungraded_attempt_is_not_a_wrong_one(tmp_path):
    write(tmp_path, [line("?", stop="ungraded"), line("1")])
    ((problem, _, text, _),) = read_wrong_attempts(tmp_path, 5)
    assert (problem.index, text) == (1, "so 1")


def test_a_record_holds_what_was_said(tmp_path):
    EpisodeLog(tmp_path / "new" / "folder", "w").append(
        episode(), question="q", step=5, validate=True, uid="u1", seed=3
    )
    (record,) = read_episodes(tmp_path / "new" / "folder")
    assert [p.name for p in (tmp_path / "new" / "folder").iterdir()] == ["00000005.val.w.jsonl"]
    assert record == {
        "version": 5,
        "step": 5,
        "split": "val",
        "uid": "u1",
        "seed": 3,
        "question": "q",
        "env": "echo",
        "index": 11,
        "session_id": 0,
        "reference": "ref",
        "task": {"k": 1},
        "num_shortened": 1,
        "turns": [
            {
                "prompt": None,
                "text": "a",
                "num_tokens": 2,
                "prompt_tokens": 2,
                "ended": True,
                "reward": 0.0,
                "weight_version": 7,
                "parent": None,
                "stop": None,
                "error": None,
                "grade": {
                    "correct": False,
                    "format_ok": True,
                    "parsed": "a",
                    "error": None,
                    **UNSCORED,
                },
                "feedback": {
                    "text": "f",
                    "provider": "verifier",
                    "sees_reference": False,
                    "latency_s": 0.5,
                    "fallback": False,
                    "prompt_tokens": 0,
                    "completion_tokens": 0,
                    "cached": False,
                    "leak": None,
                    "original": None,
                },
                "withheld": None,
            },
            {
                "prompt": "again?",
                "text": "b",
                "num_tokens": 1,
                "prompt_tokens": 1,
                "ended": False,
                "reward": 0.9,
                "weight_version": None,
                "parent": 0,
                "stop": "feedback_unavailable",
                "error": "why",
                "grade": {
                    "correct": True,
                    "format_ok": True,
                    "parsed": None,
                    "error": "E: x",
                    **UNSCORED,
                },
                "feedback": None,
                "withheld": None,
            },
        ],
    }


def test_what_the_disk_refuses_is_written_when_it_takes_it_again(tmp_path, caplog):
    log = EpisodeLog(tmp_path, "w")
    obstacle = tmp_path / "00000001.train.w.jsonl"
    obstacle.mkdir()
    for step in (1, 2):
        log.append(episode(), question="q", step=step, validate=False, uid=f"u{step}")
    obstacle.rmdir()
    log.append(episode(), question="q", step=3, validate=False, uid="u3")
    assert [record["uid"] for record in read_episodes(tmp_path)] == ["u1", "u2", "u3"]
    first, last = (record.message for record in caplog.records)
    assert "wait in memory" in first
    assert "lost so far: 0" in last
    assert log.close() == 0
    obstacle.rename(tmp_path / "moved")
    obstacle.mkdir()
    log.append(episode(), question="q", step=1, validate=False, uid="u4")
    assert log.close() == 1


def test_what_a_grader_found_is_written_whatever_it_is(tmp_path):
    played = episode()
    turn, *rest = played.turns
    deep: list[Any] = []
    deep.append(deep)
    log = EpisodeLog(tmp_path, "w")
    found = [{"set": {1, 2}}, {"count": Counter("aab")}, {(0, 1): defaultdict(int)}, {"deep": deep}]
    for k, details in enumerate(found):
        odd = replace(turn, grade=replace(turn.grade, details=details))
        told = replace(played, turns=(odd, *rest))
        log.append(told, question="q", step=1, validate=False, uid=str(k))
    seen = [record["turns"][0]["grade"]["details"] for record in read_episodes(tmp_path)]
    assert seen[:3] == [{"set": "{1, 2}"}, {"count": {"a": 2, "b": 1}}, {"(0, 1)": {}}]
    assert "<list>" in json.dumps(seen[3])


def test_an_episode_that_a_resumed_run_plays_anew_counts_once(tmp_path):
    log = EpisodeLog(tmp_path, "w")
    for step, text in ((3, "before"), (4, "again")):
        log.append(episode(text), question="q", step=step, validate=False, uid="u")
        log.append(episode(text), question="q", step=step, validate=True, uid="0")
    assert [(r["split"], r["turns"][0]["text"]) for r in read_episodes(tmp_path)] == [
        ("val", "before"),
        ("train", "again"),
        ("val", "again"),
    ]


def test_a_lone_surrogate_becomes_a_question_mark_and_the_line_stays_valid(tmp_path):
    EpisodeLog(tmp_path, "w").append(
        episode("a\ud800b\udfffc"), question="q", step=1, validate=False, uid="u"
    )
    (record,) = read_episodes(tmp_path)
    assert record["turns"][0]["text"] == "a?b?c"
    assert record["turns"][0]["grade"]["parsed"] == "a?b?c"


def test_steps_that_will_be_played_again_are_set_aside(tmp_path):
    log = EpisodeLog(tmp_path, "w1")
    for step in (1, 2, 3, 4, 10):
        log.append(episode(), question="q", step=step, validate=False, uid=f"t{step}")
    log.append(episode(), question="q", step=4, validate=True, uid="v4")
    assert set_aside_after(tmp_path, 3) == 3
    assert [r["uid"] for r in read_episodes(tmp_path)] == ["t1", "t2", "t3"]
    assert len(list((tmp_path / "superseded").glob("*.jsonl"))) == 3

    # the resumed run plays step 4 again, in another process, and is itself interrupted and resumed
    EpisodeLog(tmp_path, "w2").append(
        episode(), question="q", step=4, validate=False, uid="t4 again"
    )
    assert [r["uid"] for r in read_episodes(tmp_path)] == ["t1", "t2", "t3", "t4 again"]
    assert set_aside_after(tmp_path, 3) == 1
    assert set_aside_after(tmp_path, 3) == 0
    assert sorted(p.name[:8] for p in (tmp_path / "superseded").iterdir()) == ["00000004"] * 3 + [
        "00000010"
    ]


def test_a_validation_that_the_resumed_run_does_not_play_again_stays(tmp_path):
    log = EpisodeLog(tmp_path, "w")
    for step in (0, 2, 4):
        log.append(episode(), question="q", step=step, validate=True, uid=f"v{step}")
    assert set_aside_after(tmp_path, 2, validates=False) == 1
    assert [r["uid"] for r in read_episodes(tmp_path)] == ["v0", "v2"]
    assert set_aside_after(tmp_path, 0, validates=False) == 2, "a run from the start"


def test_the_same_file_set_aside_twice_overwrites_nothing(tmp_path):
    for uid in ("first", "second"):
        EpisodeLog(tmp_path, "w").append(episode(), question="q", step=2, validate=False, uid=uid)
        assert set_aside_after(tmp_path, 1) == 1
    uids = [json.loads(p.read_text())["uid"] for p in (tmp_path / "superseded").iterdir()]
    assert sorted(uids) == ["first", "second"]
