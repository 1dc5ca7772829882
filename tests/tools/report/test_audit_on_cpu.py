"""What feedback was worth, on episodes whose numbers are plain to see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.tools.report.audit import Audit, audit, says_nothing
from rltf_verl.types import Feedback
from tests.support.commands import ran, rltf
from tests.support.log_records import line, records, turn, write

JUDGE = Feedback("carry the one please", "judge", latency_s=2.0, leak="")
LEAKY = replace(JUDGE, text="it is 42", leak="answer: 42", latency_s=4.0)
FIXED = Feedback("Your previous attempt was incorrect.", "correctness")
EPISODES = [
    (turn("41", JUDGE), turn("42", None, parent=0)),  # better
    (turn("41", JUDGE), turn("41 ", None, parent=0)),  # unchanged
    (turn("42", JUDGE), turn("40", None, parent=0)),  # worse
    (
        turn("41", replace(JUDGE, text="other words", leak="answer: 42", original="it is 42")),
        turn("42", None, parent=0),
    ),
    (turn("41", None, withheld=LEAKY),),  # dropped, the episode ended
    (
        turn("41", replace(FIXED, fallback=True), withheld=LEAKY),
        turn("40", None, parent=0),
    ),  # dropped and replaced
    (turn("41", replace(FIXED, fallback=True)), turn("40", None, parent=0)),  # the judge was down
    (turn("41", FIXED), turn("42", None, parent=0), turn("41", None, parent=0)),  # two revisions
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    write(tmp_path, EPISODES[:4], step=1)
    return write(tmp_path, EPISODES[4:], step=2)


def test_known_numbers(log: Path) -> None:
    fallback, fixed, judge = sorted(audit(read_episodes(log)), key=lambda a: (a.num, a.provider))
    assert judge == Audit(
        "judge",
        6,
        leaks=0.5,
        withheld=1 / 3,
        words=3.5,
        no_op=0.0,
        changed=0.75,
        better=2 / 3,
        worse=1.0,
        latency_s=(4 * 2 + 2 * 4) / 6,
    )
    assert (fixed.provider, fixed.num, fixed.leaks, fixed.no_op) == (
        "correctness (fall-back)",
        1,
        None,
        1.0,
    )
    assert (fallback.provider, fallback.changed, fallback.better, fallback.worse) == (
        "correctness",
        0.5,
        0.5,
        None,
    )


def test_the_command(log: Path) -> None:
    result = ran("feedback", "audit", log)
    for part in ("judge", "correctness (fall-back)", "50.0 %", "66.7 %", "–", "no-op"):
        assert part in result.stdout
    assert "correctness" not in rltf("feedback", "audit", log, "--step", "1").stdout


def test_an_ungraded_attempt_is_neither_better_nor_worse(tmp_path: Path) -> None:
    (part,) = audit(records(tmp_path, [line("41", "?", stop="ungraded")]))
    assert (part.num, part.changed, part.better, part.worse) == (1, None, None, None)


EMPTY = [
    "",
    "Your answer is wrong.",
    "It was incorrect. Please try again.",
    "Let's try again!",
    "That is wrong…",
    "Your previous attempt was not correct",
]


FULL = ["Your answer is wrong in row 2.", "Carry the one.", "Almost!"]


@pytest.mark.parametrize("text", [*EMPTY, *FULL])
def test_empty_talk(text: str) -> None:
    assert says_nothing(text) == (text in EMPTY)
