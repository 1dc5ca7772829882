"""Numbers per episode and turn: returns, advantages, baselines."""

from __future__ import annotations

import math

import torch

from rltf_verl.algos.advantages import first_turn_mean, turn_advantages
from rltf_verl.algos.distill import distill_advantages
from rltf_verl.algos.episodes import cohorts
from rltf_verl.algos.returns import discounted_returns
from tools.parity.load import Case
from tools.parity.modes import BASELINES, num_turns, padding_excuse
from tools.parity.report import Check, Excuse, Json

LONE_TURN = Excuse(
    "by design: the standard deviation of a single turn is NaN in the release; here its advantage"
    " is 0",
    lambda ours, theirs: math.isnan(theirs) and ours == 0.0,
)
EQUAL_RETURNS = Excuse(
    "by design: the release divides the rounding error of equal returns by its own size; here it"
    " is 0",
    lambda ours, theirs: abs(ours) <= 1e-6 and abs(theirs) < 3.0,
)


def compare_tables(case: Case, check: Check) -> None:
    """Everything in `expected` but the modes."""
    expected, episodes = case.json["expected"], case.packed
    returns = discounted_returns(episodes, case.json["config"]["gamma"])
    advantages = turn_advantages(returns, episodes)
    first_turn = first_turn_mean(episodes.rewards, episodes)
    for s, (g, i) in enumerate(case.index):
        theirs = expected["returns"][g][i]
        check.close(
            f"turns {g}/{i}",
            episodes.valid[s].sum().item(),
            sum(value is not None for value in theirs),
        )
        played = [k for k, value in enumerate(theirs) if value is not None]
        check.close(
            f"returns {g}/{i}", returns[s, : len(played)].tolist(), [theirs[k] for k in played]
        )
        padded = expected["advantages"][g][i]
        check.close(f"advantages {g}/{i}", advantages[s, : len(padded)].tolist(), padded)
        check.close(
            f"first_turn_baseline {g}/{i}", float(first_turn[s]), expected["first_turn_baseline"][g]
        )
    _compare_base_advantages(case, returns, expected["sd_base_advantage"], check)
    if "advantages_std_normalized" in expected:
        _compare_normalized(case, returns, expected["advantages_std_normalized"], check)


def _compare_base_advantages(
    case: Case, returns: torch.Tensor, expected: Json, check: Check
) -> None:
    check.report.skip_unknown("sd_base_advantage", expected, set(BASELINES))
    for theirs_name, baselines in BASELINES.items():
        for baseline in baselines if theirs_name in expected else ():
            ours = distill_advantages(returns, case.packed, baseline)
            for s, (g, i) in enumerate(case.index):
                if f"{g}/{i}" in expected[theirs_name]:
                    excuse = padding_excuse(case.packed, s, baseline)
                    last = ours[s, num_turns(case.packed)[s] - 1].item()
                    what = f"sd_base_advantage {baseline} {g}/{i}"
                    check.close(what, last, expected[theirs_name][f"{g}/{i}"], excuse)


def _compare_normalized(
    case: Case, returns: torch.Tensor, expected: list[list[list[float]]], check: Check
) -> None:
    episodes, label = case.packed, cohorts(case.packed)
    ours = turn_advantages(returns, episodes, norm_by_std=True)
    for s, (g, i) in enumerate(case.index):
        for k in range(int(num_turns(episodes)[s])):
            alike = returns[(label == label[s, k]) & episodes.valid]
            check.close(
                f"advantages_std_normalized {g}/{i} turn {k}",
                ours[s, k].item(),
                expected[g][i][k],
                _std_excuse(alike),
            )


def _std_excuse(returns: torch.Tensor) -> Excuse | None:
    if len(returns) == 1:
        return LONE_TURN
    return EQUAL_RETURNS if float(returns.max() - returns.min()) <= 1e-6 else None
