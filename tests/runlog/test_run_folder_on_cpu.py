"""The folder of a run is as good as its episode log; and `rltf log stats`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rltf_verl.runlog.about import read_about, write_about, write_missing
from rltf_verl.runlog.files import log_folder
from tests.support.commands import rltf
from tests.support.log_records import line, write

BLOCKS = {
    "env": {"name": "shortest_path", "options": {}},
    "episode": {"horizon": 3, "revise": "critique", "context": "fresh", "quote": "answer"},
    "feedback": {"provider": {"name": "try_again", "options": {}}, "on_error": "raise"},
    "reward": {"format_coef": 0.0},
    "seed": 3,
}
SIZES = {
    "data.train_batch_size": 4,
    "actor_rollout_ref.rollout.n": 2,
    "data.max_prompt_length": 99,
    "data.max_response_length": 16,
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """One with a validation before the first step, and checkpoints."""
    log = tmp_path / "run" / "episodes"
    write(log, [line("1", "2")] * 3, step=0, validate=True)
    write(log, [line("1", "42"), line("2", "42")], step=1)
    write(tmp_path / "run" / "global_step_1" / "copy", [line("1", "42")], step=1)
    write(log / "superseded", [line("1", "42")], step=2)
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("run", "holds 2 episode logs"),
        ("nothing", "no such folder"),
        ("run/run.json", "a file, not a folder"),
    ],
)
def test_two_logs_a_file_and_nothing(run: Path, name: str, message: str) -> None:
    write(run / "other", [line("1", "42")])
    (run / "run.json").touch()
    with pytest.raises(ValueError, match=message):
        log_folder(run.parent / name)


def test_its_log_is_found_also_before_the_first_episode(run: Path, tmp_path: Path) -> None:
    assert log_folder(run) == log_folder(run / "episodes") == run / "episodes"
    (tmp_path / "new" / "episodes").mkdir(parents=True)
    assert log_folder(tmp_path / "new") == tmp_path / "new" / "episodes"


def test_a_probe_reads_the_first_training_step_and_the_runs_own_limits(run: Path) -> None:
    unknown = rltf("probe", run, "--json", "env.name=shortest_path")
    assert "does not hold the run's limits" in unknown.stderr
    write_about(run / "episodes", BLOCKS, SIZES, ["the hint"])
    known = rltf("probe", run, "--json")
    assert "limits" not in known.stderr
    probe = json.loads(known.stdout)
    assert probe["measured"]["sessions"] == 2
    assert list(probe["run"].values()) == list(SIZES.values())
    assert (probe["feedback"]["provider"], probe["feedback"]["revise"]) == ("try_again", "critique")


def test_no_secret_is_written_about_a_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_API_KEY", "sk-Zu7pQ92mVx41")
    own = {"name": "./mine.py:Mine", "options": {"header": ["Bearer sk-Zu7pQ92mVx41"]}}
    write_about(run / "episodes", BLOCKS | {"feedback": {"provider": own}}, SIZES, [])
    assert "Zu7pQ92mVx41" not in (run / "episodes/run.json").read_text()
    assert read_about(run / "episodes")["rltf"]["feedback"]["provider"]["name"] == own["name"]


def test_episodes_that_the_disk_refused_are_counted(run: Path) -> None:
    """In place: the disk may be full."""
    assert "missing" not in rltf("log", "stats", run).stdout
    write_about(run / "episodes", BLOCKS, SIZES, [])
    size = (run / "episodes/run.json").stat().st_size
    write_missing(run / "episodes", 1234)
    assert (run / "episodes/run.json").stat().st_size == size
    assert "1234 more episodes are missing" in rltf("log", "stats", run).stdout
    assert read_about(run / "episodes")["sizes"] == SIZES
    write_about(run / "episodes", BLOCKS, SIZES, [])  # a resume
    write_missing(run / "episodes", 6)
    assert "1240 more episodes are missing" in rltf("log", "stats", run).stdout


@pytest.mark.parametrize("text", ["[", "[]"])
def test_what_a_log_says_of_its_run_may_be_damaged(tmp_path: Path, text: str) -> None:
    assert read_about(tmp_path) == {}
    (tmp_path / "run.json").write_text(text)
    assert read_about(tmp_path) == {}


def test_stats_command(tmp_path):
    for step in range(1, 31):
        write(tmp_path, [line("1", "42"), line("1", "2")], step=step)
    write(tmp_path, [line("42", stop="solved")], step=30, validate=True)
    ranges = json.loads(rltf("log", "stats", tmp_path, "--json").stdout)
    assert [(s["split"], s["first_step"], s["last_step"]) for s in ranges] == [
        *(("train", first, first + 5) for first in range(1, 31, 6)),
        ("val", 30, 30),
    ]
    assert ranges[0]["num"]["turn_2/acc"] == 12
    assert "1–30" in rltf("log", "stats", tmp_path, "--every", 30).stdout
    assert "…" not in rltf("log", "stats", tmp_path, columns=100).stdout
