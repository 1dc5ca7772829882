"""The table of the language model's demo, for the terminal and the pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

HEADINGS = (
    *("method", "first answers, held out, greedy: before", "after"),
    "after feedback, in training",
)
NAMES = {"grpo": "GRPO", "sd": "RLTF-SD", "sft": "SFT on right second answers, with GRPO"}


def rows(methods: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Shares of right answers: first ones before and after training; and in training, of the
    episodes that are right after feedback, those of the first, last and worst step, if the
    episodes have a second answer.

    Args:
        methods: of summary.json.
    """
    for method, found in methods.items():
        first, second = found["first"], found["second"]
        shares = f"{second[0]:.2f} to {second[-1]:.2f}, lowest {min(second):.2f}" if second else ""
        yield NAMES[method], f"{first[0]:.2f}", f"{first[-1]:.2f}", shares
