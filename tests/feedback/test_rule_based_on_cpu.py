"""Providers that need no model: the verdict and the verifier's explanation."""

from dataclasses import replace

import pytest

from rltf_verl.envs.base import LEVELS
from rltf_verl.envs.binary_matrix.env import BinaryMatrix
from rltf_verl.feedback import make_provider
from rltf_verl.feedback.base import FeedbackRequest, FeedbackUnavailable
from rltf_verl.types import Feedback, Grade, Problem, Turn
from tests.support import feedback_fakes

ENV = BinaryMatrix(style="compact")
PROBLEM = ENV.build(0, 1, 0).train[0]


def turn(text: str) -> Turn:
    return replace(feedback_fakes.turn(text), grade=ENV.grade(PROBLEM, text))


def asked(*turns: Turn, env: BinaryMatrix = ENV) -> FeedbackRequest:
    return feedback_fakes.asked(*turns, problem=PROBLEM, env=env)


class Explaining(BinaryMatrix):
    """Its words are an expression."""

    def explain(self, problem: Problem, text: str, grade: Grade, level: str) -> str:
        return str({"silent": ""}[text])


RIGHT, WRONG = turn(f"\\boxed{{{PROBLEM.reference}}}"), turn("no idea")


async def test_correctness_is_about_the_last_attempt() -> None:
    provider = make_provider("correctness")
    assert provider.constant
    assert not provider.sees_reference
    wrong = await provider.feedback(asked(RIGHT, WRONG))
    assert wrong == Feedback("Your previous attempt was incorrect.", "correctness")
    right = await provider.feedback(asked(WRONG, RIGHT))
    assert right.text == "Your previous attempt was correct."


@pytest.mark.parametrize("level", LEVELS)
async def test_verifier_says_what_the_environment_explains(level: str) -> None:
    provider = make_provider("verifier", level=level)
    feedback = await provider.feedback(asked(WRONG))
    assert feedback.text == ENV.explain(PROBLEM, "no idea", WRONG.grade, level)
    assert (provider.sees_reference, feedback.sees_reference) == (level == "full", level == "full")
    assert provider.constant == (level == "verdict")


async def test_levels_by_turn_grow_and_the_last_one_stays() -> None:
    provider = make_provider("verifier", level=["verdict", "location", "full"])
    assert provider.sees_reference
    assert not provider.constant
    for k, level in enumerate(["verdict", "location", "full", "full"], 1):
        said = await provider.feedback(asked(*[WRONG] * k))
        assert said.text == ENV.explain(PROBLEM, "no idea", WRONG.grade, level)
        assert said.sees_reference == (level == "full"), (
            "the guard looks at this text, not at the whole list"
        )
    assert not make_provider("verifier", level=["location", "hint"]).sees_reference
    assert make_provider("verifier", level=["verdict"]).constant


@pytest.mark.parametrize(
    ("attempt", "cause"),
    [
        ("broken", r"explain\(\) of environment binary_matrix failed: KeyError"),
        ("silent", "is empty at level hint"),
    ],
)
async def test_verifier_that_fails_is_unavailable(attempt: str, cause: str) -> None:
    with pytest.raises(FeedbackUnavailable, match=cause):
        await make_provider("verifier").feedback(asked(turn(attempt), env=Explaining()))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("verifer", {}, r"rltf\.feedback\.provider='verifer'.*Did you mean 'verifier'"),
        (
            "verifier",
            {"lvel": "full"},
            r"rltf\.feedback\.lvel='full': verifier has no option 'lvel'; .*mean 'level'",
        ),
        (
            "verifier",
            {"level": []},
            r"rltf\.feedback\.level=\[\]: must be one of .* or a list of them by turn",
        ),
        (
            "verifier",
            {"level": ["hint", "ful"]},
            r"rltf\.feedback\.level='ful'.*Did you mean 'full'",
        ),
        ("verifier", {"level": 3}, r"rltf\.feedback\.level=3: must be"),
        ("verifier", {"level": "ful"}, r"rltf\.feedback\.level='ful'.*hint.*Did you mean 'full'"),
        (
            "correctness",
            {"level": "full"},
            r"rltf\.feedback\.level='full': correctness has no option 'level'; known: none",
        ),
    ],
)
def test_bad_options_name_the_config_key(name: str, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_provider(name, **options)
