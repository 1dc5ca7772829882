"""Reads a parity file and compares all its parts."""

from __future__ import annotations

import json
from pathlib import Path

from tools.parity.load import load_case
from tools.parity.report import Check, Json, Report, Tolerance
from tools.parity.rows import compare_modes
from tools.parity.schedule import compare_schedule
from tools.parity.tables import compare_tables
from tools.parity.texts import compare_feedback_modeling
from tools.parity.verdicts import compare_env_checks

PARTS = {
    "meta",
    "cases",
    "rl_coef_schedule",
    "feedback_modeling",
    "env_checks",
    "dataset_fingerprints",
}
EXPECTED_KEYS = {
    "returns",
    "advantages",
    "advantages_std_normalized",
    "first_turn_baseline",
    "sd_base_advantage",
    "modes",
}


def run_parity(path: Path) -> Report:
    """Compare everything in the file.

    Args:
        path: JSON of the schema `meta`, `cases`, `rl_coef_schedule`, `feedback_modeling`,
            `env_checks`, `dataset_fingerprints`.

    Raises:
        ValueError: the file is not of that schema.
    """
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict) or "cases" not in data:
        raise ValueError(
            f"{path}: no `cases` in it; expected a parity file with meta, cases, rl_coef_schedule"
        )
    tolerance, report = Tolerance(**data.get("meta", {}).get("tolerance", {})), Report()
    for case in data["cases"]:
        _compare_case(case, Check(report, case["name"], tolerance))
    for i, item in enumerate(data.get("rl_coef_schedule", [])):
        compare_schedule(item, Check(report, f"rl_coef_schedule[{i}]", tolerance))
    compare_feedback_modeling(data.get("feedback_modeling"), report)
    compare_env_checks(data.get("env_checks"), report)
    if "dataset_fingerprints" in data:
        report.skip(
            "dataset_fingerprints: hashes of whole datasets; the tests of the environments hold"
            " them"
        )
    report.skip_unknown("part", data, PARTS)
    return report


def _compare_case(case: Json, check: Check) -> None:
    check.report.skip_unknown("expected", case["expected"], EXPECTED_KEYS)
    loaded = load_case(case)
    compare_tables(loaded, check)
    compare_modes(loaded, check)
