"""What the soak calls wrong, on logs and samples made by hand."""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

import pytest

from benchmarks.soak import STALL_S, Soak, first_step
from benchmarks.soak_checks import broken_lines, problems_by_step, wrong_steps
from tests.e2e import runs

ORDER = [[4, 7], [1, 2]]


def _played(*places: tuple[int, int, int]) -> list[dict[str, object]]:
    return [{"split": "train", "step": s, "index": i, "session_id": n} for s, i, n in places]


WHOLE = _played((1, 4, 0), (1, 7, 0), (2, 1, 0), (2, 2, 0))


def test_a_run_that_played_each_episode_once_is_right() -> None:
    validation = [{"split": "val", "step": 1, "index": 0, "session_id": 0}]
    assert wrong_steps(problems_by_step(WHOLE + validation), ORDER, n=1) == []


def test_missing_repeated_and_foreign_episodes_are_found() -> None:
    for records, trouble in (
        (WHOLE[:3], ["step 2: 1 episodes missing, 0 extra"]),
        ([*WHOLE, WHOLE[0]], ["step 1: 0 episodes missing, 1 extra"]),
        ([*WHOLE[:3], *_played((2, 9, 0))], ["step 2: 1 episodes missing, 1 extra"]),
    ):
        assert wrong_steps(problems_by_step(records), ORDER, n=1) == trouble


def test_half_lines_are_found_also_in_what_was_set_aside(tmp_path: Path) -> None:
    (tmp_path / "superseded").mkdir()
    good = json.dumps({"a": 1})
    (tmp_path / "00000001.train.w.jsonl").write_text(f"{good}\n{good}\n")
    assert broken_lines(tmp_path) == []
    (tmp_path / "superseded" / "00000002.rows.trainer.jsonl").write_text(f'{good}\n{{"a": \n')
    assert broken_lines(tmp_path) == ["00000002.rows.trainer.jsonl:2"]


def test_a_run_that_ends_before_its_first_step_is_not_started_again(tmp_path: Path) -> None:
    soak = Soak(tmp_path, tmp_path / "disk", random.Random(0), {}, can_fill=False)
    program = "print('settings refused'); raise SystemExit(3)"
    soak.run = runs.launch(tmp_path / "run", [sys.executable, "-c", program])
    with pytest.raises(SystemExit, match=r"settings refused\n(.|\n)*status 3"):
        first_step(soak)


def test_a_run_that_makes_no_step_stalls_across_faults(tmp_path: Path) -> None:
    soak = Soak(tmp_path, tmp_path / "disk", random.Random(0), {}, can_fill=False)
    soak.progress = 0, time.monotonic() - STALL_S - 1
    assert soak.stalled()
    soak.episodes.mkdir(parents=True)
    (soak.episodes / "00000001.train.w.jsonl").write_text("{}\n")
    assert not soak.stalled()
