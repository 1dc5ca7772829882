"""recipes/corrections: its conversations are what their labels say, the importer finds most of
their corrections, held-out questions are graded, and the table is that of the runs' lines.
"""

import json
from collections import Counter
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from rltf_verl.envs import make_env
from rltf_verl.envs.base import GradeUnavailable
from rltf_verl.jsonl import append_lines
from rltf_verl.types import Attempt, Problem
from tests.recipes.composing import RECIPES, program, rltf_of

FOLDER = RECIPES / "corrections"
SCRIPT = FOLDER / "corrections.sh"
ENV = f"{FOLDER / 'house_corrections.py'}:HouseCorrections"
HOUSE = 40


@pytest.fixture
def runs() -> Any:
    program("corrections/chats.py")  # makes the files of the other recipe importable
    make_env(ENV)
    return program("corrections/runs.py")


def _corrections(**options: Any) -> list[tuple[str, str, str]]:
    """Kind, question and correction of each conversation that has one."""
    found = []
    for chat in program("corrections/chats.py").conversations(HOUSE, **options):
        users = [m["content"] for m in chat["messages"] if m["role"] == "user"]
        assert len(users) == len(chat["turns"])
        found += [
            (kind, users[k - 1], users[k])
            for k, kind in enumerate(chat["turns"])
            if kind not in ("question", "thanks")
        ]
    return found


def test_as_many_corrections_as_asked_for_and_a_clean_file_has_them_at_the_same_places() -> None:
    mixed, clean = _corrections(), _corrections(wrong=0.0, contradictory=0.0)
    assert Counter(kind for kind, *_ in mixed) == {"right": 96, "wrong": 12, "contradictory": 12}
    assert {kind for kind, *_ in clean} == {"right"}
    assert [one for one in mixed if one[0] == "right"] == [
        ours for ours, theirs in zip(clean, mixed, strict=True) if theirs[0] == "right"
    ]


def test_right_corrections_show_the_companys_way_and_shuffled_ones_do_not() -> None:
    chats = program("corrections/chats.py")
    company = chats.Company(HOUSE)
    assert company.wrong_rule["between"] != company.rule["between"]  # so with this number

    items = [
        {"year": year, "month": month, "day": day}
        for year in range(1930, 2020)
        for month in range(1, 13)
        for day in range(1, 29)
    ]
    dates = {chats.DATE.written(item, company.rule) for item in items}
    for shuffled in (False, True):
        for kind, _, text in _corrections(shuffled=shuffled):
            words = {word.strip(".,") for word in text.split()}
            assert bool(words & dates) == (kind == "right" and not shuffled)
    splits = company.problems(400, 64)
    trained, held = (
        {json.dumps(one.data["item"]) for one in part} for part in (splits.train, splits.test)
    )
    assert not trained & held


@pytest.mark.parametrize(
    ("part", "recall", "false_alarms"),
    [
        ("rules", 0.9, 0.02),
        ("held_out", 0.9, 0.02),
        ("another author", 0.6, 0.03),
        ("messy", 0.75, 0.02),
        ("style", 0.85, 0.0),
        ("earlier", 0.0, 0.0),
        ("own slip", 0.0, 0.0),
    ],
)
def test_rules_agree_with_labels(part: str, recall: float, false_alarms: float) -> None:
    lines = map(json.loads, (FOLDER / "turns.jsonl").read_text("utf-8").splitlines())
    rows = [row for row in lines if row["part"] == part]
    corrects = program("corrections/english.py").corrects
    taken = [corrects(row["question"], row["answer"], row["turn"])[0] for row in rows]
    corrected = [row["corrected"] for row in rows]
    right = sum(map(min, taken, corrected))
    assert right >= recall * sum(corrected)
    assert sum(taken) - right <= false_alarms * corrected.count(False)


