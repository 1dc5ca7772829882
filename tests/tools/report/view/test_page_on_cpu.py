"""The viewer's page as a file: its data comes back unchanged, and no text in it can act."""

import base64
import gzip
import hashlib
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from rltf_verl.runlog.files import EVALUATION
from rltf_verl.runlog.rows import write_rows
from rltf_verl.tools.report.run_files import metrics_near
from rltf_verl.tools.report.view import episodes as limits
from rltf_verl.tools.report.view.build import as_json, page
from rltf_verl.tools.report.view.episodes import FLAGS, TRAINED, conversation, tokens
from rltf_verl.tools.report.view.run import runs_at
from tests.support.commands import ran, refused
from tests.support.log_records import (
    EMPTY,
    HINT,
    HOSTILE,
    LEAKY,
    acted,
    acts,
    line,
    records,
    row,
    turn,
    with_rows,
    write,
)
from tests.support.run_files import step as trained
from tests.support.run_files import write_metrics

view_command = import_module("rltf_verl.tools.cli.view")  # `cli.app` has the function's name
FALLBACK = type(EMPTY)(EMPTY.text, "correctness", fallback=True)


def written(*folders: Path, title: str = "t") -> str:
    return page(runs_at(folders), title)


def unpacked(text: str) -> tuple[dict, dict]:
    """The index and the other parts, as the page's script reads them."""
    parts = re.findall(r'<script type="text/plain" id="([^"]+)">([A-Za-z0-9+/=]*)</script>', text)
    plain = {name: gzip.decompress(base64.b64decode(data)) for name, data in parts}
    data = {name: json.loads(text, parse_constant=pytest.fail) for name, text in plain.items()}
    return data.pop("index"), data


def run_index(*folders: Path) -> dict:
    index, _ = unpacked(written(*folders))
    return index["runs"][0]


def named(episodes, names):
    """The names of each episode's bits."""
    return [{name for k, name in enumerate(names) if bits >> k & 1} for bits in episodes]


def test_everything_but_the_fields_of_the_environment_is_in_it(tmp_path):
    hostile = [(turn(t, stop="horizon", text=t),) for t in HOSTILE]
    logged = records(tmp_path, [line("1", "42"), *hostile])
    index, blocks = unpacked(written(tmp_path, title="<a> title"))
    shown = [{k: v for k, v in record.items() if k != "task"} for record in logged]
    assert list(blocks.values()) == [shown]
    assert index["title"] == "<a> title"


def test_problems_of_concatenated_datasets_differ(tmp_path):
    for step, question in ((1, "6 times 7?"), (2, "43 - 1?"), (3, "6 times 7?")):
        write(tmp_path, [line("1")], step=step, question=question)
    run = run_index(tmp_path)
    first, other, again = run["asked"]
    assert first == again != other
    assert run["problem"] == [0, 0, 0]


def test_the_filters_of_the_list(tmp_path):
    fallback = (turn("1", FALLBACK), turn("", stop="horizon"))
    withheld = turn("1", None, withheld=LEAKY, stop="feedback_unavailable", error="guard")
    episodes = {
        "✗✓": (line("1", "42"), {"fixed"}),
        "✓": (line("42", stop="solved"), {"right at first"}),
        "✓✗": (line("42", "1"), {"right at first", "broken"}),
        "✗✓✗": (line("1", "42", "1"), {"fixed", "broken"}),
        "✗∅": (fallback, {"unsolved", "fall-back"}),
        "✗": ((withheld,), {"unsolved", "leaked", "withheld", "errors"}),
        "?": (line("?", stop="ungraded"), {"not graded"}),
        "✗?": (line("1", "?", stop="ungraded"), {"unsolved", "not graded"}),
    }
    run = run_index(write(tmp_path, [turns for turns, _ in episodes.values()]))
    assert run["verdicts"] == list(episodes)
    assert named(run["set"], FLAGS) == [expected for _, expected in episodes.values()]


