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
from typer import Typer
from typer.testing import CliRunner, Result

from tools.parity.__main__ import main
from tools.parity.modes import PADDING_DEFECT
from tools.parity.report import Check, Report
from tools.parity.run import run_parity
from tools.parity.tables import LONE_TURN

GOLDEN = Path(__file__).parents[1] / "golden" / "parity_cases.json"


@pytest.fixture(scope="module")
def golden():
    return json.loads(GOLDEN.read_text())


def only(golden, *names):
    cases = [copy.deepcopy(c) for c in golden["cases"] if c["name"] in names]
    assert len(cases) == len(names)
    return {**golden, "cases": cases, "env_checks": {}}


def run(tmp_path, data):
    return run_parity(write(tmp_path / "cases.json", data))


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


MODE = "rl_reweight_mask/first_turn"
LOSS = "ppo/off_policy"

EXPECTED = ("cases", 0, "expected")
PATH = (*EXPECTED, "modes", MODE)
ROW, EXTRA = (*PATH, "rows", 0), (*PATH, "rows", 11)
SFT = (*EXPECTED, "modes", "sft")
NORMALISED = "advantages_std_normalized"
PERTURBATIONS = {  # where a value is changed, and what is named
    "returns": ((*EXPECTED, "returns", 0, 1, 0), "returns 0/1"),
    "advantages": ((*EXPECTED, "advantages", 1, 2, 0), "advantages 1/2"),
    "padding of advantages": ((*EXPECTED, "advantages", 0, 0, 1), "advantages 0/0"),
    "normalised advantages": ((*EXPECTED, NORMALISED, 0, 1, 0), f"{NORMALISED} 0/1 turn 0"),
    "first turn baseline": ((*EXPECTED, "first_turn_baseline", 1), "first_turn_baseline 1/"),
    "base advantage": (
        (*EXPECTED, "sd_base_advantage", "first_turn", "0/2"),
        "sd_base_advantage first_turn 0/2",
    ),
    "number of rows": ((*PATH, "num_distill"), f"{MODE} num_distill"),
    "a missing row": ((*PATH, "rows"), f"{MODE} rows"),
    "kind of row": ((*EXTRA, "is_distillation"), f"{MODE} row 0/1 is_distillation"),
    "row ids": ((*ROW, "input_ids", 0), f"{MODE} row 0/0 input_ids"),
    "row targets": ((*ROW, "target_ids", -1), f"{MODE} row 0/0 target_ids"),
    "row advantages": ((*ROW, "advantages", -1), f"{MODE} row 0/0 advantages"),
    "response advantages": (
        (*ROW, "response_advantages", -1),
        f"{MODE} row 0/0 response_advantages",
    ),
    "distill row advantages": (
        (*EXTRA, "advantages", -1),
        f"{MODE} row 0/1 distill advantages",
    ),
    "distill row old_logprobs": (
        (*EXTRA, "old_logprobs", -1),
        f"{MODE} row 0/1 distill old_logprobs",
    ),
    "response old_logprobs": (
        (*EXTRA, "response_old_logprobs", -1),
        f"{MODE} row 0/1 distill response_old_logprobs",
    ),
    "row mask": ((*ROW, "mask", -1), f"{MODE} row 0/0 mask"),
    "mask_fraction": ((*EXTRA, "mask_fraction"), f"{MODE} row 0/1 distill mask_fraction"),
    "loss_sum": ((*PATH, "losses", LOSS, "loss_sum"), f"{MODE} {LOSS} loss_sum"),
    "grad": (
        (*PATH, "losses", LOSS, "grad_wrt_new_logprob", 3, 0),
        f"{MODE} {LOSS} grad of row 3[0]",
    ),
    "a missing grad": (
        (*PATH, "losses", LOSS, "grad_wrt_new_logprob"),
        f"{MODE} {LOSS} rows with a gradient",
    ),
    "sft weights": ((*SFT, "rows", 3, "weights", -1), "sft row 0/1 distill weights[5]"),
    "sft number of rows": ((*SFT, "num_distill"), "sft num_distill"),
    "sft loss_sum": ((*SFT, "losses", LOSS, "loss_sum"), f"sft {LOSS} loss_sum"),
    "sft grad": (
        (*SFT, "losses", LOSS, "grad_wrt_new_logprob", -1, 0),
        f"sft {LOSS} grad of row 14[0]",
    ),
    "schedule": (("rl_coef_schedule", 1, "expected"), "rl_coef_schedule[1]: weight"),
}


