"""From an episode log to training data and tables."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rltf_verl.runlog.about import BLOCKS, write_about
from rltf_verl.runlog.episodes import EpisodeLog, read_episodes
from rltf_verl.tools.data.exports import answers, dialogues, preferences
from rltf_verl.types import Episode, Problem
from tests.support.commands import ran, refused
from tests.support.log_records import acted, acts, line, write

POLICY = Path(__file__).parents[2] / "recipes" / "demo" / "policy"
SYSTEM = {"role": "system", "content": "Be brief."}
QUESTION = {"role": "user", "content": "6 · 7?"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    writer = EpisodeLog(tmp_path / "log", "w")
    episodes = [
        line("1", "42"),
        line("1", "42"),
        line("42", stop="solved"),
        line("1", "2"),
        line("42", "1"),
        line("1", "2", "42", stop="solved"),
        line("1", "?", stop="ungraded"),
    ]
    for k, played in enumerate(episodes):
        writer.append(
            Episode(Problem("sums", 4, {}, "42"), k, played),
            question="6 · 7?",
            step=1,
            validate=False,
            uid="u",
            context=[SYSTEM],
        )
    write(tmp_path / "log", [line("3", "42")], question="84 / 2?")
    return write(tmp_path / "log", [line("3", "42")], question="6 · 7?", validate=True)


def test_right_answers_to_the_first_prompt_each_once(log: Path) -> None:
    first, second = answers(read_episodes(log))
    assert first["messages"] == [SYSTEM, QUESTION, {"role": "assistant", "content": "so 42"}]
    assert second["messages"] == [
        {"role": "user", "content": "84 / 2?"},
        {"role": "assistant", "content": "so 42"},
    ]


def test_a_preference_is_a_revision_over_what_it_revises(log: Path) -> None:
    found = [
        (p["rejected"][0]["content"], p["chosen"][0]["content"])
        for p in preferences(read_episodes(log))
    ]
    assert found == [("so 1", "so 42"), ("so 2", "so 42"), ("so 3", "so 42")]
    assert next(preferences(read_episodes(log)))["prompt"] == [SYSTEM, QUESTION]


def test_a_dialogue_is_an_episode(log: Path) -> None:
    first, *_, last = dialogues(read_episodes(log), "dialogue_append")
    system, question, attempt, feedback, revision = first["messages"]
    assert (system, question) == (SYSTEM, QUESTION)
    assert [m["role"] for m in (attempt, feedback, revision)] == ["assistant", "user", "assistant"]
    assert (attempt["content"], revision["content"]) == ("so 1", "so 42")
    assert feedback["content"].startswith("look at row two\n\nTry again.")
    assert (first["num_turns"], first["solved"], last["num_turns"]) == (2, True, 2)


def test_trajectories_are_refused(tmp_path: Path) -> None:
    """Their observations are not the assistant's words."""
    write(tmp_path, [[acted("42", acts("a call", "what it did", x=1), acts("42"))]])
    for rows in (
        answers(read_episodes(tmp_path)),
        preferences(read_episodes(tmp_path)),
        dialogues(read_episodes(tmp_path), "dialogue_append"),
    ):
        with pytest.raises(ValueError, match="its attempts have steps"):
            next(rows)


def test_episodes_that_end_wrong_are_written_when_asked_for(log: Path) -> None:
    rows = list(dialogues(read_episodes(log), "dialogue_append", only_solved=False))
    assert [row["solved"] for row in rows].count(False) == 3
    three = [row["messages"][-1]["content"] for row in rows if row["num_turns"] == 3]
    assert three == ["so 42"]


def test_the_template_is_that_of_an_appended_run_or_a_file(log: Path, tmp_path: Path) -> None:
    def between(*words: str) -> str:
        out = tmp_path / "dialogues.parquet"
        ran("log", "export", log, "--out", out, "--overwrite", *words)
        return pq.read_table(out).to_pylist()[0]["messages"][3]["content"]

    assert "Try again." in between()
    blocks = {key: {} for key in BLOCKS}
    write_about(log, blocks | {"episode": {"context": "append", "revise": "append"}}, {}, [])
    assert "Your solution was reviewed:" in between()
    (tmp_path / "mine.j2").write_text("Hm: {{ feedback }}")
    assert between("--revise", str(tmp_path / "mine.j2")).startswith("Hm: ")


@pytest.mark.parametrize(
    ("form", "num", "num_val", "column"),
    [
        ("answers", 2, 1, "messages"),
        ("preferences", 3, 1, "chosen"),
        ("dialogues", 5, 1, "messages"),
    ],
)
def test_the_command(
    log: Path, tmp_path: Path, form: str, num: int, num_val: int, column: str
) -> None:
    out = tmp_path / "out.parquet"
    for rows, words in ((num, ()), (num_val, ("--split", "val", "--overwrite"))):
        result = ran("log", "export", log, "--out", out, "--as", form, *words)
        assert f"{rows} {form}: " in result.stdout
        table = pq.read_table(out)
        assert (table.num_rows, column in table.column_names) == (rows, True)
    assert "--overwrite" in refused("log", "export", log, "--out", out, "--as", form)


def test_nothing_to_write_is_one_line(tmp_path: Path) -> None:
    folder = write(tmp_path / "log", [line("1", "2")])
    told = refused("log", "export", folder, "--out", tmp_path / "x", "--as", "answers")
    assert "no episode of the log has what is asked for" in told
