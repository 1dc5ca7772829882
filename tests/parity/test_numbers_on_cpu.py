"""`rltf parity` on numbers of the released code: no difference, and every kind of wrong number is
found.

tests/golden/parity_cases.json: outputs of the official functions at github.com/lili-chen/rltf
commit 22ddfd7d; its `meta` names them.
"""

import copy
import json
import math
from pathlib import Path

import pytest

from tools.parity.modes import PADDING_DEFECT
from tools.parity.report import Check, Report
from tools.parity.run import run_parity
from tools.parity.tables import EQUAL_RETURNS, LONE_TURN

GOLDEN = Path(__file__).parents[1] / "golden" / "parity_cases.json"


@pytest.fixture(scope="module")
def golden():
    return json.loads(GOLDEN.read_text())


def only(golden, *names):
    cases = [copy.deepcopy(c) for c in golden["cases"] if c["name"] in names]
    assert len(cases) == len(names)
    return {**golden, "cases": cases, "env_checks": {}}


def run(tmp_path, data):
    path = tmp_path / "cases.json"
    path.write_text(json.dumps(data))
    return run_parity(path)


@pytest.mark.parametrize(
    ("ours", "theirs", "agree"),
    [
        (1.0, 1.0 + 1e-6, True),
        (1.0, 1.1, False),
        (1.0, math.inf, False),
        (math.inf, 1.0, False),
        (math.inf, math.inf, True),
        (math.inf, -math.inf, False),
        (math.nan, math.nan, False),
        (0.0, None, False),
    ],
)
def test_what_agrees(ours, theirs, agree):
    report = Report()
    Check(report, "case").close("loss", ours, theirs)
    assert (report.num_compared, not report.differences) == (1, agree)


def test_every_number_of_the_release_agrees():
    report = run_parity(GOLDEN)
    assert report.differences == []
    assert report.num_compared > 60_000
    assert report.mended == {PADDING_DEFECT.reason: 49, LONE_TURN.reason: 2}
    assert report.not_covered == {
        "env_checks math: the release's other grader (sympy) is not offered here": 8
    }


def test_the_mended_defect_is_named_only_where_it_is(tmp_path, golden):
    assert run(tmp_path, only(golden, "hand_2x3", "dual_critique")).mended == {}
    report = run(tmp_path, only(golden, "horizon3_padding_quirk"))
    assert list(report.mended) == [PADDING_DEFECT.reason]
    assert report.differences == []


def test_the_mended_defect_excuses_nothing_but_its_zeros_and_the_padded_baseline_nothing_at_all(
    tmp_path, golden
):
    data = only(golden, "horizon3_padding_quirk")
    expected = data["cases"][0]["expected"]
    expected["sd_base_advantage"]["second_turn"]["0/0"] = (
        0.25  # the release says 0, mended it is 0.6333
    )
    mode = expected["modes"]["rl_reweight/second_turn"]
    mode["losses"]["importance_sampling/on_policy"]["loss_sum"] += 0.01
    mode["losses"]["importance_sampling/on_policy"]["grad_wrt_new_logprob"][0][0] += 0.01
    assert [d.split(": ")[1] for d in run(tmp_path, data).differences] == [
        "sd_base_advantage second_turn_padded 0/0",
        "sd_base_advantage second_turn 0/0",
        "rl_reweight/second_turn_padded importance_sampling/on_policy loss_sum",
        "rl_reweight/second_turn_padded importance_sampling/on_policy grad of row 0[0]",
        "rl_reweight/second_turn importance_sampling/on_policy loss_sum",
        "rl_reweight/second_turn importance_sampling/on_policy grad of row 0[0]",
    ]


