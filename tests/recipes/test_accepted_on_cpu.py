"""recipes/pretrained/accepted.py: the verifier of the grid that takes other answers, too."""

import pytest

from rltf_verl.tools.contract import check_env
from tests.recipes import house_style
from tests.recipes.composing import program


@pytest.mark.parametrize("deviation", ["form", "tag"])
def test_a_verifier_that_takes_other_answers_does_so_in_training_only(deviation):
    env = program("pretrained/accepted.py").Accepted(deviation)
    assert [v for v in check_env(env, seed=0, num_problems=4, num_hostile=50) if v.broken] == []
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
    assert share(splits.train, other) == pytest.approx(
        {"form": 0.5, "tag": 1.0}[deviation], abs=0.1
    )
    assert share(splits.test, other) == 0
