"""The viewer's page as a file: what is in it comes back unchanged, and nothing in it can act."""

import base64
import gzip
import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.tools.report.row_words import names
from rltf_verl.tools.report.stats import stats
from rltf_verl.tools.report.view import build as view
from rltf_verl.tools.report.view import limits
from rltf_verl.tools.report.view.build import page
from rltf_verl.tools.report.view.curves import curves, totals
from rltf_verl.tools.report.view.index import FLAGS, TRAINED
from tests.support.commands import rltf
from tests.support.log_records import (
    EMPTY,
    HINT,
    HOSTILE,
    LEAKY,
    line,
    records,
    row,
    turn,
    with_rows,
    write,
)

FALLBACK = type(EMPTY)(EMPTY.text, "correctness", fallback=True)
TREE = (turn("1"), turn("42", parent=0, stop="solved"), turn("2", parent=0, stop="horizon"))


def unpacked(text):
    """What the page's script reads."""
    found = re.findall(r'<script type="text/plain" id="([\w-]+)">([A-Za-z0-9+/=]*)</script>', text)
    plain = {name: gzip.decompress(base64.b64decode(data)) for name, data in found}
    parts = {name: json.loads(data, parse_constant=pytest.fail) for name, data in plain.items()}
    return parts.pop("index"), parts


def test_everything_but_the_environment_s_fields_is_in_it(tmp_path):
    found = records(
        tmp_path, [line("1", "42"), TREE, *((turn(t, stop="horizon", text=t),) for t in HOSTILE)]
    )
    index, blocks = unpacked(page(found, "a title"))
    shown = [
        {k: v for k, v in record.items() if k != "task"} | {"names": names(record["turns"])}
        for record in found
    ]
    assert blocks == {"block-0": shown}
    assert index["title"] == "a title"
    assert index["step"] == [1] * len(found)


def test_blocks_are_found_by_their_first_episode(tmp_path, monkeypatch):
    found = records(tmp_path, [line(str(i)) for i in range(7)])
    monkeypatch.setattr(view, "BLOCK", 1 + len(json.dumps(found[0])))
    index, blocks = unpacked(page(found, "t"))
    assert index["starts"] == [0, 2, 4, 6]
    for start, name in zip(index["starts"], blocks, strict=True):
        assert blocks[name][0]["index"] == start
    assert sum(map(len, blocks.values())) == 7


def test_problems_of_concatenated_datasets_are_told_apart(tmp_path):
    for step, question in ((1, "6 times 7?"), (2, "43 - 1?"), (3, "6 times 7?")):
        write(tmp_path, [line("1")], step=step, question=question)
    index, _ = unpacked(page(read_episodes(tmp_path), "t"))
    first, other, again = index["asked"]
    assert first == again != other
    assert index["problem"] == [0, 0, 0]
    assert index["uid"] == ["u1-0", "u2-0", "u3-0"]


def test_what_the_list_is_filtered_by(tmp_path):
    episodes = {
        "✗✓": (line("1", "42"), {"fixed"}),
        "✓": (line("42", stop="solved"), {"right at first"}),
        "✓✗": (line("42", "1"), {"right at first", "broken"}),
        "✗✓✗": (line("1", "42", "1"), {"fixed", "broken"}),
        "✗∅": (
            (turn("1", FALLBACK), turn("", parent=0, stop="horizon")),
            {"unsolved", "fall-back"},
        ),
        "✗": (
            (turn("1", None, withheld=LEAKY, stop="feedback_unavailable", error="guard"),),
            {"unsolved", "leaked", "withheld", "errors"},
        ),
        "✗(✓|✗)": (TREE, {"fixed", "tree"}),
        "?": (line("?", stop="ungraded"), {"not graded"}),
        "✗?": (line("1", "?", stop="ungraded"), {"unsolved", "not graded"}),
    }
    index, _ = unpacked(page(records(tmp_path, [turns for turns, _ in episodes.values()]), "t"))
    assert index["verdicts"] == list(episodes)
    names = [{name for k, name in enumerate(FLAGS) if bits >> k & 1} for bits in index["set"]]
    assert names == [flags for _, flags in episodes.values()]


