"""A run, `plan`, `env show`, `env check` and `feedback check` hear the same words on an attempt."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from rltf_verl.envs import make_env
from rltf_verl.envs.base import INCORRECT, Env
from rltf_verl.feedback.base import FeedbackRequest
from rltf_verl.feedback.verifier import VerifierProvider
from rltf_verl.tools.data.build import build_parquet
from rltf_verl.tools.plan.build import Plan, make_plan
from rltf_verl.tools.plan.inputs import inspect_run
from rltf_verl.types import Feedback
from tests.support.acting_fakes import ScriptedActor
from tests.support.commands import ran, rltf
from tests.support.episode_fakes import parts_with, play_parts

MINE = """
from rltf_verl.envs.base import Limits, Splits
from rltf_verl.types import Action, Grade, Note, Problem, Step


class Doubles:
    name = "doubles"

    def build(self, seed, num_train, num_test):
        made = [Problem(self.name, i, {"n": i}, str(2 * i)) for i in range(40, 80)]
        return Splits(tuple(made[:num_train]), tuple(made[num_train : num_train + num_test]))

    def prompt(self, problem):
        return f"What is twice {problem.data['n']}?"

    def grade(self, problem, text):
        right = text.strip() == problem.reference
        return Grade(right, text.strip().isdecimal(), details={"words": len(text.split())})

    def explain(self, problem, text, grade, level):
        return f"{level} {dict(problem.data)} {text!r} {grade!r}"


class Drawers(Doubles):
    name = "drawers"
    limits = Limits(steps=3)
    tools = [
        {
            "type": "function",
            "function": {
                "name": "open_it",
                "description": "Open a drawer.",
                "parameters": {"type": "object", "properties": {"which": {"type": "string"}}},
            },
        }
    ]

    def open(self, problem, seed):
        return []

    def step(self, state, action):
        state.append(action.tool)
        return Step("It is empty.")

    def grade(self, problem, trajectory):
        return Grade(len(trajectory.state) > 2, True, details={"opened": len(trajectory.state)})

    def explain(self, problem, trajectory, grade, level):
        said = [(step.text, step.actions, step.results) for step in trajectory.steps]
        return [Note(f"{level} {said} {trajectory.end} {trajectory.state} {grade!r}", 0)]


class Careless(Drawers):
    name = "careless"

    def explain(self, problem, trajectory, grade, level):
        return [Note(f"You opened {len(trajectory.state)} drawers.")]
"""
Heard = list[tuple[FeedbackRequest, str, Feedback]]


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    """What the verifier was asked and said since the list was emptied."""
    own = VerifierProvider.feedback
    asked: Heard = []

    async def feedback(self: VerifierProvider, request: FeedbackRequest) -> Feedback:
        said = await own(self, request)
        asked.append((request, self.levels[0], said))
        return said

    monkeypatch.setattr(VerifierProvider, "feedback", feedback)
    return asked


async def words_of_a_run(env: Env, request: FeedbackRequest, level: str) -> str:
    """The feedback of an episode in which the policy attempts the same."""
    attempt = request.turns[-1].attempt
    answer = attempt.text if attempt.trajectory is None else attempt.trajectory.answer
    parts = parts_with(env, VerifierProvider(level))
    policy = ScriptedActor([answer, "1"], answer_budget=10**5, response_budget=10**5)
    played = await play_parts(parts, policy, problem=request.problem)
    assert played.turns[0].attempt.text == attempt.text
    assert played.turns[0].feedback is not None
    return played.turns[0].feedback.text


def require_the_same(heard: Heard, env: Env) -> None:
    """On the wrong attempts without a call, a run says what was heard. Then the list is empty."""
    compared = 0
    for request, level, said in heard[:200]:
        attempt, grade = request.turns[-1].attempt, request.turns[-1].grade
        steps = () if attempt.trajectory is None else attempt.trajectory.steps
        if grade.correct or len(steps) > 1 or any(step.actions for step in steps):
            continue
        expected = asyncio.run(words_of_a_run(env, request, level))
        # `feedback check` leaves out the verdict that a run puts before a function's words.
        assert said.text in (expected, expected.removeprefix(f"{INCORRECT} "))
        compared += 1
    assert compared
    heard.clear()


@pytest.mark.parametrize("kind", ["Doubles", "Drawers", "binary_matrix"])
def test_of_an_environment(
    kind: str, tmp_path: Path, heard: Heard, plan_of: Callable[..., Plan]
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    name = kind if kind == "binary_matrix" else f"{tmp_path}/mine.py:{kind}"
    options = {"n_min": 3, "n_max": 3} if kind == "binary_matrix" else {}
    env, words = make_env(name, **options), [f"{key}={value}" for key, value in options.items()]
    ran("env", "show", name, *words)
    require_the_same(heard, env)
    rltf("env", "check", name, *words, "-n", 3, "--hostile", 20)
    require_the_same(heard, env)
    attempt = "I am done." if env.acts else "85"
    plan_of(name, *(f"+rltf.env.{word}" for word in words), attempt=attempt)
    require_the_same(heard, env)
    if not env.acts:
        data = build_parquet(name, tmp_path / "data", 0, 3, 1, **options).train
        rltf("feedback", "check", data)
        require_the_same(heard, env)


def test_of_a_reward_function(run: Callable[..., DictConfig], heard: Heard) -> None:
    env = make_env("reward_function", function="./reward.py:compute_score")
    make_plan(inspect_run(run()), 2)
    require_the_same(heard, env)
    rltf("feedback", "check", "./reward.py:compute_score", "train.parquet")
    require_the_same(heard, env)


def test_an_explanation_that_reads_the_state_is_refused_with_its_line(
    tmp_path: Path, plan_of: Callable[..., Plan]
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    name, line = (
        f"{tmp_path}/mine.py:Careless",
        1
        + MINE.splitlines().index(
            '        return [Note(f"You opened {len(trajectory.state)} drawers.")]'
        ),
    )
    check = rltf("env", "check", name, "-n", 3, "--hostile", 20, columns=400)
    assert check.exit_code == 1
    (refusal,) = plan_of(name).refusals
    for said in (check.stdout, rltf("env", "show", name).stderr, refusal):
        assert f"(mine.py:{line})" in said


PROVIDER = """
from rltf_verl.types import Feedback

class Mine:
    name = "mine"
    sees_reference = constant = False

    async def feedback(self, request):
        {body}
"""


@pytest.mark.parametrize(
    ("body", "num_refused"),
    [
        ("return request.nothing", 1),
        ("return Feedback('No.', 'mine') if request.problem.index else request.nothing", 0),
    ],
)
def test_a_provider_that_always_fails_is_refused(
    body: str, num_refused: int, run: Callable[..., DictConfig], tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(PROVIDER.format(body=body))
    config = run("rltf/feedback=own", f"rltf.feedback.provider={tmp_path}/own.py:Mine")
    plan = make_plan(inspect_run(config), 3)
    assert len(plan.refusals) == num_refused
    (said,) = (line for line in (*plan.refusals, *plan.warnings) if "own.py" in line)
    assert "(own.py:9)" in said


def test_feedback_on_a_trajectory_is_the_same_without_a_fault(
    tmp_path: Path, plan_of: Callable[..., Plan]
) -> None:
    (tmp_path / "mine.py").write_text(MINE.replace("{len(trajectory.state)}", "too few"))
    plan = plan_of(f"{tmp_path}/mine.py:Careless")
    assert not [line for line in plan.warnings if "same text" in line or "feedback check" in line]
