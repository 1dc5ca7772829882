"""A probe's numbers and rules, on episodes and shares whose numbers are plain to see."""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.config import RLTFConfig
from rltf_verl.feedback.judge_prompt import STYLES
from rltf_verl.tools.cli.common import parse_options
from rltf_verl.tools.report.evaluation.bootstrap import Estimate, Ratio, estimates
from rltf_verl.tools.report.probe.measures import (
    LABELS,
    Measured,
    Reader,
    TrainingRun,
    chance_all_equal,
    measure,
)
from rltf_verl.tools.report.probe.rules import (
    RIGHTED,
    FeedbackSetting,
    Probe,
    advise,
    expected,
)
from tests.support.log_records import EMPTY, HINT, LEAKY, line, records, turn

RUN = TrainingRun(problems=32, sessions=2, prompt_tokens=10, answer_tokens=8)
READER = Reader(
    tells=lambda record, feedback, attempt: "42" in feedback, mentions=lambda text: "hint" in text
)
JUDGE = FeedbackSetting(
    "judge", {"style": "hint", "reference": None}, "drop", False, "guide", "fresh"
)
PRESETS = Path(__file__).parents[3] / "hydra_configs" / "rltf_verl"


def measured(tmp_path: Path, *episodes: Any, run: TrainingRun = RUN) -> Mapping[str, Estimate]:
    """Every two episodes are a group, and a problem."""
    logged = records(tmp_path, episodes)
    for k, record in enumerate(logged):
        record["uid"] = record["question"] = f"q{k // 2}"
    return measure(logged, run, READER).shares


def values(shares: Mapping[str, Estimate], *names: str) -> list[float | None]:
    return [shares[name].value for name in names]


def test_answers_and_groups_by_hand(tmp_path: Path) -> None:
    shares = measured(
        tmp_path,
        line("1", "42"),
        line("42", stop="solved"),  # one right, one mended
        line("1", "1"),
        line("1", "2"),  # all wrong
        line("42", "1"),
        line("42", "42"),  # all right, one spoiled
    )
    assert values(shares, "first_right", "second_right", "improvement") == pytest.approx(
        [3 / 6, 3 / 6, 0]
    )
    assert values(shares, "dead_groups", "all_wrong_groups", "all_right_groups") == pytest.approx(
        [2 / 3, 1 / 3, 1 / 3]
    )
    assert values(shares, "wrong_changed", "corrected", "spoiled") == pytest.approx(
        [2 / 3, 1 / 3, 1 / 2]
    )
    assert shares["corrected"].cases == 3


def test_feedback_by_hand(tmp_path: Path) -> None:
    """Two hints, one empty text, one leak that was read; one leak that was withheld; one
    failure.
    """
    withheld = turn("1", stop="feedback_unavailable", withheld=LEAKY, error="dropped")
    failed = turn("1", stop="feedback_unavailable", error="down")
    shares = measured(
        tmp_path,
        line("1", "2"),
        line("1", "2"),
        line("1", "2", feedback=EMPTY),
        line("1", "42", feedback=LEAKY),
        (withheld,),
        (failed,),
    )
    assert values(shares, "tells", "reaches") == pytest.approx([2 / 5, 1 / 4])
    assert values(shares, "withheld", "failed", "says_nothing") == pytest.approx(
        [1 / 5, 1 / 6, 1 / 5]
    )
    assert values(shares, "guard_found") == pytest.approx([2 / 4]), "nobody looked at the empty one"


def test_what_the_guard_mended_was_told_all_the_same(tmp_path: Path) -> None:
    mended = replace(HINT, text="it is […]", original="it is 42", leak="answer: 42")
    shares = measured(tmp_path, line("1", "2", feedback=mended), line("1", "2"))
    assert values(shares, "tells", "reaches") == [1 / 2, 0]


def test_budgets_by_hand(tmp_path: Path) -> None:
    """A prompt has one token here; a second one that did not fit is counted as too long."""
    cut = (turn("1"), turn("2", stop="horizon", ended=False, text="as the hint says"))
    over = measured(
        tmp_path, cut, line("1", stop="prompt_too_long"), run=replace(RUN, prompt_tokens=1)
    )
    assert values(over, "truncated", "over_budget", "mentions") == pytest.approx([1 / 3, 1 / 2, 1])
    measured_here = measure(records(tmp_path / "b", [cut]), RUN, READER)
    assert measured_here.lengths["feedback_words"].median == 4
    assert (
        measure(records(tmp_path / "c", [line("42")]), RUN, READER).lengths["later_prompt_tokens"]
        is None
    )


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=7), st.data())
def test_smaller_groups_by_enumeration(rewards: list[float], data: st.DataObject) -> None:
    num = data.draw(st.integers(2, len(rewards)))
    equal = [len(set(group)) == 1 for group in combinations(rewards, num)]
    assert chance_all_equal(rewards, num) == pytest.approx(sum(equal) / len(equal))


def probe(setting: FeedbackSetting = JUDGE, **shares: float | None) -> Probe:
    """A healthy one at 100 problems, but for what is told."""
    usual = dict.fromkeys(LABELS, 0.0) | {
        "first_right": 0.4,
        "first_format": 0.95,
        "wrong_changed": 0.9,
        "corrected": 0.7,
        "dead_groups": 0.2,
    }
    by_name = {
        name: Estimate(None, None, None, 0)
        if value is None
        else Estimate(value, max(0.0, value - 0.03), min(1.0, value + 0.03), 100, 200)
        for name, value in {**usual, **shares}.items()
    }
    return Probe(Measured(100, 200, 100, by_name, {"later_prompt_tokens": None}), RUN, setting)