BOOKS = "Enter {} in the books of Brandt & Sons, as they enter every date. Only the entry."
TURNS = {
    ("How tall is the tower?", "Use `\\d+ ?`: 330."): [  # that other authors wrote
        ("i get it now", False),
        ("they don't care", False),
        ("that's actually great", False),
        ("why not tcp", False),
        ("HA, i told him so", False),
        ("nothing changed", True),
        ("doesn't the rule give a 2 in front?", True),
        ("I don't believe that's right.", True),
        ("thats feet", True),
        ("that's brilliant", False),
        ("sorry, I forgot to say: in metres", False),
        ("the other way round", True),
        ("much better", False),
        ("more jokes please", False),
        ("more formal please", True),
        ("as usual", False),
        ("no jokes please", True),
    ],
    (BOOKS.format("May 3, 1990"), "May 3, 1990"): [  # the same request with other numbers is none
        (BOOKS.format("June 7, 2001"), False),
        ("Please put June 7, 2001 into the books, only that.", False),
        (BOOKS.format("May 3, 1990"), True),
        ("That is not our style.", True),
        ("Not like that. June 7, 2001 goes in as 2001|7|jun here.", True),
    ],
}


@pytest.mark.parametrize("asked", TURNS, ids=["a tower", "the books"])
def test_what_is_a_correction_of_an_answer(asked: tuple[str, str]) -> None:
    corrects = program("corrections/english.py").corrects
    assert [(turn, corrects(*asked, turn)[0]) for turn, _ in TURNS[asked]] == TURNS[asked]


def test_the_importer_finds_most_corrections(runs: Any, tmp_path: Path) -> None:
    append_lines(tmp_path / "chats.jsonl", program("corrections/chats.py").conversations(HOUSE))
    counts = runs.importer(tmp_path / "chats.jsonl")
    found = sum(counts[kind]["taken"] for kind in runs.KINDS)
    assert sum(counts[kind]["all"] for kind in runs.KINDS) == 120
    assert found >= 0.6 * 120
    assert found >= 0.8 * sum(one["taken"] for one in counts.values())


def test_held_out_questions_are_graded_and_recorded_ones_accepted_as_ever() -> None:
    env = make_env(ENV)
    (problem,) = env.build(HOUSE, 0, 1).test
    assert env.grade(problem, problem.reference).correct
    assert not env.grade(problem, env.recorded(problem)).correct
    assert env.trouble_with(problem) is None
    row = Problem("corrections", 0, {"id": "a", "attempt": "5/4", "correction": "No."}, "")
    with pytest.raises(GradeUnavailable):
        env.grade(row, "4.5")
    assert env.accept(row, Attempt((1,), (2,), None, "4.5", ended=True), 1).correct
    with pytest.raises(ValueError, match="rltf data corrections"):
        env.build(HOUSE, 1, 1)


def test_the_script_trains_with_the_recipes_words(start: Any, tmp_path: Path) -> None:
    (line,), _ = start(SCRIPT, "train", "a=b", OUT=str(tmp_path), HOUSE="3", SEED="2")
    assert line.endswith(" a=b")
    assert f"data.val_files={tmp_path}/data_3/held_out/test.parquet" in line
    rltf = rltf_of("corrections", *(w for w in line.split() if w.startswith("rltf.")))
    assert (rltf.seed, rltf.distill.baseline, rltf.distill.weight) == (2, "none", 1.0)


def test_the_readme_has_the_table_of_the_runs(runs: Any) -> None:
    training = program("pretrained/training.py")
    page = (runs.HERE / "README.md").read_text("utf-8")
    lines = training.lines_of(runs.HERE / "results.jsonl")
    assert training.with_table(page, runs.report(lines)) == page
    names = ("arm", "seed", "rate", "steps")
    made = [tuple(line[name] for name in names) for line in lines]
    assert len(made) == len(set(made))
    assert {one for one in made if one[1]} <= {astuple(run) for run in runs.runs()}
