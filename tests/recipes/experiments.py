"""The experiments of the paper and of its release: names in `recipes/rltf`."""

from pathlib import Path

RECIPE = Path(__file__).parents[2] / "recipes" / "rltf"
CONFIGS = RECIPE / "config"
EXPERIMENTS = set((RECIPE / "experiments.txt").read_text("utf-8").split())
TASKS = {file.stem for file in (CONFIGS / "task").glob("[!_]*.yaml")}
METHODS = {file.stem for file in (CONFIGS / "method").glob("[!_]*.yaml")}
COMPOSED = {f"{task}_sd" for task in TASKS} | {"kk_sd_ppo", "kk_sft", "dapo_grpo_self_critique"}
"""Each task, and a method of each kind; the others are composed nightly."""


def parts(name: str) -> tuple[str, str]:
    """`kk_sd_ppo` -> task and method."""
    task, _, method = name.partition("_")
    return task, method
