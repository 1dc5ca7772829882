"""Providers that need no other model: the verdict, the verifier's explanation, and self-critique
(what is asked of the policy, what is taken from its answer, and when there is none).
"""

from dataclasses import replace

import pytest

from rltf_verl.envs.base import LEVELS
from rltf_verl.envs.binary_matrix.env import BinaryMatrix
from rltf_verl.feedback import make_provider
from rltf_verl.feedback.base import FeedbackRequest, FeedbackUnavailable
from rltf_verl.types import Feedback, Grade, Problem, Turn
from tests.support import feedback_fakes
from tests.support.episode_fakes import QUESTION, ScriptedPolicy

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
    for last, verdict in ((asked(RIGHT, WRONG), "incorrect"), (asked(WRONG, RIGHT), "correct")):
        said = Feedback(f"Your previous attempt was {verdict}.", "correctness")
        assert await provider.feedback(last) == said


@pytest.mark.parametrize("level", LEVELS)
async def test_verifier_says_what_the_environment_explains(level: str) -> None:
    provider = make_provider("verifier", level=level)
    feedback = await provider.feedback(asked(WRONG))
    assert feedback.text == ENV.explain(PROBLEM, "no idea", WRONG.grade, level)
    assert (provider.sees_reference, feedback.sees_reference) == (level == "full", level == "full")
    assert provider.constant == (level == "verdict")


async def test_levels_by_turn_grow_and_the_last_one_stays() -> None:
    provider = make_provider("verifier", level=["verdict", "location", "full"])
    assert (provider.sees_reference, provider.constant) == (True, False)
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


PAIR = {"even": {"provider": "correctness"}, "odd": {"provider": "policy", "critic": "compact"}}
POLICY, PEER = {"provider": "policy"}, {"provider": "docs/examples/peer.py:Peer"}
SHUFFLED = {"provider": "shuffled", "inner": {"provider": "verifier"}}
SIBLINGS = {"provider": "siblings", "each": {"provider": "verifier"}}


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
        ("shuffled", {"inner": POLICY}, r"rltf\.feedback\.inner\.provider=policy: "),
        ("shuffled", {"inner": SHUFFLED}, r"inner\.provider=shuffled: "),
        ("shuffled", {"inner": {"level": "hint"}}, r"rltf\.feedback\.inner="),
        *(
            ("siblings", {"each": each}, f"each.provider={each['provider']}: must be about one")
            for each in (POLICY, {**PAIR, "provider": "paired"}, PEER, SHUFFLED, SIBLINGS)
        ),
    ],
)
def test_bad_options_name_the_config_key(name: str, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_provider(name, **options)


def asks(critic: ScriptedPolicy, *attempts: str, session_id: int = 0) -> FeedbackRequest:
    request = feedback_fakes.asked(*attempts, session_id=session_id)
    return replace(request, messages=QUESTION, policy=critic)


async def feedback(critic: ScriptedPolicy, *attempts: str, template: str = "compact"):
    return await make_provider("policy", critic=template).feedback(asks(critic, *attempts))


async def test_the_policy_is_asked_about_its_last_attempt_with_its_own_seed():
    critic = ScriptedPolicy(["too short"])
    said = await feedback(critic, "first", "second")
    assert (critic.prompts, critic.seeds) == (["<system>S<user>Q?\n?second\n!"], [77])
    assert (said.text, said.provider, said.sees_reference, said.fallback) == (
        "too short",
        "policy",
        False,
        False,
    )
    # the tokens that were sampled, whatever was taken from their text
    assert said.attempt.prompt_ids == tuple(map(ord, critic.prompts[0]))
    assert said.attempt.response_ids == (*map(ord, "too short"), 0)


@pytest.mark.parametrize("cut", [(), (0,)])
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("plain", "plain"),
        ("  spaced \n", "spaced"),
        ("Thinking.\nCritique: the sum is wrong", "the sum is wrong"),
        ("Critique:\nline 1\nline 2", "line 1\nline 2"),
        ("Critique: a Critique: b", "b"),  # after the last marker
        ("critique: small letters", "critique: small letters"),
    ],
)
async def test_what_stands_behind_the_marker_is_the_critique(answer, text, cut):
    """If it was cut off too: the policy is credited with what came of it, and can learn to be
    brief.
    """
    critique = await feedback(ScriptedPolicy([answer], cut=cut), "a")
    assert critique.text == text
    assert (critique.attempt.text, critique.attempt.ended) == (answer, not cut)


@pytest.mark.parametrize("answer", ["", "  \n", "Critique:", "something Critique:  "])
async def test_an_empty_critique_is_unavailable(answer):
    with pytest.raises(FeedbackUnavailable, match=r"^policy: the policy's critique is empty$"):
        await feedback(ScriptedPolicy([answer]), "a")


async def test_a_prompt_that_never_fits_is_unavailable_and_nothing_is_sampled():
    critic = ScriptedPolicy(["x"], prompt_budget=len("<system>S<user>Q?\n?\n!"))
    with pytest.raises(FeedbackUnavailable, match=r"does not fit; raise data\.max_prompt_length"):
        await feedback(critic, "abc")
    assert critic.prompts == []


@pytest.mark.parametrize("session_id", range(6))
async def test_of_two_paired_episodes_one_hears_each_provider(session_id):
    critic = ScriptedPolicy(["my own"])
    said = await make_provider("paired", **PAIR).feedback(asks(critic, "a", session_id=session_id))
    if session_id % 2:
        assert (said.provider, said.text, said.attempt.text) == ("policy", "my own", "my own")
    else:
        assert (said.provider, said.attempt, critic.prompts) == ("correctness", None, [])


@pytest.mark.parametrize(("even", "sees"), [("full", True), ("hint", False)])
def test_a_pair_sees_the_reference_if_one_of_them_does(even, sees):
    pair = {**PAIR, "even": {"provider": "verifier", "level": even}}
    provider = make_provider("paired", **pair)
    assert (provider.sees_reference, provider.constant) == (sees, False)
    swapped = make_provider("paired", even=pair["odd"], odd=pair["even"])
    assert swapped.sees_reference == sees


async def test_a_failing_half_of_a_pair_says_its_own_name():
    with pytest.raises(FeedbackUnavailable, match=r"^policy: "):
        await make_provider("paired", **PAIR).feedback(
            asks(ScriptedPolicy([""]), "a", session_id=1)
        )
