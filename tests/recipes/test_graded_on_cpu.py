"""recipes/demo/graded.py: its arms pass the checks, grades are shares, the table."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rltf_verl.envs import make_env
from rltf_verl.types import Grade
from tests.recipes.composing import RECIPES, program, rltf_of_words


@pytest.fixture
def graded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(RECIPES / "demo"))
    module = program("demo/graded.py")
    monkeypatch.setattr(module, "RESULTS", tmp_path / "graded.jsonl")
    yield module
    for name in ("run_demo", "report"):
        sys.modules.pop(name, None)


def test_each_arm_passes_the_checks(graded: Any) -> None:
    baselines = {
        arm: rltf_of_words("rltf/env=binary_matrix", "rltf/feedback=verifier", *words).distill
        for arm, words in graded.ARMS.items()
    }
    sd = {arm: own.baseline for arm, own in baselines.items() if own.enabled}
    assert sd == {f"sd {name}": name for name in ("first_turn", "second_turn", "rejection")}


def test_a_grade_is_a_share_and_feedback_rights_one_row(graded: Any) -> None:
    env = make_env(graded.ENV)
    problem = env.build(0, 1, 1).train[0]
    rows = problem.reference.splitlines()
    wrong = ["4" * 3, "4" * 3, rows[2]]
    grade = env.grade(problem, "\\boxed{" + "\n".join(wrong) + "}")
    assert (grade.score, grade.correct, grade.format_ok) == (1 / 3, False, True)
    told = env.explain(problem, "\\boxed{" + "\n".join(wrong) + "}", grade, "full").split("/")
    digits = ["".join(c for c in row if c.isdigit()) for row in told]
    assert digits == [rows[0], wrong[1], wrong[2]]
    assert env.grade(problem, "none") == Grade(False, False, score=0.0)
    assert env.grade(problem, f"\\boxed{{{problem.reference}}}").score == 1.0


def test_the_table_has_means_and_seeds(graded: Any) -> None:
    ends = {"share 1": 0.5, "exact 1": 0.0, "share 2": 0.6, "exact 2": 0.1}
    lines = [
        json.dumps(
            {"arm": "sft", "seed": seed} | {k: [0.0, v + 0.1 * seed] for k, v in ends.items()}
        )
        for seed in (0, 1)
    ]
    graded.RESULTS.write_text("\n".join(lines) + "\n")
    assert graded.table().splitlines()[2:] == [
        "| sft | 0.55 (0.50 0.60) | 0.05 (0.00 0.10) | 0.65 (0.60 0.70) | 0.15 (0.10 0.20) |"
    ]