FIRES: dict[str, tuple[Probe, bool]] = {
    "never_right": (probe(all_wrong_groups=0.95, corrected=0.0), True),
    "always_right": (probe(all_right_groups=0.95), True),
    "dead_groups": (
        probe(all_wrong_groups=0.5, all_right_groups=0.45, dead_groups=0.95, corrected=0.0),
        True,
    ),
    "feedback_tells": (probe(tells=0.6, reaches=0.6), True),
    "nothing_changes": (probe(wrong_changed=0.03, corrected=0.0), True),
    "no_answer": (probe(first_format=0.2), True),
    "cut_off": (probe(truncated=0.5), True),
    "too_long": (probe(over_budget=0.5), True),
    "feedback_fails": (probe(failed=0.5), True),
    "says_nothing": (probe(says_nothing=0.9), False),
    "mentions": (probe(mentions=0.3), False),
}


def rules(played: Probe, level: str) -> list[str]:
    return [finding.key for finding in advise(played)[1] if finding.level == level]


@pytest.mark.parametrize("rule", FIRES)
def test_a_rule_fires_where_it_should(rule: str) -> None:
    played, blocks = FIRES[rule]
    verdict, _, inconclusive = advise(played)
    assert rules(played, "error") == [rule] * blocks
    assert [key for key in rules(played, "note") if key != "preset"] == [rule] * (not blocks)
    assert verdict == ("change first" if blocks else "go")
    assert not inconclusive


def test_an_interval_decides() -> None:
    three_agree = estimates({"": Ratio(np.ones(3), np.ones(3))})[""]
    for share, decided in (
        (Estimate(0.9, 0.85, 0.95, 20, 20), "holds"),
        (Estimate(0.9, 0.75, 0.95, 20, 20), "inconclusive"),
        (Estimate(0.1, 0.05, 0.15, 20, 20), "fails"),
        (three_agree, "inconclusive"),
    ):
        measured = replace(probe().measured, shares={"all_wrong_groups": share})
        assert replace(probe(), measured=measured).decide("never_right") == decided


@pytest.mark.parametrize(
    ("shares", "config"),
    [
        ({}, "rltf_sd"),
        ({"corrected": 0.3}, "rltf_sd"),
        ({"corrected": 0.0, "dead_groups": 0.9}, "rltf_fm"),
        ({"corrected": 0.0}, "rltf_grpo_single"),
    ],
)
def test_presets(shares: dict[str, float], config: str) -> None:
    (preset,) = [finding for finding in advise(probe(**shares))[1] if finding.key == "preset"]
    assert preset.fix.startswith(f"begin with --config-name={config}")


def test_copies_recommend_nothing_and_a_policy_cannot_leak() -> None:
    telling = {"tells": 0.9, "reaches": 0.9, "all_wrong_groups": 0.95}
    copying = probe(**telling)
    assert rules(copying, "error") == ["never_right", "feedback_tells"], "copies are no progress"
    assert rules(copying, "note") == []
    meant = replace(JUDGE, provider="verifier", guard="none", acknowledged=True)
    assert advise(probe(setting=meant, **telling))[0] == "go"
    policy = probe(setting=replace(JUDGE, provider="policy"), **telling)
    assert "feedback_tells" not in rules(policy, "error") + rules(policy, "note")


def test_a_gain_is_expected_where_feedback_on_other_problems_rights_answers() -> None:
    others = replace(JUDGE, provider="shuffled")

    def of(setting: FeedbackSetting = others, **shares: float | None) -> Any:
        return expected(probe(setting=setting, **shares))

    some, all_wrong = of(corrected=0.5), of(corrected=0.9, first_right=0.0)
    assert (some.value, all_wrong.value) == pytest.approx((0.4 + 0.6 * RIGHTED, RIGHTED))
    assert 0.4 < some.low < some.value < some.high <= 1
    assert of(corrected=0.31) is None, "its interval begins below"
    assert of(corrected=None) is of(first_right=None) is None
    assert of(JUDGE) is None, "feedback on the same problem may help with no other"


def test_open_questions() -> None:
    verdict, _, inconclusive = advise(probe(wrong_changed=None, corrected=None))
    assert (verdict, list(inconclusive)) == ("too few episodes", ["nothing_changes"])
    assert [*advise(probe(all_wrong_groups=0.79))[2]] == ["never_right"]


def test_every_fix_names_keys_that_exist() -> None:
    """Each `rltf.…=value` is read by the config, each preset is a file, each style and level is
    one.
    """
    settings = [
        JUDGE,
        replace(JUDGE, guard="none", revise="critique", options={"endpoint": {}}),
        FeedbackSetting("correctness", {}, "none", False, "guide", "fresh"),
        *(
            FeedbackSetting("verifier", {"level": level}, "none", acknowledged, "guide", "fresh")
            for level in ("verdict", "location", "hint", "full")
            for acknowledged in (True, False)
        ),
    ]
    fixes = " ".join(
        finding.fix
        for fires, _ in FIRES.values()
        for setting in settings
        for finding in advise(replace(fires, setting=setting))[1]
    )
    for name in set(re.findall(r"--config-name=(\w+)", fixes)):
        assert (PRESETS / f"{name}.yaml").is_file(), name
    words = set(re.findall(r"rltf\.([\w.]+=[\w.-]+)", fixes))
    assert len(words) > 8
    for word in words:
        block = {"feedback": {"provider": "judge"}, "env": {"name": "binary_matrix"}}
        config = RLTFConfig.from_mapping(block | parse_options([word, "feedback.provider=judge"]))
        assert config.feedback.provider.options.get("style", "hint") in STYLES
