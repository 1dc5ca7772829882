"""The episode log: whole lines whoever writes, nothing twice after a resume, any text. Its files:
packed when a step is over, nothing lost or read twice, bounded, a share of the problems.
"""

import gzip
import json
import logging
import multiprocessing
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import pytest

from rltf_verl.runlog.episodes import EpisodeLog, read_episodes, read_wrong_attempts
from rltf_verl.runlog.files import log_files, pack, read_files, set_aside_after
from rltf_verl.runlog.files import size as size_of
from rltf_verl.runlog.rows import read_rows, roles, write_rows
from rltf_verl.types import Attempt, Episode, Feedback, Grade, Problem, Turn
from tests.support.log_records import line, row, write


def episode(text="a", details=None):
    critique = Attempt((1,), (2,), None, "not written down", ended=True)
    first = Turn(
        Attempt((1, 2), (3, 4), (-0.5, -0.25), text, ended=True, info={"max_global_steps": 7}),
        Grade(False, True, parsed=text, details=details or {}),
        0.0,
        Feedback("f", "verifier", latency_s=0.5, attempt=critique, span=(3, 4)),
    )
    last = Turn(
        Attempt((5,), (6,), None, "b", ended=False),
        Grade(True, True, error="E: x"),
        0.9,
        stop="feedback_unavailable",
        error="why",
        prompt="again?",
    )
    return Episode(Problem("echo", 11, {"k": 1}, "ref"), 0, (first, last), num_shortened=1)


def play(folder, steps, worker="w", num=3, validate=False, text="a"):
    log = EpisodeLog(folder, worker)
    for step in steps:
        for i in range(num):
            place = {"step": step, "validate": validate, "uid": f"{worker}-{step}-{i}"}
            log.append(episode(text), question="q", **place)


def uids(folder):
    return [record["uid"] for record in read_episodes(folder)]


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


def test_a_record_holds_what_was_said_and_tokens_on_request(tmp_path):
    place = {"question": "q", "step": 5, "validate": True, "uid": "u1", "seed": 3}
    EpisodeLog(tmp_path, "w", ids=True).append(episode("a\ud800"), **place)
    ((first, last),) = (record["turns"] for record in read_episodes(tmp_path))
    ids = {"prompt_ids": [1, 2], "response_ids": [3, 4], "log_probs": [-0.5, -0.25]}
    assert first.items() >= ids.items()
    assert last["log_probs"] is None
    assert first["text"] == "a?", "a lone surrogate"
    EpisodeLog(tmp_path / "new" / "folder", "w").append(episode(), **place)
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


def test_what_the_disk_refuses_is_written_when_it_takes_it_again(tmp_path):
    log, obstacle = EpisodeLog(tmp_path, "w"), tmp_path / "00000001.train.w.jsonl"
    obstacle.mkdir()
    log.append(episode(), question="q", step=1, validate=False, uid="u1")
    obstacle.rmdir()
    log.append(episode(), question="q", step=2, validate=False, uid="u2")
    assert uids(tmp_path) == ["u1", "u2"]
    assert log.close() == 0


def test_what_a_grader_found_is_written_whatever_it_is(tmp_path):
    deep: list[Any] = []
    deep.append(deep)
    log = EpisodeLog(tmp_path, "w")
    found = [{"set": {1, 2}}, {"count": Counter("aab")}, {(0, 1): defaultdict(int)}, {"deep": deep}]
    for k, details in enumerate(found):
        log.append(episode(details=details), question="q", step=1, validate=False, uid=str(k))
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


@pytest.mark.parametrize("packed", [False, True])
def test_steps_that_will_be_played_again_are_set_aside(tmp_path, packed):
    play(tmp_path, (1, 2, 3, 10), num=1)
    play(tmp_path, (3,), num=1, validate=True)
    write_rows(tmp_path, 3, [{"step": 3, "uid": "w-3-0", "session_id": 0, "rows": []}])
    if packed:
        pack(tmp_path, 11)
    assert set_aside_after(tmp_path, 2) == 4
    assert uids(tmp_path) == ["w-1-0", "w-2-0"]
    assert read_rows(tmp_path) == {}
    aside = tmp_path / "superseded"
    assert len(list(aside.glob("*.jsonl.gz" if packed else "*.jsonl"))) == 4

    # the resumed run plays step 3 again, in a process of the same name, and is itself resumed
    play(tmp_path, (3,), num=1)
    assert uids(tmp_path) == ["w-1-0", "w-2-0", "w-3-0"]
    assert set_aside_after(tmp_path, 2) == 1
    assert set_aside_after(tmp_path, 2) == 0
    assert sorted(p.name[:8] for p in aside.iterdir()) == ["00000003"] * 4 + ["00000010"]


def test_a_validation_that_the_resumed_run_does_not_play_again_stays(tmp_path):
    play(tmp_path, (0, 2, 4), num=1, validate=True)
    assert set_aside_after(tmp_path, 2, validates=False) == 1
    assert uids(tmp_path) == ["w-0-0", "w-2-0"]
    assert set_aside_after(tmp_path, 0, validates=False) == 2, "a run from the start"