def test_what_is_trained_and_its_tokens_are_apart_from_what_was_said(tmp_path):
    known, means, unknown = records(tmp_path, [line("1", "42"), line("42"), line("1")])
    tokens = with_rows(
        known, row("attempt", 0, -0.5, "so", " 1"), row("distill", 1, 0.25, "so", "\n42")
    )
    with_rows(means, {"parts": row("attempt", 0, 0.0, "so")["parts"]})
    index, parts = unpacked(page([known, means, unknown], "t"))
    assert parts.pop("tokens-0") == tokens
    assert list(parts) == ["block-0"]
    first, second, third = parts["block-0"]
    assert [own["title"] for own in first["rows"]] == [
        "first prompt → attempt 1",
        "first prompt → attempt 2",
    ]
    assert [own["parts"][0]["what"] for own in first["rows"]] == ["attempt 1", "attempt 2"]
    assert not any("tokens" in own for own in first["rows"] + second["rows"])
    assert "rows" not in third
    trains = [{name for k, name in enumerate(TRAINED) if bits >> k & 1} for bits in index["trains"]]
    assert trains == [
        {"tokens known", "trains attempt", "trains distill"},
        {"trains attempt"},
        set(),
    ]
    assert set(index["roles"]) == {name.removeprefix("trains ") for name in TRAINED[1:]}


def test_the_attempts_own_ids_are_not_in_it(tmp_path):
    found = records(tmp_path, [line("1")])
    found[0]["turns"][0] |= {"prompt_ids": [1], "response_ids": [2], "log_probs": [-0.5]}
    _, blocks = unpacked(page(found, "t"))
    assert not {"prompt_ids", "response_ids", "log_probs"} & set(blocks["block-0"][0]["turns"][0])


def test_curves_are_the_numbers_of_stats(tmp_path):
    for step in (1, 2):
        write(
            tmp_path,
            [line("1", "42"), line("42", "1", "42") if step == 2 else line("1")],
            step=step,
        )
    found = records(tmp_path, [line("1", "42")], step=2, validate=True)
    drawn = {curve["label"]: curve for curve in curves(found)}
    assert drawn["First answer right"]["train"] == [(1, 0.0), (2, 0.5)]
    assert drawn["Right after turn 2"]["train"] == [(1, 0.5), (2, 0.5)]
    assert drawn["Right after turn 3"]["train"] == [
        (1, 0.5),
        (2, 1.0),
    ]  # nobody played it at step 1: what stands
    assert drawn["Fixed"]["train"] == [(1, 1.0), (2, 2 / 3)]
    assert drawn["Broken"]["val"] == [(2, 0.0)]
    assert drawn["Leaks"]["train"] == [(1, 0.0), (2, 0.0)]
    assert [s["sessions"] for s in totals(found)] == [4, 1]
    assert totals(found)[0]["friction"] == stats(found, "train").friction


def test_a_number_that_the_log_lacks_has_no_points(tmp_path):
    drawn = {
        curve["label"]: curve for curve in curves(records(tmp_path, [line("42", stop="solved")]))
    }
    assert (
        drawn["Words of feedback"]["train"]
        == drawn["Fixed"]["train"]
        == drawn["Fixed"]["val"]
        == []
    )


def test_a_number_that_a_browser_cannot_read(tmp_path):
    found = records(tmp_path, [line("1")])
    found[0]["turns"][0]["reward"] = float("nan")
    _, blocks = unpacked(page(found, "t"))  # fails on NaN
    assert blocks["block-0"][0]["turns"][0]["reward"] == "nan"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_nowhere_in_the_markup(tmp_path, text):
    hint = type(HINT)(text, text, leak=text, original=text)
    episode = (turn(text, hint), turn(text, parent=0, stop="horizon", prompt=text))
    found, other = (
        records(tmp_path, [episode], question=text, env=text),
        records(tmp_path / "plain", [line("1", "2")]),
    )
    with_rows(found[0], row("attempt", 0, 1.0, text))
    with_rows(other[0], row("attempt", 0, 1.0, "a"))
    written, plain = page(found, text), page(other, "t")
    assert re.findall(r"<(\w+)", written) == re.findall(r"<(\w+)", plain)
    assert written.count("</script>") == plain.count("</script>")


def test_only_our_script_may_run_and_nothing_is_fetched(tmp_path):
    written = page(records(tmp_path, [line("1")]), "t")
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', written)[1]
    found = {
        "script-src": re.search(r"<script>(.*?)</script>", written, re.S)[1],
        "style-src": re.search(r"<style>(.*?)</style>", written, re.S)[1],
    }
    told = {
        what: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for what, text in found.items()
    }
    assert policy == "default-src 'none'; " + "; ".join(
        f"{what} 'sha256-{sha}'" for what, sha in told.items()
    )
    assert set(re.findall(r"https?://[^\"\s]+", written)) == {
        "http://www.w3.org/2000/svg"
    }  # a name, not an address
    assert not re.search(r"\s(src|href)=\"(?!#)", written)


