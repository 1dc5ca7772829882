"""Hard wordings by category: tables, languages, signs, arithmetic, codes; and realistic critiques
that tell nothing.

The rules were developed with these texts, so what is measured on them is an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.leak_texts import (
    hard_code,
    hard_grids,
    hard_math,
    hard_paths,
    hard_roles,
    knights_knaves,
    math_problems,
    shortest_path,
)
from benchmarks.leak_texts.common import Labelled
from benchmarks.leak_texts.files import Row
from rltf_verl.envs.base import Env
from rltf_verl.envs.math import Math

PER_WORDING = 4
MAX_TRIES = 60


def hard_rows(seed: int = 0, per_wording: int = PER_WORDING) -> Iterator[Row]:
    """A few texts of each wording, about different problems."""
    for name, cases, module in _SETS:
        drawn = cases(seed)
        for category, wordings in {**module.LEAKS, **module.INNOCENT}.items():
            for wording in wordings:
                made = tries = 0
                while made < per_wording and tries < MAX_TRIES:
                    case, tries = next(drawn), tries + 1
                    text = wording(case)
                    if text:
                        made += 1
                        yield Row(
                            name,
                            _env(case),
                            Labelled(category, case.problem, case.attempt_text, text),
                        )


def _env(case: Any) -> Env:
    return getattr(case, "env", None) or _MATH


_MATH = Math()
_SETS: tuple[tuple[str, Any, Any], ...] = (
    ("binary_matrix", hard_grids.cases, hard_grids),
    ("knights_knaves", lambda seed: knights_knaves.cases("official", seed), hard_roles),
    ("shortest_path", lambda seed: shortest_path.cases("official", seed), hard_paths),
    ("math", math_problems.cases, hard_math),
    ("code", hard_code.cases, hard_code),
)