def test_tokens_are_apart_from_the_conversation(tmp_path):
    write(tmp_path, [line("1", "42"), line("42"), line("1")])
    full = [row("attempt", 0, -0.5, "so", " 1"), row("distill", 1, 0.25, "so", "\n42")]
    means = [{"parts": row("attempt", 0, 0.0, "so")["parts"]}]
    rows = {"u1-0": full, "u1-1": means}
    lines = [{"step": 1, "uid": u, "session_id": 0, "rows": r} for u, r in rows.items()]
    write_rows(tmp_path, 1, lines)
    index, parts = unpacked(written(tmp_path))
    (block,) = index["runs"][0]["blocks"]
    first, second, third = parts.pop(f"0/{block}")
    assert parts == {f"0/{first['tokens']}": [each["tokens"] for each in full]}
    assert "tokens" not in second
    assert "rows" not in third
    assert [each["parts"][0]["what"] for each in first["rows"]] == ["attempt 1", "attempt 2"]
    assert named(index["runs"][0]["trains"], TRAINED) == [
        {"tokens known", "trains attempt", "trains distill"},
        {"trains attempt"},
        set(),
    ]
    assert set(index["roles"]) == {name.removeprefix("trains ") for name in TRAINED[1:]}


def test_charts_have_the_numbers_of_stats_and_how_many_are_behind_them(tmp_path):
    write(tmp_path, [line("1", "42"), line("1")])
    write(tmp_path, [line("1", "42"), line("42", "1", "42")], step=2)
    write(tmp_path, [line("1", "42"), line("42", "1")], step=2, validate=True)
    charts = {chart["label"]: chart for chart in run_index(tmp_path)["charts"]}
    # No episode of step 1 has a third turn: its last answer stands.
    assert charts["Right after turn 3"]["train"] == [[1, 0.5, 2], [2, 1.0, 2]]
    assert charts["Broken"]["val"] == [[2, 0.5, 2]]
    assert charts["Leaks"]["train"] == [[1, 0.0, 1], [2, 0.0, 3]]


def test_a_number_that_json_has_no_form_for_is_a_word():
    assert json.loads(as_json({"a": [float("nan"), 1.0], "b": (float("-inf"),)})) == {
        "a": ["nan", 1.0],
        "b": ["-inf"],
    }


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_nowhere_in_the_markup(tmp_path, text):
    hint = type(HINT)(text, text, leak=text, original=text)
    episode = (turn(text, hint), turn(text, stop="horizon", prompt=text))
    logs = (
        write(tmp_path / "hostile", [episode], question=text, env=text),
        write(tmp_path / "plain", [line("1", "2")]),
    )
    for log, token in zip(logs, (text, "a"), strict=True):
        rows = [row("attempt", 0, 1.0, token)]
        write_rows(log, 1, [{"step": 1, "uid": "u1-0", "session_id": 0, "rows": rows}])
    hostile, plain = written(logs[0], title=text), written(logs[1])
    assert re.findall(r"<(\w+)", hostile) == re.findall(r"<(\w+)", plain)
    assert hostile.count("</script>") == plain.count("</script>")


def test_only_our_script_may_run_and_nothing_is_fetched(tmp_path):
    text = written(write(tmp_path, [line("1")]))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
    hashes = []
    for what, tag in (("script-src", "script"), ("style-src", "style")):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.S)[1]
        sha = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        hashes.append(f"{what} 'sha256-{sha}'")
    assert policy == "; ".join(["default-src 'none'", *hashes])
    # The name of SVG is no address.
    assert set(re.findall(r"https?://[^\"\s]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\s(src|href)=\"(?!#)", text)


def test_the_command_writes_several_runs_into_one_page(tmp_path):
    write(tmp_path / "grpo" / "checkpoints" / "episodes", [line("1", "42"), line("1", "2")])
    write(tmp_path / "sd" / "ck" / "episodes", [line("42")])
    out, folders = tmp_path / "both.html", (tmp_path / "grpo", tmp_path / "sd" / "ck")
    ran("view", *folders, "-o", out)
    index, _ = unpacked(out.read_text("utf-8"))
    assert index["title"] == "grpo, sd"
    assert [run["name"] for run in index["runs"]] == ["grpo", "sd"]
    assert [run["verdicts"] for run in index["runs"]] == [["✗✓", "✗✗"], ["✓"]]


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (("nowhere", "-o", "p.html"), "no such folder"),
        (("log", "-o", "no/p.html"), "No such file"),
        (("empty", "-o", "p.html"), "no episodes"),
        (("begun", "-o", "p.html"), "no episodes"),
        ((), "--example"),
        (("log", "--example"), "--example"),
    ],
)
def test_a_mistake_of_the_command_is_one_line(tmp_path, monkeypatch, words, cause):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "log", [line("1")])
    (tmp_path / "empty").mkdir()
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "00000001.train.w.jsonl").touch()
    assert cause in refused("view", *words)


