"""The rows of one mode, as the release's datum: x ⊕ y shifted by one, per-token values on y."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from rltf_verl.config.objectives import Baseline
from tools.parity.load import Case, ModeRows, load_rows
from tools.parity.losses import compare_loss
from tools.parity.modes import BASELINES, LOSSES, MODES, LossName, release_config
from tools.parity.report import Check, Json

ROW_KEYS = {
    "group",
    "session",
    "is_distillation",
    "input_ids",
    "target_ids",
    "old_logprobs",
    "advantages",
    "mask",
    "weights",
    "response_advantages",
    "response_old_logprobs",
    "mask_fraction",
}


def compare_modes(case: Case, check: Check) -> None:
    """Every mode of a case, with every baseline of ours that has a counterpart there."""
    for key, expected in case.json["expected"]["modes"].items():
        mode, _, theirs = key.partition("/")
        if mode not in MODES or theirs not in BASELINES:
            check.report.skip(f"mode {key}: not known here")
            continue
        check.report.skip_unknown("mode", expected, {"rows", "num_rl", "num_distill", "losses"})
        for baseline in BASELINES[theirs]:
            name = f"{mode}/{baseline}" if theirs else mode
            _compare_mode(case, mode, baseline, name, expected, check)


def _compare_mode(
    case: Case, mode: str, baseline: Baseline, name: str, expected: Json, check: Check
) -> None:
    made = load_rows(
        case, name, release_config(mode, baseline, case.json["config"], "importance_sampling")
    )
    _compare_rows(made, expected, check)
    for key, theirs in expected["losses"].items():
        loss, _, policy = key.partition("/")
        if loss not in LOSSES or policy not in ("on_policy", "off_policy"):
            check.report.skip(f"loss {key}: not known here")
            continue
        config = release_config(mode, baseline, case.json["config"], cast(LossName, loss))
        compare_loss(replace(made, config=config), key, theirs, check)


def _compare_rows(made: ModeRows, expected: Json, check: Check) -> None:
    num_extra = sum(made.is_extra(n) for n in range(len(made.rows)))
    check.close(f"{made.name} num_rl", len(made.rows) - num_extra, expected["num_rl"])
    check.close(f"{made.name} num_distill", num_extra, expected["num_distill"])
    check.close(f"{made.name} rows", len(made.rows), len(expected["rows"]))
    for n, theirs in enumerate(expected["rows"][: len(made.rows)]):
        _compare_row(made, n, theirs, check)


def _compare_row(made: ModeRows, n: int, theirs: Json, check: Check) -> None:
    row, extra = made.rows[n], " distill" if theirs["is_distillation"] else ""
    where = f"{made.name} row {theirs['group']}/{theirs['session']}{extra}"
    check.report.skip_unknown("row", theirs, ROW_KEYS)
    place = made.case.index[made.episode[n]]
    check.close(f"{where} group, session", place, [theirs["group"], theirs["session"]])
    check.close(f"{where} is_distillation", made.is_extra(n), theirs["is_distillation"])
    sequence = [*row.prompt_ids, *row.response_ids]
    check.ids(f"{where} input_ids", sequence[:-1], theirs["input_ids"])
    check.ids(f"{where} target_ids", sequence[1:], theirs["target_ids"])
    compare = _compare_weights if "weights" in theirs else _compare_tokens
    compare(made, n, theirs, where, check)


def _compare_weights(made: ModeRows, n: int, theirs: Json, where: str, check: Check) -> None:
    """A supervised row; the release folds the coefficient in later."""
    row = made.rows[n]
    zeros = [0.0] * (len(row.prompt_ids) - 1)
    scaled = [made.config.imitate.weight * weight for weight in theirs["weights"]]
    weights = made.targets.advantages[made.tokens(n)].tolist()
    check.close(f"{where} weights", [*zeros, *weights], scaled)


def _compare_tokens(made: ModeRows, n: int, theirs: Json, where: str, check: Check) -> None:
    at, targets, excuse = made.tokens(n), made.targets, made.excuses[n]
    zeros, mask = [0.0] * (len(made.rows[n].prompt_ids) - 1), made.batch.role[at] >= 0
    old, advantages = targets.ref_log_probs[at] * mask, targets.advantages[at]
    check.close(f"{where} mask", [*zeros, *mask.float().tolist()], theirs["mask"])
    check.close(f"{where} old_logprobs", [*zeros, *old.tolist()], theirs["old_logprobs"])
    check.close(f"{where} advantages", [*zeros, *advantages.tolist()], theirs["advantages"], excuse)
    if "response_old_logprobs" in theirs:
        check.close(
            f"{where} response_old_logprobs", old[mask].tolist(), theirs["response_old_logprobs"]
        )
    if "response_advantages" in theirs:
        check.close(
            f"{where} response_advantages",
            advantages[mask].tolist(),
            theirs["response_advantages"],
            excuse,
        )
    if theirs.get("mask_fraction") is not None:
        share = float(targets.floor_masked[at].float().mean())
        check.close(f"{where} mask_fraction", share, theirs["mask_fraction"])