def write_many(folder, worker, num):
    for i in range(num):  # few episodes per file name, so that files come and go
        play(folder, (1,), f"{worker}x{i}", num=1)
        place = {"step": 1, "validate": False, "uid": f"s-{worker}-{i}"}
        EpisodeLog(folder, "shared").append(episode("x" * 5000), question="q", **place)


def test_steps_that_are_over_become_one_small_file_each(tmp_path):
    for worker in ("a", "b"):
        play(tmp_path, (1, 2, 3), worker, num=40)
    play(tmp_path, (1,), "a", validate=True)
    before, size = uids(tmp_path), size_of(tmp_path)
    assert pack(tmp_path, 3) == 5
    assert [p.name for p in log_files(tmp_path)] == [
        "00000001.train.jsonl.gz",
        "00000001.val.jsonl.gz",
        "00000002.train.jsonl.gz",
        "00000003.train.a.jsonl",
        "00000003.train.b.jsonl",
    ]
    assert Counter(uids(tmp_path)) == Counter(before)
    assert size_of(tmp_path) < size / 2
    assert pack(tmp_path, 3) == 0
    # Any other reader of gzipped JSON lines sees whole lines.
    with gzip.open(tmp_path / "00000001.train.jsonl.gz", "rt", encoding="utf-8") as file:
        assert [json.loads(line)["uid"] for line in file] == [
            f"{w}-1-{i}" for w in "ab" for i in range(40)
        ]


def test_a_packer_that_is_killed_halfway_costs_nothing(tmp_path):
    play(tmp_path, (1,))
    (file,) = log_files(tmp_path)
    lines = file.read_bytes()
    pack(tmp_path, 2)
    file.write_bytes(lines)  # killed before it took the file away
    (tmp_path / ".00000001.train.jsonl.gz.part").write_bytes(b"half a ")
    assert uids(tmp_path) == ["w-1-0", "w-1-1", "w-1-2"]
    pack(tmp_path, 2)
    assert uids(tmp_path) == ["w-1-0", "w-1-1", "w-1-2"]
    assert [p.name for p in tmp_path.iterdir()] == ["00000001.train.jsonl.gz"]


def test_writers_and_a_packer_at_once_lose_nothing(tmp_path):
    context, num = multiprocessing.get_context("fork"), 60
    writers = [context.Process(target=write_many, args=(tmp_path, w, num)) for w in range(3)]
    for process in writers:
        process.start()
    while any(process.is_alive() for process in writers):
        pack(tmp_path, 2)
    for process in writers:
        process.join()
        assert process.exitcode == 0
    want = [f"s-{w}-{i}" for w in range(3) for i in range(num)]
    want += [f"{w}x{i}-1-0" for w in range(3) for i in range(num)]
    assert sorted(uids(tmp_path)) == sorted(want)


def test_half_a_line_of_a_growing_file_is_left_out_in_silence(tmp_path, caplog):
    play(tmp_path, (1,))
    (growing,) = log_files(tmp_path)
    growing.write_bytes(growing.read_bytes()[:-9])
    assert len(read_episodes(tmp_path, growing=True)) == 2
    assert caplog.messages == []


def test_at_its_size_limit_the_log_stops_with_one_line_and_goes_on_when_there_is_room(
    tmp_path, caplog, monkeypatch
):
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr("rltf_verl.runlog.files.MOST_GB", 3e-6)
    log = EpisodeLog(tmp_path, "w")
    for step in range(1, 30):
        log.append(episode("x" * 200), question="q", step=step, validate=False, uid=f"{step}")
    assert 3000 <= size_of(tmp_path) < 5000
    assert len(caplog.records) == 1
    for path in log_files(tmp_path):
        path.unlink()
    log.append(episode(), question="q", step=30, validate=False, uid="30")
    assert uids(tmp_path) == ["30"]


def test_rows_stand_beside_the_episode_that_they_train(tmp_path):
    play(tmp_path, (1,))
    play(tmp_path, (1,), validate=True)
    rows = [row("distill", 1, 0.0, "a", "b")]
    write_rows(tmp_path, 1, [{"step": 1, "uid": "w-1-1", "session_id": 0, "rows": rows}])
    trained, *_ = [record for record in read_episodes(tmp_path) if "rows" in record]
    assert (trained["uid"], trained["split"], roles(trained)) == ("w-1-1", "train", {"distill"})
    assert sum("rows" in record for record in read_episodes(tmp_path)) == 1
    assert [record["uid"] for record in read_files(log_files(tmp_path, ("rows",)))] == ["w-1-1"]


def test_one_step_is_read_from_its_own_files_alone(tmp_path, caplog):
    play(tmp_path, (1, 2))
    whole = read_episodes(tmp_path)
    for kind in ("train", "rows"):
        (tmp_path / f"00000003.{kind}.w.jsonl").write_text("no JSON\n")
    assert read_episodes(tmp_path, 2) == [record for record in whole if record["step"] == 2] != []
    assert caplog.messages == []
    assert read_episodes(tmp_path, 4) == []
