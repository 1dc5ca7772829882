"""The episodes that docs/viewer.md shows are what it says of them."""

import pytest

from rltf_verl.runlog.files import read_files
from rltf_verl.runlog.turns import Record, wrong
from rltf_verl.tools.report.view.run import EXAMPLE, PageRun

MOMENTS, DEGENERATING = EXAMPLE


def episodes_of(name: str) -> list[Record]:
    (file,) = MOMENTS.glob(f"*.{name}.jsonl")
    return list(read_files([file]))


@pytest.mark.parametrize(("name", "wrong_after"), [("helped", False), ("ignored", True)])
def test_second_answer_to_the_marks(name: str, wrong_after: bool) -> None:
    ((first, second),) = [record["turns"] for record in episodes_of(name)]
    assert wrong(first)
    assert first["feedback"]["text"] in second["prompt"]
    assert wrong(second) is wrong_after


def test_the_ignored_mark_is_that_of_a_cell_that_stays() -> None:
    (record,) = episodes_of("ignored")
    first, second = (turn["grade"]["parsed"].split() for turn in record["turns"])
    marks = [row[1::2] for row in record["turns"][0]["feedback"]["text"].split("/")]
    assert marks == record["reference"].split()
    off = [(r, c) for r in range(3) for c in range(3) if second[r][c] != marks[r][c]]
    assert off == [(1, 2)]
    assert second[1][2] == first[1][2]


def test_leak_is_withheld() -> None:
    (record,) = episodes_of("leak")
    (turn,) = record["turns"]
    assert turn["feedback"] is None
    assert record["reference"] in turn["withheld"]["text"]
    assert turn["withheld"]["leak"] in turn["error"]


def test_judge_is_down() -> None:
    ((turn,),) = [record["turns"] for record in episodes_of("judge_down")]
    assert turn["feedback"] is turn["withheld"] is None
    assert "HTTP 503" in turn["error"]


def test_the_agent_follows_the_note_on_its_step() -> None:
    ((first, second),) = [record["turns"] for record in episodes_of("agent")]
    (step,) = [note["step"] for note in first["feedback"]["notes"] if note["step"] is not None]
    assert wrong(first)
    assert not wrong(second)
    kept = [
        a["actions"] == b["actions"] for a, b in zip(first["steps"], second["steps"], strict=True)
    ]
    assert [k for k, same in enumerate(kept) if not same] == [step]


def test_degenerating_run_warns() -> None:
    run = PageRun(DEGENERATING, "degenerating")
    since = {warning["name"]: warning["from"] for warning in run.index()["warnings"]}
    assert since == {"policy lost": 6, "feedback unused": 13}
    records = [record for step in run.steps.values() for record in step.records]
    forms = [record["turns"][0]["grade"]["format_ok"] for record in records]
    assert forms == [True, False]
