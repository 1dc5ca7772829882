"""From a grade to the reward of a turn, and what shapes it."""

import threading
from dataclasses import replace

import pytest

from rltf_verl.types import Grade
from tests.support.episode_fakes import EchoEnv, Remark, ScriptedPolicy, ScriptedProvider, play


async def rewards(answers, cut=(), **kwargs):
    episode = await play(ScriptedPolicy(answers, cut=cut), Remark(), **kwargs)
    return [turn.reward for turn in episode.turns]


@pytest.mark.parametrize(
    ("answer", "cut", "reward"),
    [
        ("yes", (), 1.0),
        ("yes", (0,), 0.9),
        ("no", (), 0.0),
        ("no", (0,), -0.1),
        ("1", (), -0.1),
        ("1", (0,), -0.1),
    ],
)
async def test_reward_loses_the_format_part_without_an_answer_or_when_cut_off(answer, cut, reward):
    assert await rewards([answer], cut, horizon=1) == [pytest.approx(reward)]


async def test_the_format_part_is_set_by_its_coefficient():
    assert await rewards(["1"], horizon=1, reward={"format_coef": 0.5}) == [-0.5]
    assert await rewards(["1"], horizon=1, reward={"format_coef": 0.0}) == [0.0]


async def test_turns_that_another_turn_follows_may_have_no_reward_of_their_own():
    """Release `reward_y1=False`: format penalties of such turns are gone too; the turn that ends an
    episode keeps it.
    """
    assert await rewards(["1", "no", "yes"], horizon=3) == pytest.approx([-0.1, 0.0, 1.0])
    off = {"intermediate": False}
    assert await rewards(["1", "no", "yes"], horizon=3, reward=off) == [0.0, 0.0, 1.0]
    assert await rewards(["1", "1"], horizon=2, reward=off) == pytest.approx([0.0, -0.1])
    assert await rewards(["yes"], (0,), horizon=3, reward=off) == pytest.approx(
        [0.9]
    )  # solved at once, cut off
    right_and_on = {"stop_when_solved_train": False, "reward": off}
    assert await rewards(["yes", "no"], horizon=2, **right_and_on) == [0.0, 0.0]


async def test_a_turn_that_ended_for_want_of_feedback_keeps_its_reward():
    episode = await play(
        ScriptedPolicy(["1"]), ScriptedProvider(None), horizon=2, reward={"intermediate": False}
    )
    assert [t.reward for t in episode.turns] == [pytest.approx(-0.1)]


async def test_a_right_answer_is_worth_less_the_later_it_comes():
    half = {"turn_decay": 0.5}
    assert await rewards(["yes"], horizon=3, reward=half) == [1.0]
    assert await rewards(["no", "yes"], horizon=3, reward=half) == [0.0, 0.5]
    assert await rewards(["no", "ne", "yes"], horizon=3, reward=half) == [0.0, 0.0, 0.25]
    assert await rewards(["no", "yes"], (1,), horizon=2, reward=half) == pytest.approx(
        [0.0, 0.4]
    )  # cut off: 0.5 - 0.1
    assert await rewards(["no", "1"], horizon=2, reward=half) == pytest.approx(
        [0.0, -0.1]
    )  # the format's part stays


async def test_a_partial_score_decays_too():
    third = await rewards(["no", "ne"], horizon=2, env=PartlyRight(), reward={"turn_decay": 0.5})
    assert third == pytest.approx([1 / 3, 1 / 6])


async def test_repeated_answers_cost_their_share_at_the_end_of_the_episode():
    shaping = {"repetition_coef": 0.6}
    assert await rewards(["no", "no", "ne"], horizon=3, reward=shaping) == pytest.approx(
        [0.0, 0.0, -0.6 * (1 - 2 / 3)]
    )
    assert await rewards(["no", "no", "yes"], horizon=3, reward=shaping) == pytest.approx(
        [0.0, 0.0, 1 - 0.6 / 3]
    )
    assert await rewards(["no", "no", "no"], horizon=3, reward=shaping) == pytest.approx(
        [0.0, 0.0, -0.6 * 2 / 3]
    )
    assert await rewards(["no", " no\n"], horizon=2, reward=shaping) == pytest.approx(
        [0.0, -0.3]
    )  # white space aside
    assert await rewards(["no", "ne", "yes"], horizon=3, reward=shaping) == [0.0, 0.0, 1.0]
    assert await rewards(["yes"], horizon=3, reward=shaping) == [1.0]


async def test_in_a_tree_each_line_pays_for_itself():
    answers = {"0": "no", "1": "no", "1.1": "yes"}
    episode = await play(
        ScriptedPolicy(answers),
        Remark(),
        horizon=2,
        branch_turn=1,
        reward={"repetition_coef": 1.0, "turn_decay": 0.5},
    )
    assert [turn.reward for turn in episode.turns] == [0.0, -0.5, 0.5]


async def test_all_shapings_together():
    """Turn 2, cut off and right after the same wrong answer twice: decay and repetition
    by hand.
    """
    shaping = {"turn_decay": 0.5, "repetition_coef": 0.3}
    third = 0.5**2 * 1.0 - 0.1 - 0.3 / 3
    assert await rewards(["no", "no", "yes"], (2,), horizon=3, reward=shaping) == pytest.approx(
        [0.0, 0.0, third]
    )


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


class OutOfRange(EchoEnv):
    """The word is the score."""

    def grade(self, problem, text):
        return Grade(correct=True, format_ok=True, score=float(text))


@pytest.mark.parametrize("score", ["1e300", "-1e38", "1000001", "nan", "-inf"])
async def test_a_score_out_of_range_is_an_error_of_the_grader(score, caplog):
    episode = await play(ScriptedPolicy([score]), Remark(), horizon=1, env=OutOfRange())
    (turn,) = episode.turns
    assert (turn.grade.correct, turn.reward) == (False, pytest.approx(-0.1))
    assert "from -1e6 to 1e6" in turn.grade.error
    assert await rewards(["-1e6"], horizon=1, env=OutOfRange()) == [-1e6]


async def test_only_an_environment_that_waits_is_called_in_a_thread():
    slow, quick = PartlyRight(), PartlyRight()
    quick.blocking = False
    await rewards(["no"], horizon=1, env=slow)
    await rewards(["no"], horizon=1, env=quick)
    assert slow.thread != threading.get_ident() == quick.thread
