"""The experiments of the paper and of its release: what `recipes/rltf` has to hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RECIPE = Path(__file__).parents[2] / "recipes" / "rltf"
CONFIGS = RECIPE / "config"

TASKS = {  # environment, provider, style of the judge, template of the second prompt
    "kk": ("knights_knaves", "judge", "short", "critique"),
    "bm": ("binary_matrix", "judge", "hint", "guide"),
    "sp": ("shortest_path", "judge", "hint", "guide"),
    "dapo": ("math", "judge", "hint", "critique"),
    "deepmath": ("math", "judge", "hint", "critique"),
    "writing": ("writing", "verifier", None, "text"),
}
RAMPS = {"dapo": 544, "deepmath": 3207}
"""Task -> steps of one pass: the weight of distillation ramps from 0 to 0.1 over it."""

MAIN = ("grpo_single", "grpo", "sd", "fm")
ABLATIONS = ("sft", "sd_second_turn", "sd_ppo", "sd_cispo")
WITH_ABLATIONS = ("kk", "dapo")
RELEASED = {f"{task}_{method}" for task in TASKS if task != "writing" for method in MAIN[1:]}
SCRIPTS = RELEASED | {f"{task}_{method}" for task in WITH_ABLATIONS for method in ABLATIONS}
"""The released ones, by the names here."""


@dataclass(frozen=True)
class Method:
    """What it adds to multi-turn GRPO."""

    distill: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    horizon: int = 2
    provider: str | None = None
    """In place of the task's own."""


SD = {
    "baseline": "first_turn",
    "reference": "current",
    "loss": "importance_sampling",
    "log_prob_floor": -5.0,
}
SAMPLER = {"baseline": "first_turn", "reference": "sampler", "log_prob_floor": None}
METHODS = {
    "grpo_single": Method(horizon=1, provider="correctness"),
    "grpo": Method(),
    "sd": Method(SD),
    "fm": Method(weights={"feedback_modeling": 0.1}),
    "sft": Method(weights={"imitate": 0.1}),
    "sd_second_turn": Method({**SD, "baseline": "second_turn"}),
    "sd_ppo": Method({**SAMPLER, "loss": "ppo"}),
    "sd_cispo": Method({**SAMPLER, "loss": "cispo"}),
    "sd_reject": Method({**SD, "baseline": "rejection"}),
    "sd_correctness": Method(SD, provider="correctness"),
    "grpo_correctness": Method(provider="correctness"),
    "fm_self_critique": Method(weights={"feedback_modeling": 0.1}, provider="paired"),
    "grpo_self_critique": Method(provider="paired"),
}
EXPERIMENTS = {
    f"{task}_{method}" for task in TASKS for method in (METHODS if task in WITH_ABLATIONS else MAIN)
}
COMPOSED = {f"{task}_sd" for task in TASKS} | {"kk_sd_ppo", "kk_sft", "dapo_grpo_self_critique"}
"""Each task, and a method of each kind; the others are composed nightly."""


def parts(name: str) -> tuple[str, str]:
    """`kk_sd_ppo` -> task and method."""
    task, _, method = name.partition("_")
    return task, method