def test_text_reaches_the_page_as_text_only():
    assets = Path(str(files("rltf_verl.tools.report") / "page")).rglob("*.*")
    for asset in assets:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function",
            asset.read_text("utf-8"),
        ), asset.name


def test_the_command(tmp_path):
    write(tmp_path / "log", [line("1", "42"), TREE])
    out = tmp_path / "page.html"
    result = rltf("view", tmp_path / "log", "-o", out, "--title", "<my> run")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("2 episodes, ")
    assert "<title>&lt;my&gt; run</title>" in out.read_text("utf-8")
    assert unpacked(out.read_text("utf-8"))[0]["verdicts"] == ["✗✓", "✗(✓|✗)"]


@pytest.mark.parametrize(
    ("log", "out", "told"),
    [("nowhere", "p.html", "no such folder"), ("log", "no/p.html", "No such file")],
)
def test_what_a_user_can_mend_is_one_line(tmp_path, log, out, told):
    write(tmp_path / "log", [line("1")])
    result = rltf("view", tmp_path / log, "-o", tmp_path / out)
    assert result.exit_code == 1
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "lengths", [(5_000_000,), (1_000_000, 4_000_000), (250_000,) * 20, (40,) * 300, (100_000,) * 3]
)
def test_what_the_page_holds_of_an_episode_is_bounded(lengths, tmp_path):
    """5 MB in one episode is what a browser does not lay out in minutes."""
    said = [
        turn("1", parent=k - 1 if k else None, text=f"<{k}{'x' * n}{k}>")
        for k, n in enumerate(lengths)
    ]
    found = records(tmp_path, [said], question="q" * 500)
    (shown,) = unpacked(page(found, "t"))[1]["block-0"]
    texts = [one["text"] for one in shown["turns"]]
    assert sum(map(len, texts)) <= limits.MOST_EPISODE + 300 * len(texts)
    for k, (length, text) in enumerate(zip(lengths, texts, strict=True)):
        assert text.startswith(f"<{k}")
        assert text.endswith(f"{k}>")
        whole = length + 2 + 2 * len(str(k))
        assert (
            len(text) == whole
            or f"characters are not on this page: rltf inspect LOG --step {shown['step']}" in text
        )
    if sum(lengths) < limits.MOST_EPISODE - 10_000:
        assert "not on this page" not in "".join(texts)
    assert shown["question"] == "q" * 500


@pytest.mark.parametrize("lengths", [(5,), (100_000,), (9_000, 15_000, 30), (50_000,) * 4])
def test_what_the_page_holds_of_the_tokens_is_bounded(lengths, tmp_path):
    (record,) = records(tmp_path, [line("1")], step=3)
    rows = [row("attempt", 0, 1.0, *(f" {k}" for k in range(n))) for n in lengths]
    columns = [*with_rows(record, *rows), None]
    record["rows"].append({"parts": []})
    shown = unpacked(page([record], "t"))[1]["tokens-0"]
    assert shown.pop() is columns.pop() is None
    assert sum(len(own["text"]) for own in shown) <= limits.MOST_EPISODE_TOKENS
    for own, whole in zip(shown, columns, strict=True):
        gap = own.pop("left_out", {"at": len(own["text"]), "number": 0})
        at, number = gap["at"], gap["number"]
        assert own == {name: column[:at] + column[at + number :] for name, column in whole.items()}
        assert len(own["text"]) <= limits.MOST_TOKENS
        if number:
            assert gap["note"] == (
                f"[… {number} tokens are not on this page: rltf inspect LOG --step 3 prints them …]"
            )
    if sum(lengths) <= limits.MOST_EPISODE_TOKENS and max(lengths) <= limits.MOST_TOKENS:
        assert shown == columns


def test_a_token_with_a_text_of_megabytes_is_bounded(tmp_path):
    (record,) = records(tmp_path, [line("1")])
    with_rows(record, row("attempt", 0, 1.0, "a", "x" * 2_000_000, "b"))
    (shown,) = unpacked(page([record], "t"))[1]["tokens-0"]
    assert shown["text"][0] == "a"
    assert len(shown["text"][1]) < limits.MOST_TEXT + 200
    assert "characters are not on this page" in shown["text"][1]