def test_the_lone_turn_excuses_null_only_where_a_turn_is_alone(tmp_path, golden):
    data = only(golden, "lone_and_all_early", "hand_2x3")
    (alone,) = [c for c in data["cases"] if c["name"] == "lone_and_all_early"]
    lone = [s for s in alone["expected"]["advantages_std_normalized"][0] if s[1] is None]
    assert lone
    lone[0][1] = 0.5
    (hand,) = [c for c in data["cases"] if c["name"] == "hand_2x3"]
    hand["expected"]["advantages_std_normalized"][0][1][1] = None
    differences = run(tmp_path, data).differences
    assert len(differences) == 2
    assert {d.split(": this package")[0].split("/")[0] for d in differences} == {
        "lone_and_all_early: advantages_std_normalized 0",
        "hand_2x3: advantages_std_normalized 0",
    }


def test_rounding_noise_of_equal_returns_is_excused_and_nothing_beyond_it(tmp_path, golden):
    data = only(golden, "second_turn_collapse")
    normalized = data["cases"][0]["expected"]["advantages_std_normalized"]
    normalized[0][0][0] = -0.72  # as 3 × 0.9 / 3 gives in single precision
    normalized[0][1][0] = 7.0
    report = run(tmp_path, data)
    assert report.mended == {EQUAL_RETURNS.reason: 1}
    assert len(report.differences) == 1
    assert (
        "advantages_std_normalized 0/1 turn 0: this package 0, release 7" in report.differences[0]
    )


MODE = "rl_reweight_mask/first_turn"
LOSS = "ppo/off_policy"


def expected(data):
    return data["cases"][0]["expected"]


def mode(data, name=MODE):
    return expected(data)["modes"][name]


def extra_row(data, name=MODE):
    return next(row for row in mode(data, name)["rows"] if row["is_distillation"])


def loss(data, name=MODE):
    return mode(data, name)["losses"][LOSS]


def bump(values, place=-1):
    values[place] += 1e-3


def flip(values, place=-1):
    values[place] = 1.0 - values[place]


PERTURBATIONS = {
    "returns": (lambda d: bump(expected(d)["returns"][0][1], 0), "returns 0/1"),
    "advantages": (lambda d: bump(expected(d)["advantages"][1][2], 0), "advantages 1/2"),
    "padding of advantages": (lambda d: bump(expected(d)["advantages"][0][0], 1), "advantages 0/0"),
    "normalised advantages": (
        lambda d: bump(expected(d)["advantages_std_normalized"][0][1], 0),
        "advantages_std_normalized 0/1 turn 0",
    ),
    "first turn baseline": (
        lambda d: bump(expected(d)["first_turn_baseline"], 1),
        "first_turn_baseline 1/",
    ),
    "base advantage": (
        lambda d: expected(d)["sd_base_advantage"]["first_turn"].update({"0/2": -0.31}),
        "sd_base_advantage first_turn 0/2",
    ),
    "number of rows": (lambda d: mode(d).update(num_distill=4), f"{MODE} num_distill"),
    "a missing row": (lambda d: mode(d)["rows"].pop(), f"{MODE} rows"),
    "kind of row": (
        lambda d: extra_row(d).update(is_distillation=False),
        f"{MODE} row 0/1 is_distillation",
    ),
    "row ids": (lambda d: bump(mode(d)["rows"][0]["input_ids"], 0), f"{MODE} row 0/0 input_ids"),
    "row targets": (lambda d: bump(mode(d)["rows"][0]["target_ids"]), f"{MODE} row 0/0 target_ids"),
    "row advantages": (
        lambda d: bump(mode(d)["rows"][0]["advantages"]),
        f"{MODE} row 0/0 advantages",
    ),
    "response advantages": (
        lambda d: bump(mode(d)["rows"][0]["response_advantages"]),
        f"{MODE} row 0/0 response_advantages",
    ),
    "distill row advantages": (
        lambda d: bump(extra_row(d)["advantages"]),
        f"{MODE} row 0/1 distill advantages",
    ),
    "distill row old_logprobs": (
        lambda d: bump(extra_row(d)["old_logprobs"]),
        f"{MODE} row 0/1 distill old_logprobs",
    ),
    "response old_logprobs": (
        lambda d: bump(extra_row(d)["response_old_logprobs"]),
        f"{MODE} row 0/1 distill response_old_logprobs",
    ),
    "row mask": (lambda d: flip(mode(d)["rows"][0]["mask"]), f"{MODE} row 0/0 mask"),
    "mask_fraction": (
        lambda d: extra_row(d).update(mask_fraction=0.5),
        f"{MODE} row 0/1 distill mask_fraction",
    ),
    "loss_sum": (
        lambda d: loss(d).update(loss_sum=loss(d)["loss_sum"] + 1e-3),
        f"{MODE} {LOSS} loss_sum",
    ),
    "grad": (
        lambda d: bump(loss(d)["grad_wrt_new_logprob"][3], 0),
        f"{MODE} {LOSS} grad of row 3[0]",
    ),
    "a missing grad": (
        lambda d: loss(d)["grad_wrt_new_logprob"].pop(),
        f"{MODE} {LOSS} rows with a gradient",
    ),
    "sft weights": (
        lambda d: bump(extra_row(d, "sft")["weights"]),
        "sft row 0/1 distill weights[5]",
    ),
    "sft number of rows": (lambda d: mode(d, "sft").update(num_distill=5), "sft num_distill"),
    "sft loss_sum": (
        lambda d: loss(d, "sft").update(loss_sum=loss(d, "sft")["loss_sum"] + 1e-3),
        f"sft {LOSS} loss_sum",
    ),
    "sft grad": (
        lambda d: bump(loss(d, "sft")["grad_wrt_new_logprob"][-1], 0),
        f"sft {LOSS} grad of row 14[0]",
    ),
    "schedule": (
        lambda d: d["rl_coef_schedule"][1].update(expected=0.0501),
        "rl_coef_schedule[1]: weight",
    ),
}


