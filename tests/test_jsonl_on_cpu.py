"""JSON lines: whole whoever writes and whoever is killed."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.jsonl import PatientWriter, append_lines, read_lines

JSON = st.dictionaries(
    st.text(max_size=5), st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30)
)


@given(records=st.lists(JSON, max_size=6))
def test_any_text_comes_back(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    path.touch()
    for record in records:
        append_lines(path, [record])
    assert read_lines(path) == records


@pytest.mark.parametrize(
    "half", [b'{"a": "hal', b'{"a": 1', b"\xff\xfe", b"[1]", b"nonsense", b"[" * 100_000]
)
def test_half_a_line_costs_that_line_only(tmp_path, caplog, half):
    path = tmp_path / "a.jsonl"
    append_lines(path, [{"n": 1}])
    with path.open("ab") as file:
        file.write(half)
    append_lines(path, [{"n": 2}])  # not glued to the half line
    append_lines(path, [{"n": 3}])
    assert read_lines(path) == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert "skipped 1 unreadable line of 4" in caplog.text


def test_a_disk_that_takes_only_a_part_is_an_error_and_leaves_the_file_as_it_was(
    tmp_path, monkeypatch
):
    path, write = tmp_path / "a.jsonl", os.write
    append_lines(path, [{"n": 1}])
    before = path.read_bytes()
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[: len(data) // 2]))
    with pytest.raises(OSError, match="is the disk full"):
        append_lines(path, [{"n": 2}])
    assert path.read_bytes() == before


def test_a_patient_writer_loses_the_oldest_and_says_how_many(tmp_path, caplog):
    path = tmp_path / "folder" / "a.jsonl"
    writer = PatientWriter("a log", most=2)
    writer.append(path, [{"n": 0}, {"n": 1}])
    for n in (2, 3):
        writer.append(path, [{"n": n}])
    assert writer.close() == 4
    path.parent.mkdir()
    writer.append(path, [{"n": 4}])
    assert writer.close() == 3, "what was lost meanwhile"
    assert read_lines(path) == [{"n": 3}, {"n": 4}]
    assert [r.message.split(":")[0] for r in caplog.records] == ["a log", "a log"]
    assert "lost so far: 3" in caplog.records[-1].message
