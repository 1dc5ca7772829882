"""Self-critique: what is asked of the policy, what is taken from its answer, and when there is
none.
"""

from __future__ import annotations

import pytest

from rltf_verl.feedback import make_provider
from rltf_verl.feedback.base import FeedbackRequest, FeedbackUnavailable
from rltf_verl.types import Attempt, Grade, Problem, Turn

QUESTION = [{"role": "system", "content": "S"}, {"role": "user", "content": "Q?"}]


class Critic:
    """Says what it is told, one token per character; remembers prompts and seeds."""

    def __init__(self, text: str, prompt_budget: int = 10_000, ended: bool = True) -> None:
        self.text, self.prompt_budget, self.ended = text, prompt_budget, ended
        self.asked: list[tuple[str, int]] = []

    async def encode(self, messages: list[dict[str, str]]) -> tuple[int, ...]:
        return tuple(ord(c) for m in messages for c in f"<{m['role']}>{m['content']}")

    async def sample(self, prompt_ids: tuple[int, ...], seed: int) -> Attempt:
        self.asked.append(("".join(map(chr, prompt_ids)), seed))
        ids = tuple(map(ord, self.text))
        return Attempt(prompt_ids, ids, (-0.5,) * len(ids), self.text, self.ended)


def turn(text: str) -> Turn:
    return Turn(Attempt((1,), (2,), None, text, ended=True), Grade(False, True), reward=0.0)


def asked(critic: Critic, *attempts: str, session_id: int = 0) -> FeedbackRequest:
    problem = Problem("echo", 0, {}, "the reference")
    return FeedbackRequest(
        None, problem, QUESTION, [turn(a) for a in attempts], session_id, critic, seed=77
    )


async def feedback(critic: Critic, *attempts: str, template: str = "compact"):
    return await make_provider("policy", critic=template).feedback(asked(critic, *attempts))


async def test_the_policy_is_asked_about_its_last_attempt_with_its_own_seed():
    critic = Critic("too short")
    said = await feedback(critic, "first", "second")
    assert critic.asked == [("<system>S<user>Q?\n?second\n!", 77)]
    assert (said.text, said.provider, said.sees_reference, said.fallback) == (
        "too short",
        "policy",
        False,
        False,
    )
    # the tokens that were sampled, whatever was taken from their text
    assert said.attempt == Attempt(
        tuple(map(ord, critic.asked[0][0])),
        tuple(map(ord, "too short")),
        (-0.5,) * 9,
        "too short",
        ended=True,
    )


async def test_the_prompt_holds_question_and_attempt_and_never_the_reference():
    critic = Critic("x")
    await feedback(critic, "my answer", template="critique")
    ((prompt, _),) = critic.asked
    assert "Q?" in prompt
    assert "my answer" in prompt
    assert "the reference" not in prompt


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
async def test_what_stands_behind_the_marker_is_the_critique(answer, text):
    said = await feedback(Critic(answer), "a")
    assert said.text == text
    assert said.attempt.text == answer


async def test_a_critique_that_was_cut_off_counts_as_far_as_it_got():
    """So that the policy is credited with what came of it, and can learn to be brief."""
    said = await feedback(Critic("Critique: the sum is wro", ended=False), "a")
    assert (said.text, said.attempt.ended) == ("the sum is wro", False)


@pytest.mark.parametrize("answer", ["", "  \n", "Critique:", "something Critique:  "])
async def test_an_empty_critique_is_unavailable(answer):
    with pytest.raises(FeedbackUnavailable, match=r"^policy: the policy's critique is empty$"):
        await feedback(Critic(answer), "a")


async def test_a_long_attempt_is_quoted_by_its_tail():
    critic = Critic("x", prompt_budget=len("<system>S<user>Q?\n?\n!") + 4)
    await feedback(critic, "abcdefgh")
    assert critic.asked[0][0] == "<system>S<user>Q?\n?…fgh\n!"


async def test_a_prompt_that_never_fits_is_unavailable_and_nothing_is_sampled():
    critic = Critic("x", prompt_budget=len("<system>S<user>Q?\n?\n!"))
    with pytest.raises(FeedbackUnavailable, match=r"does not fit; raise data\.max_prompt_length"):
        await feedback(critic, "abc")
    assert critic.asked == []


def test_what_it_declares():
    provider = make_provider("policy")
    assert (provider.name, provider.sees_reference, provider.constant) == ("policy", False, False)


def test_an_unknown_template_names_the_key_and_the_closest():
    with pytest.raises(
        ValueError, match=r"rltf\.feedback\.critic='compat': is not known.*Did you mean 'compact'"
    ):
        make_provider("policy", critic="compat")


PAIR = {"even": {"provider": "correctness"}, "odd": {"provider": "policy", "critic": "compact"}}


@pytest.mark.parametrize("session_id", range(6))
async def test_of_two_paired_episodes_one_hears_each_provider(session_id):
    critic = Critic("my own")
    said = await make_provider("paired", **PAIR).feedback(asked(critic, "a", session_id=session_id))
    if session_id % 2:
        assert (said.provider, said.text, said.attempt.text) == ("policy", "my own", "my own")
    else:
        assert (said.provider, said.attempt, critic.asked) == ("correctness", None, [])


@pytest.mark.parametrize(("even", "sees"), [("full", True), ("hint", False)])
def test_a_pair_sees_the_reference_if_one_of_them_does(even, sees):
    pair = {**PAIR, "even": {"provider": "verifier", "level": even}}
    provider = make_provider("paired", **pair)
    assert (provider.sees_reference, provider.constant) == (sees, False)
    swapped = make_provider("paired", even=pair["odd"], odd=pair["even"])
    assert swapped.sees_reference == sees


async def test_a_failing_half_of_a_pair_says_its_own_name():
    with pytest.raises(FeedbackUnavailable, match=r"^policy: the policy's critique is empty$"):
        await make_provider("paired", **PAIR).feedback(asked(Critic(""), "a", session_id=1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"even": {"level": "full"}, "odd": {}},
            r"rltf\.feedback\.even=\{'level': 'full'\}: has no `provider`",
        ),
        (
            {**PAIR, "odd": {}},
            r"rltf\.feedback\.odd=\{\}: has no `provider`; name one, e\.g\. \{provider: policy\}",
        ),
        ({**PAIR, "odd": {"provider": "polcy"}}, r"'polcy': is not known.*Did you mean 'policy'"),
        (
            {**PAIR, "odd": {"provider": "policy", "critc": 1}},
            r"policy has no option 'critc'.*Did you mean 'critic'",
        ),
    ],
)
def test_a_pair_that_cannot_be_made_says_why(options, message):
    with pytest.raises(ValueError, match=message):
        make_provider("paired", **options)
