"""`rltf log tail`, `grep` and `stats`."""

import json
import re

from rich.console import Console

from rltf_verl.runlog.turns import compiled, grep
from rltf_verl.tools.report.terminal.console import show_hit
from tests.support.commands import ran, refused, rltf
from tests.support.log_records import LEAKY, line, records, turn, write


def test_tail_prints_the_newest_one_line_each(tmp_path):
    write(tmp_path, [line("1", "42"), line("3")], step=1)
    write(
        tmp_path,
        [line("\x1b[31m4\n2 [bold]"), (turn("1"), turn("42", parent=0), turn("2", parent=0))],
        step=12,
    )
    result = ran("log", "tail", tmp_path, "-n", 3)
    assert [re.sub(r" +", " ", shown) for shown in result.stdout.splitlines()] == [
        "step 1 train sums 1/0 ✗ horizon 3",
        "step 12 train sums 0/0 ✗ horizon \N{REPLACEMENT CHARACTER}[31m4 2 [bold]",
        "step 12 train sums 1/0 ✗(✓|✗) 2",
    ]


def test_grep_finds_attempts_feedback_and_what_was_withheld(tmp_path):
    episodes = [
        line("1", "42"),
        (turn("7", None, withheld=LEAKY, stop="feedback_unavailable", text="a\nit is\u2028x"),),
    ]
    logged = records(tmp_path, episodes)
    hits = [
        (h.record["index"], h.turn, h.where, h.line, h.spans)
        for h in grep(logged, compiled("it is|row"))
    ]
    assert hits == [
        (0, 1, "feedback", "look at row two", ((8, 11),)),
        (1, 1, "attempt", "it is\u2028x", ((0, 5),)),
        (1, 1, "withheld", "it is 42", ((0, 5),)),
    ]


def test_grep_marks_the_match_and_shortens_a_long_line(tmp_path):
    (hit,) = grep(
        records(tmp_path, [(turn("1", None, text="x" * 50_000 + "[red]needle" + "y" * 50_000),)]),
        compiled("needle"),
    )
    shown = Console(force_terminal=True, color_system="standard", width=120)
    with shown.capture() as capture:
        show_hit(hit, shown)
    assert "[red]\x1b[1;31mneedle\x1b[0m" in capture.get()
    assert len(capture.get()) < 600
    assert capture.get().count("\n") == 1
    assert "step 1 train sums 0/0 attempt 1: " in capture.get()


def test_grep_command(tmp_path):
    write(tmp_path, [line("1", "42")], step=3)
    result = rltf("log", "grep", "so 4", tmp_path)
    assert (result.exit_code, result.stdout) == (0, "step 3 train sums 0/0 attempt 2: so 42\n")
    assert rltf("log", "grep", "nowhere", tmp_path).exit_code == 1
    assert "a regular expression of Python is needed" in refused("log", "grep", "(", tmp_path)


def test_stats_command(tmp_path):
    for step in range(1, 31):
        write(tmp_path, [line("1", "42"), line("1", "2")], step=step)
    write(tmp_path, [line("42", stop="solved")], step=30, validate=True)
    ranges = json.loads(rltf("log", "stats", tmp_path, "--json").stdout)
    assert [(s["split"], s["first_step"], s["last_step"]) for s in ranges] == [
        *(("train", first, first + 5) for first in range(1, 31, 6)),
        ("val", 30, 30),
    ]
    first, last = ranges[0], ranges[-1]
    assert (first["mean"]["turn_2/revisions/fixed"], first["num"]["turn_2/acc"]) == (0.5, 12)
    assert "feedback/words" not in last["mean"]
    shown = rltf("log", "stats", tmp_path, "--every", 30).stdout
    assert "…" not in rltf("log", "stats", tmp_path, columns=100).stdout
    for part in ("1–30", "0.5", "friction", "ended: horizon", "ended: solved"):
        assert part in shown