def moved(value):
    """A number is moved, a verdict turned round, a text or a list cut."""
    if isinstance(value, bool):
        return not value
    return value[:-1] if isinstance(value, str | list) else (value or 0.0) + 1e-3


def place_of(data, path):
    """The innermost list or block, and the place in it."""
    for key in path[:-1]:
        data = data[key]
    return data, path[-1]


@pytest.mark.parametrize("kind", PERTURBATIONS)
def test_one_changed_number_is_reported_and_nothing_else(tmp_path, golden, kind):
    data = copy.deepcopy(only(golden, "hand_2x3"))
    modes = data["cases"][0]["expected"]["modes"]
    data["cases"][0]["expected"]["modes"] = {name: modes[name] for name in (MODE, "sft")}
    path, named = PERTURBATIONS[kind]
    block, place = place_of(data, path)
    block[place] = moved(block[place])
    differences = run(tmp_path, data).differences
    # a group's baseline is held against each of its episodes
    assert len(differences) == (3 if kind == "first turn baseline" else 1), differences
    for difference in differences:
        assert named in difference


QUIRK, SECOND = "horizon3_padding_quirk", "rl_reweight/second_turn"
POLICY = "importance_sampling/on_policy"
LOSSES = (*EXPECTED, "modes", SECOND, "losses", POLICY)
EXCUSED = [  # case, where its value is another, and which differences are named
    (  # 0 is excused, mended it is 0.6333
        QUIRK,
        (*EXPECTED, "sd_base_advantage", "second_turn", "0/0"),
        0.25,
        ["sd_base_advantage second_turn_padded 0/0", "sd_base_advantage second_turn 0/0"],
    ),
    (
        QUIRK,
        (*LOSSES, "loss_sum"),
        0.0,
        [f"{SECOND}_padded {POLICY} loss_sum", f"{SECOND} {POLICY} loss_sum"],
    ),
    (
        QUIRK,
        (*LOSSES, "grad_wrt_new_logprob", 0, 0),
        9.0,
        [f"{SECOND}_padded {POLICY} grad of row 0[0]", f"{SECOND} {POLICY} grad of row 0[0]"],
    ),
    # without a number, where a turn is alone and where it is not
    ("lone_and_all_early", (*EXPECTED, NORMALISED, 0, 3, 1), None, []),
    ("lone_and_all_early", (*EXPECTED, NORMALISED, 0, 3, 1), 0.5, [f"{NORMALISED} 0/3 turn 1"]),
    ("hand_2x3", (*EXPECTED, NORMALISED, 0, 1, 1), None, [f"{NORMALISED} 0/1 turn 1"]),
    # equal returns: rounding noise, as 3 × 0.9 / 3 gives in single precision, and more
    ("second_turn_collapse", (*EXPECTED, NORMALISED, 0, 0, 0), -0.72, []),
    ("second_turn_collapse", (*EXPECTED, NORMALISED, 0, 1, 0), 7.0, [f"{NORMALISED} 0/1 turn 0"]),
]


@pytest.mark.parametrize(("case", "path", "value", "named"), EXCUSED)
def test_what_is_mended_excuses_nothing_else(tmp_path, golden, case, path, value, named):
    data = only(golden, case)
    block, place = place_of(data, path)
    block[place] = value
    assert [d.split(": ")[1] for d in run(tmp_path, data).differences] == named


VERDICTS = [
    (("reward", 1, "turns", 0, "reward"), "reward[1]: turn 1 reward"),
    (("reward", 0, "turns", 0, "done"), "reward[0]: turn 1 done"),
    (("reward", 4, "turns"), "reward[4]: turns"),
    (
        ("reward", 1, "turns", 1, "metrics", "early_termination"),
        "reward[1]: turn 2 early_termination",
    ),
    (("math", 3, "math_verify"), "math[3]: correct"),
    (("extract_boxed", 0, "value"), "extract_boxed[0]: value"),
    (("extract_boxed", 2, "error"), "extract_boxed[2]: error"),
    (("binary_matrix", 3, "correct"), "binary_matrix[3]: format, correct[1]"),
    (("knights_knaves", 6, "correct"), "knights_knaves[6]: format, correct[1]"),
    (("knights_knaves", 0, "normalized", 0), "knights_knaves[0]: normalized"),
    (("shortest_path", 7, "correct"), "shortest_path[7]: correct"),
    (("shortest_path", 0, "normalized"), "shortest_path[0]: normalized"),
    (("critique_extraction", 1, "math"), "critique_extraction[1]: math, from character"),
]