def test_the_example_is_in_the_package_and_needs_no_torch(tmp_path):
    code = (
        "import sys; from rltf_verl.tools.cli.app import app;"
        "app(['view', '--example'], standalone_mode=False);"
        "assert not {'torch', 'verl', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    index, parts = unpacked((tmp_path / "view.html").read_text("utf-8"))
    assert index["runs"][1]["warnings"]
    assert {record["env"] for record in parts["0/block/1.train"]} == {"workspace", "binary_matrix"}


def test_a_followed_page_is_written_again_until_ctrl_c(tmp_path, monkeypatch):
    log, out, seen = tmp_path / "log", tmp_path / "p.html", []
    log.mkdir()

    def while_it_waits(seconds):
        assert seconds >= view_command.RELOAD_S
        if out.exists():
            index, _ = unpacked(out.read_text("utf-8"))
            seen.append((index["reload_s"], len(index["runs"][0]["step"])))
        if len(seen) == 2:
            raise KeyboardInterrupt
        write(log, [line("1")], step=len(seen) + 1)

    monkeypatch.setattr(
        view_command, "time", SimpleNamespace(process_time=lambda: 0, sleep=while_it_waits)
    )
    ran("view", log, "-o", out, "--follow")
    assert seen == [(view_command.RELOAD_S, 1), (view_command.RELOAD_S, 2)]
    index, _ = unpacked(out.read_text("utf-8"))
    assert index["reload_s"] is None
    assert sorted(tmp_path.iterdir()) == [log, out]


def test_a_page_has_the_metrics_of_its_own_run_and_an_evaluation_has_none(tmp_path):
    for name in ("sd", "grpo"):
        write_metrics(tmp_path / f"{name}.jsonl", [(1, trained())])
    own, other = (write(tmp_path / name / "episodes", [line("1")]) for name in ("sd", "raft"))
    assert metrics_near(own) == (tmp_path / "sd.jsonl",)
    assert metrics_near(other) == ()
    (own.parent / EVALUATION).write_text("{}")
    assert metrics_near(own) == ()


def test_the_texts_of_an_episode_are_bounded(tmp_path):
    large, fits = ("<" + "x" * length + ">" for length in (5_000_000, limits.MOST_TEXT - 2))
    steps = acted("1", acts("so", large, what=large))
    (record,) = records(tmp_path, [[turn("1", text=large), turn("1", text=fits), steps]])
    long, whole, acting = conversation(record, "")["turns"]
    (step,) = acting["steps"]
    (_, given), result = step["calls"][0], step["results"][0]
    for text in (long["text"], given["what"], result["observation"]):
        assert len(text) < limits.MOST_TEXT + 200
    assert (long["text"][0], long["text"][-1]) == ("<", ">")
    assert "4900002 characters" in long["text"]
    assert whole["text"] == fits


@pytest.mark.parametrize("lengths", [(5,), (100_000,), (9_000, 15_000, 30), (50_000,) * 4])
def test_the_tokens_of_an_episode_are_bounded(lengths, tmp_path):
    (record,) = records(tmp_path, [line("1")], step=3)
    rows = [row("attempt", 0, 1.0, *(f" {k}" for k in range(n))) for n in lengths]
    columns = with_rows(record, *rows)
    record["rows"] += [row("attempt", 0, 1.0, "x" * 2_000_000), {"parts": []}]
    *shown, large, unknown = tokens(record)
    assert unknown is None
    assert len(large["text"][0]) < limits.MOST_TOKEN + 200
    assert sum(len(each["text"]) for each in shown) <= limits.MOST_EPISODE_TOKENS
    for each, whole in zip(shown, columns, strict=True):
        gap = each.pop("left_out", {"at": 0, "number": 0, "note": "--step 3"})
        at, number = gap["at"], gap["number"]
        assert each == {name: column[:at] + column[at + number :] for name, column in whole.items()}
        assert bool(number) == (len(whole["text"]) > max(map(len, (e["text"] for e in shown))))
        assert "--step 3" in gap["note"]
