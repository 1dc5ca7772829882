"""From an episode log to dialogues that verl's SFT trainer reads."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rltf_verl.data.exports import dialogues

from rltf_verl.runlog.about import BLOCKS, write_about
from rltf_verl.runlog.episodes import EpisodeLog, read_episodes
from rltf_verl.types import Attempt, Episode, Feedback, Grade, Problem, Turn
from tests.support.commands import rltf


def turn(text: str, correct: bool, hint: str | None = None, parent: int | None = None) -> Turn:
    said = None if hint is None else Feedback(hint, "teacher")
    return Turn(
        Attempt((1,), (2,), None, text, True), Grade(correct, True), float(correct), said, parent
    )


def episode(*turns: Turn) -> Episode:
    return Episode(Problem("sums", 4, {}, "42"), 0, turns)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    writer = EpisodeLog(tmp_path / "log", "w")
    solved = episode(turn("41", False, "Higher."), turn("42", True, parent=0))
    wrong = episode(turn("40", False, "Higher."), turn("41", False, parent=0))
    for k, played in enumerate((solved, wrong, episode(turn("42", True)))):
        writer.append(played, question="6 · 7?", step=1, validate=False, uid=f"u{k}")
    writer.append(solved, question="6 · 7?", step=1, validate=True, uid="v")
    return tmp_path / "log"


def test_a_dialogue_is_what_was_said_in_turn(log: Path) -> None:
    first, second = dialogues(read_episodes(log), "dialogue_append")
    assert [message["role"] for message in first["messages"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert [m["content"] for m in first["messages"]][:2] == ["6 · 7?", "41"]
    assert first["messages"][2]["content"].startswith("Higher.\n\nTry again.")
    assert (first["num_turns"], first["solved"], second["num_turns"]) == (2, True, 1)


def test_wrong_ends_are_written_when_asked_for(log: Path) -> None:
    assert [
        d["solved"] for d in dialogues(read_episodes(log), "dialogue_append", only_solved=False)
    ] == [True, False, True]


def test_every_line_of_a_tree_is_a_dialogue(tmp_path: Path) -> None:
    tree = episode(
        turn("1", False, "Higher."), turn("42", True, parent=0), turn("7", False, parent=0)
    )
    EpisodeLog(tmp_path, "w").append(tree, question="q", step=1, validate=False, uid="u")
    found = list(dialogues(read_episodes(tmp_path), "dialogue_append", only_solved=False))
    assert [d["messages"][-1]["content"] for d in found] == ["42", "7"]


def test_the_command_writes_what_verl_reads(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "sft" / "dialogues.parquet"
    told = rltf("log", "export", log, "--out", out)
    assert told.exit_code == 0, told.output
    assert "2 dialogues" in told.stdout
    table = pq.read_table(out)
    assert table.column_names == ["messages", "env", "index", "num_turns", "solved"]
    assert b'"only_solved": true' in table.schema.metadata[b"rltf"]
    none = rltf("log", "export", log, "--out", out, "--revise", "dialog")
    assert "--revise='dialog'" in none.stderr
    assert "known: append, attempts, compact" in none.stderr


def test_the_template_is_that_of_an_appended_run_or_ones_own(log: Path, tmp_path: Path) -> None:
    def between(*words: str) -> str:
        out = tmp_path / "dialogues.parquet"
        told = rltf("log", "export", log, "--out", out, *words)
        assert told.exit_code == 0, told.output
        said = pq.read_table(out).to_pylist()
        return next(d["messages"][2]["content"] for d in said if len(d["messages"]) > 2)

    assert "Try again." in between()
    blocks = {key: {} for key in BLOCKS}
    write_about(log, blocks | {"episode": {"context": "append", "revise": "append"}}, {}, [])
    assert "Your solution was reviewed:" in between()
    (tmp_path / "mine.j2").write_text("Hm: {{ feedback }}")
    assert between("--revise", str(tmp_path / "mine.j2")).startswith("Hm: ")
