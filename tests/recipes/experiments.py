"""What the experiments of the paper and of its release are: the facts that `recipes/rltf` is held against."""

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

WITH_ABLATIONS = ("kk", "dapo")
SCRIPTS = {f"{task}_{method}" for task in TASKS if task != "writing" for method in ("grpo", "sd", "fm")} | {
    f"{task}_{method}" for task in WITH_ABLATIONS for method in ("sft", "sd_second_turn", "sd_ppo", "sd_cispo")
}
"""The released ones, by our names."""


@dataclass(frozen=True)
class Method:
    """What it adds to multi-turn GRPO."""

    distill: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    horizon: int = 2
    provider: str | None = None
    """In place of the task's own."""


SD = {"baseline": "first_turn", "reference": "current", "loss": "importance_sampling", "log_prob_floor": -5.0}
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
MAIN = ("grpo_single", "grpo", "sd", "fm")
EXPERIMENTS = {f"{task}_{method}" for task in TASKS for method in (METHODS if task in WITH_ABLATIONS else MAIN)}

RESULTS = {  # the paper's main table, by first prompt's accuracy (writing: score)
    "Knights & Knaves": {"grpo_single": 0.373, "grpo": 0.352, "sd": 0.802, "fm": 0.880},
    "Binary Matrix": {"grpo_single": 0.125, "grpo": 0.950, "sd": 0.976, "fm": 0.978},
    "Shortest Path": {"grpo_single": 0.385, "grpo": 0.384, "sd": 0.830, "fm": 0.905},
    "MATH500 (DAPO)": {"grpo_single": 0.526, "grpo": 0.523, "sd": 0.548, "fm": 0.567},
    "AIME24 (DAPO)": {"grpo_single": 0.058, "grpo": 0.025, "sd": 0.088, "fm": 0.083},
    "MATH500 (DeepMath)": {"grpo_single": 0.558, "grpo": 0.578, "sd": 0.598, "fm": 0.636},
    "AIME24 (DeepMath)": {"grpo_single": 0.042, "grpo": 0.050, "sd": 0.058, "fm": 0.058},
    "LitBench": {"grpo_single": 6.83, "grpo": 6.41, "sd": 8.80, "fm": 8.40},
    "WritingBench": {"grpo_single": 5.92, "grpo": 6.29, "sd": 6.71, "fm": 6.39},
}
BENCHMARKS = {
    "kk": ("Knights & Knaves",), "bm": ("Binary Matrix",), "sp": ("Shortest Path",),
    "dapo": ("MATH500 (DAPO)", "AIME24 (DAPO)"), "deepmath": ("MATH500 (DeepMath)", "AIME24 (DeepMath)"),
    "writing": ("LitBench", "WritingBench"),
}  # fmt: skip


def parts(name: str) -> tuple[str, str]:
    """`kk_sd_ppo` -> task and method."""
    task, _, method = name.partition("_")
    return task, method
