"""The environment of docs/agents.md, by what training calls."""

import asyncio

from rltf_verl.envs import make_env
from rltf_verl.envs.calls import explain_text, grade_text
from rltf_verl.feedback.verifier import VerifierProvider
from rltf_verl.types import Note, Problem

from ..support.acting_fakes import ActorEnv, ScriptedActor
from ..support.episode_fakes import parts_with, play_parts


def called(tool: str, **arguments: str) -> str:
    return "<call>" + str({"name": tool, "arguments": arguments}).replace("'", '"') + "</call>"


def test_the_example_of_the_docs_plays_an_episode_with_a_retry_from_a_step():
    env = make_env("docs/examples/lookup.py:Lookup")
    problem = env.build(0, 1, 0).train[0]
    looks = [called("look", department=name) for name in ("sales", "support", "moon")]
    policy = ScriptedActor(
        [*looks, called("answer", number="1"), called("answer", number=problem.reference)]
    )
    parts = parts_with(env, VerifierProvider("hint"), horizon=2, retry="fork")
    first, second = asyncio.run(play_parts(parts, policy, problem=problem)).turns
    assert first.attempt.trajectory.end == "done"
    assert [step.results[0].kind for step in first.attempt.trajectory.steps] == [
        "ok",
        "ok",
        "error",
        "ok",
    ]
    assert first.feedback.text.startswith("Step 4: People who moved")
    assert second.grade.correct
    assert len(second.attempt.trajectory.steps) == 4, "three steps before, one of its own"


def test_a_text_is_graded_as_a_trajectory_of_one_answer():
    class Game(ActorEnv):
        def explain(self, problem, trajectory, grade, level):
            return [Note(trajectory.answer, step=0), Note(level)]

    game, problem = Game(tools=()), Problem("actor", 0, {}, "win")
    assert [grade_text(game, problem, word).correct for word in ("win", "lose", "raise")] == [
        True,
        False,
        False,
    ]
    assert not any(world.open for world in game.worlds)
    assert grade_text(game, problem, "raise").error == "ZeroDivisionError: the world broke"
    grade = grade_text(game, problem, "lose")
    assert explain_text(game, problem, "lose", grade, "hint") == "Step 1: lose\nhint"
    assert not grade_text(Game(), problem, "win").correct, "with tools a text is no call"
