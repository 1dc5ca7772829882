"""The files of the log: packed when a step is over, nothing lost or read twice, bounded, a share of
the problems.
"""

import gzip
import json
import logging
import multiprocessing
import shutil
from collections import Counter

from rltf_verl.runlog import files
from rltf_verl.runlog.episodes import EpisodeLog, is_written, read_episodes
from rltf_verl.runlog.files import log_files, pack, read_files, set_aside_after
from rltf_verl.runlog.rows import read_rows, roles, write_rows
from rltf_verl.types import Attempt, Episode, Grade, Problem, Turn


def episode(text="a", session_id=0):
    turn = Turn(
        Attempt((1,), (2, 3), (-0.5, -1.0), text, ended=True), Grade(True, True), 1.0, stop="solved"
    )
    return Episode(Problem("echo", 0, {}, "ref"), session_id, (turn,))


def play(folder, steps, worker="w", num=3, validate=False):
    log = EpisodeLog(folder, worker)
    for step in steps:
        for i in range(num):
            log.append(
                episode(f"{worker} {i}"),
                question="q",
                step=step,
                validate=validate,
                uid=f"{worker}-{step}-{i}",
            )


def uids(folder):
    return [record["uid"] for record in read_episodes(folder)]


def test_steps_that_are_over_become_one_small_file_each(tmp_path):
    for worker in ("a", "b"):
        play(tmp_path, (1, 2, 3), worker, num=40)
    play(tmp_path, (1,), "a", validate=True)
    before, size = uids(tmp_path), files.size(tmp_path)
    assert pack(tmp_path, 3) == 5
    assert [p.name for p in log_files(tmp_path)] == [
        "00000001.train.jsonl.gz",
        "00000001.val.jsonl.gz",
        "00000002.train.jsonl.gz",
        "00000003.train.a.jsonl",
        "00000003.train.b.jsonl",
    ]
    assert Counter(uids(tmp_path)) == Counter(before)
    assert files.size(tmp_path) < size / 2
    assert pack(tmp_path, 3) == 0
    # Any other reader of gzipped JSON lines sees whole lines.
    with gzip.open(tmp_path / "00000001.train.jsonl.gz", "rt", encoding="utf-8") as file:
        assert [json.loads(line)["uid"] for line in file] == [
            f"{w}-1-{i}" for w in "ab" for i in range(40)
        ]


def test_a_packer_that_is_killed_halfway_costs_nothing(tmp_path):
    play(tmp_path, (1,))
    shutil.copy(tmp_path / "00000001.train.w.jsonl", tmp_path / "kept")
    pack(tmp_path, 2)
    shutil.move(
        tmp_path / "kept", tmp_path / "00000001.train.w.jsonl"
    )  # killed before it took the file away
    (tmp_path / ".00000001.train.jsonl.gz.part").write_bytes(b"half a ")
    assert uids(tmp_path) == ["w-1-0", "w-1-1", "w-1-2"]
    pack(tmp_path, 2)
    assert uids(tmp_path) == ["w-1-0", "w-1-1", "w-1-2"]
    assert [p.name for p in tmp_path.iterdir()] == ["00000001.train.jsonl.gz"]


def write_many(folder, worker, num):
    for i in range(num):
        play(
            folder, (1,), f"{worker}x{i}", num=1
        )  # few episodes per file name, so that files come and go
        EpisodeLog(folder, "shared").append(
            episode("x" * 5000), question="q", step=1, validate=False, uid=f"s-{worker}-{i}"
        )


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


def test_packed_steps_are_set_aside_too(tmp_path):
    play(tmp_path, (1, 2, 3))
    write_rows(tmp_path, 2, [{"step": 2, "uid": "w-2-0", "session_id": 0, "rows": []}])
    pack(tmp_path, 4)
    assert set_aside_after(tmp_path, 1) == 3
    assert uids(tmp_path) == ["w-1-0", "w-1-1", "w-1-2"]
    assert read_rows(tmp_path) == {}
    aside = {p.name.split(".")[0] for p in (tmp_path / "superseded").iterdir()}
    assert aside == {"00000002", "00000003"}
    assert all(p.name.endswith(".jsonl.gz") for p in (tmp_path / "superseded").iterdir())


def test_half_a_line_of_a_growing_file_is_left_out_in_silence(tmp_path, caplog):
    play(tmp_path, (1,))
    (growing,) = log_files(tmp_path)
    growing.write_bytes(growing.read_bytes()[:-9])
    assert len(read_episodes(tmp_path, growing=True)) == 2
    assert caplog.messages == []


def test_a_share_is_of_problems_and_the_same_in_every_process(tmp_path):
    log = EpisodeLog(tmp_path, "w", share=0.3)
    names = [f"problem-{k}" for k in range(400)]
    for name in names:
        for session_id in range(2):
            log.append(
                episode(session_id=session_id), question="q", step=1, validate=False, uid=name
            )
    written = Counter(uids(tmp_path))
    assert set(written) == {name for name in names if is_written(name, 0.3)}
    assert set(written.values()) == {2}
    assert 80 < len(written) < 160
    log.append(episode(), question="q", step=1, validate=True, uid="problem-0")
    assert sum(record["split"] == "val" for record in read_episodes(tmp_path)) == 1


def test_at_its_size_limit_the_log_stops_with_one_line_and_goes_on_when_there_is_room(
    tmp_path, caplog
):
    caplog.set_level(logging.WARNING)
    log = EpisodeLog(tmp_path, "w", max_gb=3e-6)
    for step in range(1, 30):
        log.append(episode("x" * 500), question="q", step=step, validate=False, uid=f"{step}")
    assert 3000 <= files.size(tmp_path) < 5000
    (message,) = [record.message for record in caplog.records]
    assert "rltf.episode_log.max_gb=3e-06" in message
    assert "rltf.episode_log.share" in message
    for path in log_files(tmp_path):
        path.unlink()
    log.append(episode(), question="q", step=30, validate=False, uid="30")
    assert uids(tmp_path) == ["30"]


def test_tokens_on_request(tmp_path):
    EpisodeLog(tmp_path, "w", ids=True).append(
        episode(), question="q", step=1, validate=False, uid="u"
    )
    (record,) = read_episodes(tmp_path)
    turn = record["turns"][0]
    assert (turn["prompt_ids"], turn["response_ids"], turn["log_probs"]) == (
        [1],
        [2, 3],
        [-0.5, -1.0],
    )


def test_rows_stand_beside_the_episode_that_they_train(tmp_path):
    play(tmp_path, (1,))
    play(tmp_path, (1,), validate=True)
    part = {"role": "distill", "turn": 1, "tokens": 2} | dict.fromkeys(
        ("advantage", "masked", "log_prob", "gap"), 0.0
    )
    write_rows(
        tmp_path, 1, [{"step": 1, "uid": "w-1-1", "session_id": 0, "rows": [{"parts": [part]}]}]
    )
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