@pytest.mark.parametrize(("path", "named"), VERDICTS)
def test_one_changed_verdict_is_reported_and_nothing_else(tmp_path, golden, path, named):
    checks = {path[0]: copy.deepcopy(golden["env_checks"][path[0]])}
    block, place = place_of(checks, path)
    block[place] = moved(block[place])
    (difference,) = run(tmp_path, {"cases": [], "env_checks": checks}).differences
    assert difference.startswith(f"env_checks {named}")


RAMP = {
    "rl_coef": [0.0, 1.0],
    "current_batch": 5,
    "total_batches": 11,
    "start_batch": 0,
    "relative_schedule": False,
}
OTHER_SCHEMAS = [
    [],
    {},
    {"cases": [{}]},
    {"cases": []},
    {"cases": [{"name": "x", "groups": 3}]},
    "x",
]


NONE = (*EXPECTED, "modes", "none")
UNKNOWN = "not a part of the schema that is known here"
SHAPE = "of another shape than known here"


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ((*EXPECTED, "modes", "rl_new/first_turn"), {}, "mode rl_new/first_turn: not known here"),
        ((*NONE, "losses", "dro/on_policy"), {}, "loss dro/on_policy: not known here"),
        ((*NONE, "rows", 0, "entropy"), 1.0, f"row `entropy`: {UNKNOWN}"),
        ((*NONE, "num_tokens"), 3, f"mode `num_tokens`: {UNKNOWN}"),
        (
            (*EXPECTED, "sd_base_advantage", "third_turn"),
            {},
            f"sd_base_advantage `third_turn`: {UNKNOWN}",
        ),
        ((*EXPECTED, "kl"), [], f"expected `kl`: {UNKNOWN}"),
        (("other",), 1, f"part `other`: {UNKNOWN}"),
        (("dataset_fingerprints",), {"bm": {}}, "dataset_fingerprints: "),
        (("env_checks", "new"), 3, "env_checks new: not known here"),
        (("env_checks", "prompt_hashes"), {"x": "y"}, "env_checks prompt_hashes: "),
        (("env_checks", "math"), [1], f"env_checks math[0]: {SHAPE} (TypeError: "),
        (
            ("env_checks", "binary_matrix"),
            [{"boxed": "1"}],
            f"env_checks binary_matrix[0]: {SHAPE} (KeyError: 'solution')",
        ),
    ],
)
def test_what_is_not_known_here_is_named(tmp_path, golden, path, value, named):
    data = only(golden, "second_turn_collapse")
    data.pop("dataset_fingerprints", None)
    block, place = place_of(data, path)
    block[place] = value
    report = run(tmp_path, data)
    assert report.differences == []
    assert [what.startswith(named) for what in report.not_covered] == [True]


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def parity(file: Path) -> Result:
    app = Typer()
    app.command()(main)
    return CliRunner().invoke(app, [str(file)], env={"COLUMNS": "160"}, catch_exceptions=False)


def test_parity_lists_every_number_that_differs(tmp_path: Path) -> None:
    right, wrong = {**RAMP, "expected": 0.5}, {**RAMP, "expected": 0.75}
    result = parity(write(tmp_path / "p.json", {"cases": [], "rl_coef_schedule": [right, wrong]}))
    assert result.exit_code == 1
    assert "DIFFERS rl_coef_schedule[1]: weight: this package 0.5, release 0.75" in result.stdout
    assert "1 of 2 numbers differ" in result.stdout


@pytest.mark.parametrize("content", [*map(json.dumps, OTHER_SCHEMAS), "\ud8ff{", None])
def test_a_file_that_cannot_be_compared(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "p.json"
    if content is not None:
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
    result = parity(path)
    assert result.exit_code == 2
    assert str(path) in result.stderr
    assert result.stderr.count("\n") == 1
