"""The runner of the CPU twins: what it finds, what it counts as failed, and its judge."""

import json
import sys
import urllib.request
from pathlib import Path

import pytest

RECIPES = Path(__file__).parents[2] / "recipes"
sys.path.insert(0, str(RECIPES))  # programs, not a package

from cpu_twins import Outcome, find_twins  # noqa: E402
from loopback_judge import LoopbackJudge  # noqa: E402

from rltf_verl.envs.writing.scoring import Scale, read_score  # noqa: E402
from tests.recipes.experiments import EXPERIMENTS, parts  # noqa: E402

STEP = {"rltf/rows/per_session": 2.5, "rltf/turn_1/acc": 0.25}


def outcome(exit_code=0, steps=(STEP, STEP)):
    return Outcome(41.4, exit_code, list(steps), sessions_per_step=16, num_steps=2)


def test_every_experiment_of_the_paper_has_a_twin() -> None:
    twins = {twin.experiment: twin.overlay for twin in find_twins(RECIPES) if twin.recipe.name == "rltf"}
    assert twins == {name: parts(name)[0] for name in EXPERIMENTS}


def test_another_recipe_joins_by_its_layout(tmp_path) -> None:
    config = tmp_path / "mine" / "config"
    (config / "cpu").mkdir(parents=True)
    for name in ("a_b_sd", "a_sd", "_part", "cpu/a", "cpu/a_b", "cpu/_tiny"):
        (config / f"{name}.yaml").write_text("{}")
    assert [(t.name, t.overlay) for t in find_twins(tmp_path)] == [("mine/a_b_sd", "a_b"), ("mine/a_sd", "a")]
    (config / "c.yaml").write_text("{}")
    with pytest.raises(ValueError, match=r"c\.yaml: no overlay in config/cpu begins its name; there are a, a_b"):
        find_twins(tmp_path)


def test_a_run_that_went_well() -> None:
    assert outcome().trouble == ""
    assert outcome().line("x/y") == ("x/y", "41", "80", "0.25", "0")


def test_a_run_of_verls_sft_trainer() -> None:
    steps = [{"train/loss": 11.6}, {"train/loss": 11.3}]
    assert Outcome(14.2, 0, steps, sessions_per_step=4, num_steps=2).trouble == ""
    assert Outcome(14.2, 0, steps, sessions_per_step=4, num_steps=2).line("x/sft") == ("x/sft", "14", "8", "", "0")


@pytest.mark.parametrize(
    ("failed", "said"),
    [
        (outcome(exit_code=1), "see log.txt"),
        (outcome(exit_code=124, steps=()), "see log.txt"),
        (outcome(steps=(STEP,)), "1 training steps instead of 2"),
        (outcome(steps=(STEP, {**STEP, "rltf/feedback/judge/failed_share": 0.5})), "judge/failed_share=0.50"),
        (outcome(steps=(STEP, {**STEP, "rltf/feedback/failed_share": 1.0})), "feedback/failed_share=1.00"),
        (outcome(steps=(STEP, {**STEP, "rltf/grader/error_share": 0.1})), "error_share=0.10"),
    ],
)
def test_a_run_that_did_not(failed, said) -> None:
    assert said in failed.trouble


def test_the_judge_speaks_the_protocol_and_scores_only_where_it_is_asked_to() -> None:
    prompts = ("Criticise.", "Criticise.\nScore: from 1 to 10", "Help.\n\nHint: what you write")
    with LoopbackJudge() as judge:
        plain, scored, hint = (ask(judge.url, prompt) for prompt in prompts)
    assert plain.endswith("Critique: 010")
    assert hint.endswith("Hint: 010")
    assert read_score(scored, Scale(1, 10)) is not None
    assert read_score(plain, Scale(1, 10)) is None


def ask(url: str, prompt: str) -> str:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}]}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", body), timeout=10) as response:
        return json.load(response)["choices"][0]["message"]["content"]
