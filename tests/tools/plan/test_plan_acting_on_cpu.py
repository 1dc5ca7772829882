"""What `rltf plan` plays where the policy acts: calls, observations, the rule's feedback."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig

from rltf_verl.tools.data.build import build_parquet
from rltf_verl.tools.plan.build import Plan, make_plan
from rltf_verl.tools.plan.inputs import inspect_run
from tests.support.engine.tiny_model import tiny_model
from tests.tools.plan.test_plan_on_cpu import shown_of

ROOT = Path(__file__).parents[3]
GAME = """
from pathlib import Path

from rltf_verl.envs.base import Limits, Splits
from rltf_verl.types import Action, Grade, Note, Problem, Step


class Game:
    name = "game"
    tools = ()
    limits = Limits(steps=4)

    def build(self, seed, num_train, num_test):
        problems = [Problem("game", i, {}, "up") for i in range(num_train + num_test)]
        return Splits(tuple(problems[:num_train]), tuple(problems[num_train:]))

    def prompt(self, problem):
        return "Which way?"

    def open(self, problem, seed):
        return []

    def look(self, state):
        return "You see a stair."

    def step(self, state, action):
        state.append(action.text)
        return Step("You moved.", done=len(state) == 3)

    def close(self, state):
        pass

    def grade(self, problem, trajectory):
        if not trajectory.state:
            raise ZeroDivisionError("nothing was done")
        return Grade("up" in trajectory.state, format_ok=True)

    def explain(self, problem, trajectory, grade, level):
        return [Note("Go up.", 0)]
"""
SOLVED = """

class Solved(Game):
    def solution(self, problem):
        return [Action("left"), Action("left"), Action("up")]
"""


@pytest.fixture
def plan_of(run: Callable[..., DictConfig], tmp_path: Path) -> Callable[..., Plan]:
    """Name of an environment, or its file and class, and overrides -> the plan of a run with it."""
    model = tiny_model(tmp_path / "model")
    shutil.copy(ROOT / "recipes" / "agents" / "chat_template.jinja", model)

    def make(env: str, *words: str, attempt: str | None = None) -> Plan:
        build_parquet(env, tmp_path, 0, 6, 2)
        own = "rltf/env=own" if ":" in env else f"rltf/env={env}"
        config = run(
            *(own, *([f"rltf.env.name={env}"] if ":" in env else [])),
            *("custom_reward_function.path=null", f"actor_rollout_ref.model.path={model}"),
            *(
                f"data.train_files={tmp_path}/train.parquet",
                f"data.val_files={tmp_path}/test.parquet",
            ),
            *("data.max_prompt_length=4000", "data.max_response_length=4000"),
            *words,
        )
        return make_plan(inspect_run(config), 2, attempt)

    return make


def steps_of(turn: dict[str, Any]) -> list[tuple[str | None, list[str]]]:
    """The tool of each step's call and what came back."""
    return [
        (
            step["actions"][0]["tool"] if step["actions"] else None,
            [result["observation"] for result in step["results"]],
        )
        for step in turn["steps"]
    ]


def test_the_solution_is_played_without_its_last_step_and_then_whole(plan_of) -> None:
    plan = plan_of("workspace", "rltf.env.max_orders=1")
    for problem in plan.problems:
        first, second = problem.turns
        num_calls = len(problem.reference.splitlines())
        played = [tool for tool, _ in steps_of(first)]
        whole = [tool for tool, _ in steps_of(second)]
        assert (played[-1], whole[-1], len(whole)) == (None, None, num_calls + 1)
        assert played[:-1] == whole[: max(num_calls - 1, 1)]
        assert all(results for tool, results in steps_of(first) if tool)
        assert (first["end"], first["grade"]["correct"], second["grade"]["correct"]) == (
            "answered",
            False,
            True,
        )
        assert first["feedback"]["text"]
        assert first["feedback"]["text"] in second["prompt"]
    shown = shown_of(plan, 100)
    assert "call     read(name=" in shown
    assert "end        an answer without a call" in shown
    assert "graded wrong as written" not in shown


def test_without_a_solution_the_first_tool_is_called_as_its_schema_says(plan_of) -> None:
    plan = plan_of(f"{ROOT}/docs/examples/lookup.py:Lookup")
    first = plan.problems[0].turns[0]
    (called, (seen,)), answered = steps_of(first)
    assert first["steps"][0]["actions"][0]["arguments"] == {"department": "text"}
    assert (called, answered) == ("look", (None, []))
    assert "no such department" in seen
    assert [note["step"] for note in first["feedback"]["notes"]] == [1]
    shown = shown_of(plan, 100)
    assert 'call     look(department="text")' in shown
    assert shown.index("error") < shown.index("note     People who moved")


def test_a_game_without_tools_is_looked_at_and_played_in_texts(plan_of, tmp_path: Path) -> None:
    (tmp_path / "game.py").write_text(GAME + SOLVED)
    plan = plan_of(f"{tmp_path}/game.py:Solved")
    first, second = plan.problems[0].turns
    assert "You see a stair." in first["prompt"]
    assert [step["text"] for step in first["steps"]] == ["left", "left", "I am done."]
    assert [step["text"] for step in second["steps"]] == ["left", "left", "up"]
    assert plan.problems[0].critic_prompts == []
    plain = plan_of(f"{tmp_path}/game.py:Game", attempt="down")
    assert plain.problems[0].turns[0]["steps"][0]["text"] == "down"