@pytest.mark.parametrize("kind", PERTURBATIONS)
def test_one_changed_number_is_reported_and_nothing_else(tmp_path, golden, kind):
    data = copy.deepcopy(only(golden, "hand_2x3"))
    modes = expected(data)["modes"]
    expected(data)["modes"] = {name: modes[name] for name in (MODE, "sft")}
    perturb, named = PERTURBATIONS[kind]
    perturb(data)
    differences = run(tmp_path, data).differences
    # a group's baseline is held against each of its episodes
    assert len(differences) == (3 if kind == "first turn baseline" else 1), differences
    for difference in differences:
        assert named in difference
        assert ": this package " in difference
        assert ", release " in difference


def test_a_relative_ramp_is_that_of_a_resume_and_that_of_a_late_start(tmp_path, golden):
    data = copy.deepcopy(only(golden))
    (relative,) = [
        item
        for item in data["rl_coef_schedule"]
        if item["relative_schedule"] and item["expected"] < 0.1
    ]
    relative["expected"] += 1e-3
    assert [d.split(": ")[1] for d in run(tmp_path, data).differences] == [
        "weight",
        "weight of a late start",
    ]


def test_a_critique_row_comes_before_the_answer_that_it_led_to(tmp_path, golden):
    data = only(golden, "dual_critique")
    for rows in [value["rows"] for value in expected(data)["modes"].values()]:
        rows[3], rows[4] = rows[4], rows[3]
    named_rows = {d.split(": ")[1].split(" ", 1)[1] for d in run(tmp_path, data).differences}
    assert any("row 0/1 input_ids" in line for line in named_rows)
    assert all("row 0/1" in line for line in named_rows)


