"""From a grade to the reward of a turn, and what shapes it."""

from dataclasses import replace

import numpy as np
import pytest

from rltf_verl.envs.base import Limits
from rltf_verl.types import Grade
from tests.support.episode_fakes import EchoEnv, Remark, ScriptedPolicy, play


async def rewards(answers, cut=(), **kwargs):
    episode = await play(ScriptedPolicy(answers, cut=cut), Remark(), **kwargs)
    return [turn.reward for turn in episode.turns]


class PartlyRight(EchoEnv):
    """Gives a third for a wrong word."""

    def grade(self, problem, text):
        grade = super().grade(problem, text)
        return replace(grade, score=1.0 if grade.correct else 1 / 3)


OFF, HALF, REPEATED = {"intermediate": False}, {"turn_decay": 0.5}, {"repetition_coef": 0.6}
PARTLY = {"env": PartlyRight()}
GO_ON = {"stop_when_solved_train": False}


@pytest.mark.parametrize(
    ("answers", "cut", "shaping", "settings", "expected"),
    [
        # the format part is lost without an answer or when it is cut off
        (["yes"], (), {}, {}, [1.0]),
        (["yes"], (0,), {}, {}, [0.9]),
        (["no"], (), {}, {}, [0.0]),
        (["no"], (0,), {}, {}, [-0.1]),
        (["1"], (), {}, {}, [-0.1]),
        (["1"], (0,), {}, {}, [-0.1]),
        (["1"], (), {"format_coef": 0.5}, {}, [-0.5]),
        (["1"], (), {"format_coef": 0.0}, {}, [0.0]),
        # release `reward_y1=False`: format penalties of turns that another one follows are gone
        # too; the turn that ends an episode keeps it
        (["1", "no", "yes"], (), {}, {}, [-0.1, 0.0, 1.0]),
        (["1", "no", "yes"], (), OFF, {}, [0.0, 0.0, 1.0]),
        (["1", "1"], (), OFF, {}, [0.0, -0.1]),
        (["yes"], (0,), OFF, {"horizon": 3}, [0.9]),  # solved at once, cut off
        (["yes", "no"], (), OFF, GO_ON, [0.0, 0.0]),
        # a right answer is worth less the later it comes
        (["yes"], (), HALF, {"horizon": 3}, [1.0]),
        (["no", "yes"], (), HALF, {"horizon": 3}, [0.0, 0.5]),
        (["no", "ne", "yes"], (), HALF, {}, [0.0, 0.0, 0.25]),
        (["no", "yes"], (1,), HALF, {}, [0.0, 0.4]),  # cut off: 0.5 - 0.1
        (["no", "1"], (), HALF, {}, [0.0, -0.1]),  # the format's part stays
        # repeated answers cost their share at the end of the episode
        (["no", "no", "ne"], (), REPEATED, {}, [0.0, 0.0, -0.6 * (1 - 2 / 3)]),
        (["no", "no", "yes"], (), REPEATED, {}, [0.0, 0.0, 1 - 0.6 / 3]),
        (["no", "no", "no"], (), REPEATED, {}, [0.0, 0.0, -0.6 * 2 / 3]),
        (["no", " no\n"], (), REPEATED, {}, [0.0, -0.3]),  # white space aside
        (["no", "ne", "yes"], (), REPEATED, {}, [0.0, 0.0, 1.0]),
        (["yes"], (), REPEATED, {"horizon": 3}, [1.0]),
        # all shapings: cut off and right after the same wrong answer twice
        (
            ["no", "no", "yes"],
            (2,),
            {"turn_decay": 0.5, "repetition_coef": 0.3},
            {},
            [0.0, 0.0, 0.5**2 * 1.0 - 0.1 - 0.3 / 3],
        ),
        # a score is the reward of an answer that is partly right, and decays too
        (["no", "yes"], (), {}, PARTLY, [1 / 3, 1.0]),
        (["1"], (), {}, PARTLY, [1 / 3 - 0.1]),
        (["no", "ne"], (), HALF, PARTLY, [1 / 3, 1 / 6]),
    ],
)
async def test_rewards_of_the_turns(answers, cut, shaping, settings, expected):
    settings = {"horizon": len(answers), **settings}
    assert await rewards(answers, cut, reward=shaping, **settings) == pytest.approx(expected)


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


@pytest.mark.parametrize(
    ("field", "value", "kept"),
    [
        ("correct", np.bool_(True), True),
        ("correct", 0, False),
        ("format_ok", np.float32(1.0), True),
        ("score", np.float32(0.5), 0.5),
        ("details", None, {}),
        ("parsed", "x" * 5_000_000, "x" * 2**18),
        ("error", "a\nb", "a b"),
    ],
)
def test_a_grade_converts_what_it_is_given(field, value, kept):
    grade = Grade(**{"correct": False, "format_ok": True, field: value})
    assert getattr(grade, field) == kept
    assert type(getattr(grade, field)) is type(kept)


@pytest.mark.parametrize(
    "fields",
    [{"correct": None}, {"correct": "yes"}, {"correct": np.array([1, 0])}, {"format_ok": 2},
     {"error": ValueError("x")}, {"details": 5}],
)  # fmt: skip
def test_a_grade_refuses_what_it_cannot_convert(fields):
    with pytest.raises((TypeError, ValueError)):
        Grade(**{"correct": False, "format_ok": True, **fields})


@pytest.mark.parametrize(
    "limits",
    [{"steps": "5"}, {"step_s": float("nan")}, {"attempt_s": 0}, {"observation_tokens": 1.5},
     {"invalid_actions": True}],
)  # fmt: skip
def test_limits_refuse_what_cannot_bound(limits):
    with pytest.raises(ValueError, match=next(iter(limits))):
        Limits(**limits)
