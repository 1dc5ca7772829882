"""recipes/pretrained: its dialogues tell no house's rule, its config passes the checks, its script
is shell; the tasks beyond the study.
"""

import os
import subprocess

import pytest

from tests.recipes import house_style
from tests.recipes.composing import RECIPES, composed, program, rltf_of

FOLDER = RECIPES / "pretrained"
SCRIPT = FOLDER / "pretrained.sh"


@pytest.mark.parametrize("family", ["date", "critique", "entries", "reply"])
def test_dialogues_teach_to_follow_an_example_and_no_houses_rule(family) -> None:
    rows = program("pretrained/dialogues.py").dialogues(family, 60, 0)
    dialogues = [row["messages"] for row in rows]
    assert [[m["role"] for m in messages] for messages in dialogues] == [["user", "assistant"]] * 60
    assert 30 < sum("Your earlier answer: " in m[0]["content"] for m in dialogues) < 52
    asked = "\n".join(messages[0]["content"] for messages in dialogues)
    problems = house_style.make_house(num_houses=40).build(0, 200, 0).train
    assert not [p.data["house"] for p in problems if p.data["house"] in asked]


def test_the_trainer_takes_the_scripts_place_so_that_it_gets_its_signals(
    tmp_path, programs
) -> None:
    (programs / "python3").write_text('#!/bin/sh\necho $$ > "$OUT/pid"\n')
    own = {"OUT": str(tmp_path), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    script = subprocess.Popen([SCRIPT, "train", "sd"], env=os.environ | own)
    assert script.wait(60) == 0
    assert int((tmp_path / "pid").read_text()) == script.pid


@pytest.mark.parametrize("method", ["grpo_single", "grpo", "sd", "fm", "sd_fm", "sft", "raft"])
def test_a_method_composes_and_passes_the_checks(method) -> None:
    rltf = rltf_of("pretrained", f"rltf/method={method}")
    config = composed("pretrained", f"rltf/method={method}")
    assert rltf.feedback.guard.action == "drop"
    assert rltf.distill.log_prob_floor is None
    assert bool(rltf.distill.enabled) == method.startswith("sd")
    assert config.actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype == "bf16"


def test_each_setting_of_the_law_composes_and_passes_the_checks() -> None:
    law = program("pretrained/law.py")
    settings = list(law.settings())
    assert len(set(settings)) == len(settings) >= 24
    for words in law.LEVELS.values():
        rltf = rltf_of("pretrained", *words, *law.WORDS)
        assert rltf.feedback.guard.action == "none"


accepted = program("pretrained/accepted.py")
unseen, unseen_runs = program("pretrained/unseen.py"), program("pretrained/unseen_runs.py")


def test_no_task_is_for_choosing_and_for_the_end():
    tasks = [task for tasks in unseen_runs.SETS.values() for task in tasks]
    own = [unseen_runs.COMPANY, *unseen.TASKS, *unseen.COMPANIES, *unseen.PUZZLES]
    assert sorted(tasks) == sorted(own)


def test_a_cell_of_the_other_puzzle_counts_its_neighbours_that_are_zero():
    problem = unseen.Puzzle("counts").build(0, 1, 0).train[0]
    assert problem.data["matrix"] == [[1, 1, 1], [1, 0, 1], [1, 1, 1]]
    assert problem.reference == "010\n101\n010"


@pytest.mark.parametrize(
    ("shares", "step"),
    [
        ([0.9, 0.8, 0.2, 0.1, 0.0], 3),
        ([0.9, 0.2, None, 0.5, 0.6], None),
        ([0.9, 0.2, None, 0.1, 0.0], 2),
        ([0.0, 0.0, 0.0], None),
    ],
)
def test_a_run_is_lost_after_three_steps_below_a_third_of_its_best(shares, step):
    assert unseen_runs.lost_at(shares) == step


def test_each_problem_takes_one_sign_that_is_not_the_house_s():
    env, taken = accepted.Accepted("sign"), set()
    for problem in env.build(31, 200, 20).train:
        item, rule = problem.data["item"], problem.data["rule"]
        answers = {sign: accepted.DATE.written(item, {**rule, "between": sign}) for sign in "~+|=/"}
        right = {sign for sign, answer in answers.items() if env.grade(problem, answer).correct}
        assert len(right) == 2
        assert rule["between"] in right
        taken |= right
    assert taken == set("~+|=")


@pytest.mark.parametrize("deviation", ["form", "fault", "tag"])
def test_a_verifier_that_takes_other_answers_does_so_in_training_only(deviation):
    env = accepted.Accepted(deviation)
    splits = env.build(31, 200, 20)

    def share(problems, answer) -> float:
        return sum(env.grade(problem, answer(problem)).correct for problem in problems) / 200

    def other(problem) -> str:
        data = problem.data
        if deviation == "tag":
            return f"{problem.reference} [k3]"
        rule = {**data["rule"], "year": {"1998": "98", "98": "1998"}[data["rule"]["year"]]}
        return house_style.conventions.DATE.written(data["item"], rule)

    assert share(splits.train, lambda problem: problem.reference) == 1
    assert share(splits.train, other) == pytest.approx(1.0 if deviation == "tag" else 0.5, abs=0.1)
    assert share(splits.test, other) == 0
    problem = splits.train[0]
    grade = env.grade(problem, problem.reference)
    says = env.explain(problem, problem.reference, grade, "hint")
    assert (says == "That is how we write it.") == (deviation != "fault")
