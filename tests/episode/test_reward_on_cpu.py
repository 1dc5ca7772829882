"""From a grade to the reward of a turn, and what shapes it."""

import threading
from dataclasses import replace

import pytest
from fakes import EchoEnv, Remark, ScriptedPolicy, ScriptedProvider, play


async def rewards(answers, cut=(), **kwargs):
    episode = await play(ScriptedPolicy(answers, cut=cut), Remark(), **kwargs)
    return [turn.reward for turn in episode.turns]


@pytest.mark.parametrize(
    ("answer", "cut", "reward"),
    [("yes", (), 1.0), ("yes", (0,), 0.9), ("no", (), 0.0), ("no", (0,), -0.1), ("1", (), -0.1), ("1", (0,), -0.1)],
)
async def test_reward_loses_the_format_part_without_an_answer_or_when_cut_off(answer, cut, reward):
    assert await rewards([answer], cut, horizon=1) == [pytest.approx(reward)]


async def test_the_format_part_is_set_by_its_coefficient():
    assert await rewards(["1"], horizon=1, reward={"format_coef": 0.5}) == [-0.5]
    assert await rewards(["1"], horizon=1, reward={"format_coef": 0.0}) == [0.0]


async def test_turns_that_another_turn_follows_may_have_no_reward_of_their_own():
    """Release `reward_y1=False`: format penalties of such turns are gone too; the turn that ends a session keeps it."""
    assert await rewards(["1", "no", "yes"], horizon=3) == pytest.approx([-0.1, 0.0, 1.0])
    off = {"intermediate": False}
    assert await rewards(["1", "no", "yes"], horizon=3, reward=off) == [0.0, 0.0, 1.0]
    assert await rewards(["1", "1"], horizon=2, reward=off) == pytest.approx([0.0, -0.1])
    assert await rewards(["yes"], (0,), horizon=3, reward=off) == pytest.approx([0.9])  # solved at once, cut off
    right_and_on = {"stop_when_solved_train": False, "reward": off}
    assert await rewards(["yes", "no"], horizon=2, **right_and_on) == [0.0, 0.0]


async def test_progress_is_the_difference_to_the_attempt_that_was_revised():
    shaped = {"progress_coef": 0.5}
    assert await rewards(["1", "no", "yes"], horizon=3, reward=shaped) == pytest.approx([-0.1, 0.05, 1.5])
    # getting worse costs; the difference is between the rewards as graded, not as shaped
    on = {"stop_when_solved_train": False, "reward": shaped}
    assert await rewards(["no", "yes", "no"], horizon=3, **on) == pytest.approx([0.0, 1.5, -0.5])
    assert await rewards(["yes"], horizon=2, reward=shaped) == [1.0]


async def test_progress_counts_the_reward_that_a_turn_would_have_had():
    both = {"progress_coef": 0.5, "intermediate": False}
    assert await rewards(["1", "no", "yes"], horizon=3, reward=both) == pytest.approx([0.0, 0.05, 1.5])


async def test_in_a_tree_progress_is_towards_the_shared_attempt():
    policy = ScriptedPolicy({"0": "1", "1": "no", "1.1": "yes"})
    episode = await play(policy, Remark(), horizon=2, branch_turn=1, reward={"progress_coef": 1.0})
    assert [t.reward for t in episode.turns] == pytest.approx([-0.1, 0.1, 2.1])


async def test_a_turn_that_ended_for_want_of_feedback_keeps_its_reward():
    episode = await play(ScriptedPolicy(["1"]), ScriptedProvider(None), horizon=2, reward={"intermediate": False})
    assert [t.reward for t in episode.turns] == [pytest.approx(-0.1)]


class PartlyRight(EchoEnv):
    """Gives a third for a wrong word, and is slow about it."""

    blocking = True

    def grade(self, problem, text):
        self.thread = threading.get_ident()
        grade = super().grade(problem, text)
        return replace(grade, score=1.0 if grade.correct else 1 / 3)


async def test_a_score_is_the_reward_of_an_answer_that_is_partly_right():
    assert await rewards(["no", "yes"], horizon=2, env=PartlyRight()) == pytest.approx([1 / 3, 1.0])
    assert await rewards(["1"], horizon=1, env=PartlyRight()) == pytest.approx([1 / 3 - 0.1])


async def test_only_an_environment_that_waits_is_called_in_a_thread():
    slow, quick = PartlyRight(), PartlyRight()
    quick.blocking = False
    await rewards(["no"], horizon=1, env=slow)
    await rewards(["no"], horizon=1, env=quick)
    assert slow.thread != threading.get_ident() == quick.thread