ENV_PERTURBATIONS = {
    "reward": (
        lambda c: c["reward"][1]["turns"][0].update(reward=1.0),
        "env_checks reward[1]: turn 1 reward",
    ),
    "done": (
        lambda c: c["reward"][0]["turns"][0].update(done=False),
        "env_checks reward[0]: turn 1 done",
    ),
    "turns": (lambda c: c["reward"][4]["turns"].pop(), "env_checks reward[4]: turns"),
    "metric": (
        lambda c: c["reward"][1]["turns"][1]["metrics"].update(early_termination=1.0),
        "env_checks reward[1]: turn 2 early_termination",
    ),
    "math": (lambda c: c["math"][3].update(math_verify=False), "env_checks math[3]: correct"),
    "boxed": (
        lambda c: c["extract_boxed"][0].update(value="1"),
        "env_checks extract_boxed[0]: value",
    ),
    "boxed error": (
        lambda c: c["extract_boxed"][2].update(error=None),
        "env_checks extract_boxed[2]: error",
    ),
    "verdict": (
        lambda c: c["binary_matrix"][3].update(correct=True),
        "env_checks binary_matrix[3]: format, correct[1]",
    ),
    "roles": (
        lambda c: c["knights_knaves"][6].update(correct=True),
        "env_checks knights_knaves[6]: format, correct[1]",
    ),
    "read roles": (
        lambda c: c["knights_knaves"][0]["normalized"][0].reverse(),
        "env_checks knights_knaves[0]: normalized",
    ),
    "path": (
        lambda c: c["shortest_path"][7].update(correct=True),
        "env_checks shortest_path[7]: correct",
    ),
    "read path": (
        lambda c: c["shortest_path"][0]["normalized"].pop(),
        "env_checks shortest_path[0]: normalized",
    ),
    "critique": (
        lambda c: c["critique_extraction"][1].update(math="l1"),
        "env_checks critique_extraction[1]: math, from character 2",
    ),
}


@pytest.mark.parametrize("kind", ENV_PERTURBATIONS)
def test_one_changed_verdict_is_reported_and_nothing_else(tmp_path, golden, kind):
    perturb, named = ENV_PERTURBATIONS[kind]
    part = named.split()[1].partition("[")[0]
    checks = {part: copy.deepcopy(golden["env_checks"][part])}
    perturb(checks)
    (difference,) = run(tmp_path, {"cases": [], "env_checks": checks}).differences
    assert difference.startswith(named)


SHAPE = "of another shape than known here"


def test_what_is_not_known_here_is_named_and_never_skipped_silently(tmp_path, golden):
    data = only(golden, "second_turn_collapse")
    case = expected(data)
    case["modes"]["rl_new/first_turn"] = case["modes"]["none"]
    case["modes"]["none"]["losses"]["dro/on_policy"] = {}
    case["modes"]["none"]["rows"][0]["entropy"] = 1.0
    case["modes"]["none"]["num_tokens"] = 3
    case["sd_base_advantage"]["third_turn"] = {}
    case["kl"] = []
    data |= {"dataset_fingerprints": {"bm": {}}, "other": 1}
    data["env_checks"] = {
        "new": 3,
        "prompt_hashes": {"x": "y"},
        "math": [1, 2],
        "binary_matrix": [{"boxed": "1"}],
    }
    report = run(tmp_path, data)
    assert report.differences == []
    unknown = "not a part of the schema that is known here"
    assert report.not_covered == {
        "mode rl_new/first_turn: not known here": 1,
        "loss dro/on_policy: not known here": 1,
        f"row `entropy`: {unknown}": 1,
        f"mode `num_tokens`: {unknown}": 1,
        f"sd_base_advantage `third_turn`: {unknown}": 1,
        f"expected `kl`: {unknown}": 1,
        f"part `other`: {unknown}": 1,
        "dataset_fingerprints: hashes of whole datasets; the tests of the environments hold them": (
            1
        ),
        "env_checks new: not known here": 1,
        "env_checks prompt_hashes: prompts of judges and second turns are worded anew here": 1,
        f"env_checks math[0]: {SHAPE} (TypeError: 'int' object is not subscriptable)": 1,
        f"env_checks math[1]: {SHAPE} (TypeError: 'int' object is not subscriptable)": 1,
        "env_checks binary_matrix[0]: of another shape than known here (KeyError: 'solution')": 1,
    }


def test_a_file_of_another_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no `cases` in it"):
        run(tmp_path, {"meta": {}})
    with pytest.raises(ValueError, match="no `cases` in it"):
        run(tmp_path, [1, 2])
