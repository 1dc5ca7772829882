"""The runner of the smoke tests: what it finds, what it counts as failed, and its judge."""

import sys

import pytest

from tests.recipes.composing import RECIPES, rltf_of
from tests.recipes.experiments import EXPERIMENTS
from tests.recipes.seeds import NAMES

sys.path.insert(0, str(RECIPES / "smoke"))  # programs, not a package

from smoke_tests import HERE, Outcome, find_tests

from rltf_verl.adapters.startup.checks import checked_parts

SMALL = (
    "rltf/kk_sd",
    "rltf/dapo_fm_self_critique",
    "rl2f/rl2f",
    *(
        pytest.param(name, marks=pytest.mark.nightly)
        for name in ("rltf/sp_grpo_single", "rltf/writing_sd", "guided", "sdpo")
    ),
)
"""Each environment, each provider, each context."""

STEP = {"rltf/rows/per_session": 2.5, "rltf/turn_1/acc": 0.25}


def outcome(exit_code=0, steps=(STEP, STEP)):
    return Outcome(41.4, exit_code, list(steps), episodes_per_step=16, num_steps=2)


def test_every_experiment_of_every_recipe_is_there() -> None:
    names = {test.name for test in find_tests(RECIPES)}
    others = {*(f"{name}/{name}" for name in NAMES), "rl2f/rl2f", "rl2f/rlvr", "rl2f/sft"}
    assert names == others | {f"rltf/{name}" for name in EXPERIMENTS}


@pytest.mark.parametrize("name", SMALL)
def test_it_is_the_same_experiment_made_small(name) -> None:
    full = name if "/" in name else f"{name}/{name}"
    (test,) = (test for test in find_tests(RECIPES) if test.name == full)
    config, real = test.config, rltf_of(name)
    small = checked_parts(config).config
    for block in ("attempt", "distill", "imitate", "critique", "logit_distill", "reward", "gamma"):
        assert getattr(small, block) == getattr(real, block), block
    assert small.feedback.provider.name == real.feedback.provider.name
    assert small.feedback_modeling.weight == real.feedback_modeling.weight
    assert (small.env.name, small.episode.horizon) == (real.env.name, real.episode.horizon)
    assert (config.trainer.device, config.trainer.total_training_steps) == ("cpu", 2)
    longest = config.data.max_prompt_length + config.data.max_response_length
    assert longest <= 512, "positions of the tiny policy"
    for option in config.smoke.data.values():
        assert not str(option).endswith(".jsonl") or (HERE / option).is_file()


@pytest.mark.parametrize(
    ("failed", "text"),
    [
        (outcome(exit_code=1), "see log.txt"),
        (outcome(exit_code=124, steps=()), "see log.txt"),
        (outcome(steps=(STEP,)), "1 training steps instead of 2"),
        (
            outcome(steps=(STEP, {**STEP, "rltf/feedback/judge/failed_share": 0.5})),
            "judge/failed_share=0.50",
        ),
        (
            outcome(steps=(STEP, {**STEP, "rltf/feedback/failed_share": 1.0})),
            "feedback/failed_share=1.00",
        ),
        (outcome(steps=(STEP, {**STEP, "rltf/grader/error_share": 0.1})), "error_share=0.10"),
    ],
)
def test_a_run_that_did_not(failed, text) -> None:
    assert text in failed.trouble
