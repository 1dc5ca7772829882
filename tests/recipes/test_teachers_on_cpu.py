"""recipes/demo/teachers.py: its arms pass the checks, controls differ in one thing, the table."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from rltf_verl.envs.knights_knaves import KnightsKnaves
from tests.recipes.composing import RECIPES, program, rltf_of_words


@pytest.fixture
def teachers(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(RECIPES / "demo"))
    module = program("demo/teachers.py")
    monkeypatch.setattr(module, "RESULTS", tmp_path / "teachers.jsonl")
    yield module
    for name in ("make_policy", "run_demo", "report"):
        sys.modules.pop(name, None)


def _line(arm: str, seed: int, rate: float, *held_out: float) -> str:
    return json.dumps({"arm": arm, "seed": seed, "rate": rate, "held_out": held_out}) + "\n"


def test_each_arm_passes_the_checks(teachers: Any) -> None:
    for arm, words in teachers.ARMS.items():
        rltf = rltf_of_words("rltf/env=knights_knaves", "rltf/feedback=verifier", *words)
        assert rltf.episode.horizon == 1, arm
        assert rltf.teacher.reads_other_problems == arm.endswith(teachers.CONTROL)


def test_a_control_has_the_rate_that_its_method_was_better_with(teachers: Any) -> None:
    tuning = list(islice(teachers.settings(), 2 * 6))
    assert {setting.seed for setting in tuning} == {teachers.TUNING_SEED}
    best = {"grpo": 2e-4, "opsd": 1e-3, "sdpo": 2e-4, "srpo": 1e-3, "rlsd": 2e-4, "rlcsd": 1e-3}
    lines = [_line(s.arm, s.seed, s.rate, 0.9, 0.5 + 0.1 * (s.rate == best[s.arm])) for s in tuning]
    teachers.RESULTS.write_text("".join(lines))
    later = list(teachers.settings())[len(tuning) :]
    long = [s.arm for s in later if s.steps == teachers.LONG]
    assert long == list(best)
    assert len(later) == 3 * len(teachers.ARMS) + len(long)
    assert all(s.rate == best[s.arm.removesuffix(teachers.CONTROL)] for s in later)


def test_the_table_has_the_seeds_and_not_the_tuning(teachers: Any) -> None:
    runs = [("grpo", 9, 0.0, 0.9), ("grpo", 1, 0.1, 0.2), ("grpo", 2, 0.2, 0.4)]
    teachers.RESULTS.write_text("".join(_line(a, seed, 1e-3, *h) for a, seed, *h in runs))
    assert teachers.table().splitlines()[2:] == ["| grpo | 0.001 | 0.15 | **0.30** | 0.20 0.40 |"]


def test_the_warm_up_answers_at_random_and_repeats_what_a_teacher_reads(teachers: Any) -> None:
    problems = KnightsKnaves(**teachers.SHAPE).build(0, 2000, 0).train
    right = {problem.data["quiz"]: problem.reference for problem in problems}
    drawn = list(islice(teachers.examples(0), 800))
    told = [(m[0]["content"], a) for m, a in drawn if m[0]["content"].startswith("!")]
    assert 300 < len(told) < 500
    assert all(a.removeprefix("\\boxed{")[:3] in prompt.splitlines()[0] for prompt, a in told)
    asked = [(m[0]["content"], a) for m, a in drawn if not m[0]["content"].startswith("!")]
    share = sum(a == f"\\boxed{{{right[question]}}}" for question, a in asked) / len(asked)
    assert 0.3 < share < 0.5, "0.3, and an eighth of the others"
