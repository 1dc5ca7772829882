"""Several providers as one."""

from __future__ import annotations

import asyncio

import pytest

from rltf_verl import feedback
from rltf_verl.feedback import make_provider
from rltf_verl.feedback.base import FeedbackUnavailable
from tests.support.feedback_fakes import Scripted, asked, turn


class Says(Scripted):
    """A provider of the registry that says its option; null fails, `boom` breaks."""

    def __init__(self, text: str | None, sees: bool = False) -> None:
        super().__init__(text, sees_reference=sees)

    async def feedback(self, request):
        await asyncio.sleep(0)
        if self.texts[0] == "boom":
            raise KeyError("boom")
        return await super().feedback(request)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(feedback._PROVIDERS, "says", f"{__name__}:Says")


def ensemble(rule: str, *texts: str | None, **options):
    return make_provider(
        "ensemble", rule=rule, members=[{"provider": "says", "text": t, **options} for t in texts]
    )


async def test_first_is_the_first_that_answers_and_the_others_are_not_asked():
    provider = ensemble("first", None, "boom", "yes", "no")
    assert (await provider.feedback(asked())).text == "yes"
    assert [len(member.requests) for member in provider.members] == [1, 0, 1, 0]


async def test_concatenate_keeps_the_order_and_leaves_out_who_failed():
    said = await ensemble("concatenate", "a", None, "b", "boom").feedback(asked())
    assert (said.text, said.provider, said.sees_reference) == ("a\n\nb", "ensemble", False)


@pytest.mark.parametrize(
    ("texts", "winner"),
    [
        (["no", "Yes.", "yes. "], "Yes."),
        (["a", "b"], "a"),
        (["a", "b", "B", None], "b"),
        ([None, "c"], "c"),
    ],
)
async def test_vote(texts, winner):
    assert (await ensemble("vote", *texts).feedback(asked())).text == winner


@pytest.mark.parametrize("rule", ["first", "vote", "concatenate"])
async def test_when_all_fail_every_cause_is_named(rule):
    with pytest.raises(FeedbackUnavailable) as refused:
        await ensemble(rule, None, "boom").feedback(asked())
    cause = "ensemble: no member had any: scripted: nobody there; scripted: KeyError: 'boom'"
    assert str(refused.value) == cause


async def test_it_sees_the_reference_if_a_member_does():
    mixed = make_provider(
        "ensemble",
        members=[
            {"provider": "says", "text": None},
            {"provider": "says", "text": "x", "sees": True},
        ],
    )
    assert mixed.sees_reference
    assert (await mixed.feedback(asked())).sees_reference
    assert not ensemble("first", "a").sees_reference


def test_it_is_constant_if_all_members_are():
    fixed = [{"provider": "correctness"}, {"provider": "try_again"}]
    assert make_provider("ensemble", members=fixed).constant
    assert not make_provider("ensemble", members=[*fixed, {"provider": "verifier"}]).constant


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": []}, r"rltf\.feedback\.members=\[\]: must be a list of blocks"),
        ({"members": {"provider": "x"}}, r"rltf\.feedback\.members=.*must be a list of blocks"),
        ({"members": [{"level": "full"}]}, r"rltf\.feedback\.members\[0\]=.*has no `provider`"),
        ({"members": ["verifier"]}, r"rltf\.feedback\.members=.*must be a list of blocks"),
        ({"members": [{"provider": "policy"}]}, "a critique that the policy writes is trained on"),
        (
            {"members": [{"provider": "verifier"}], "rule": "frist"},
            r"rltf\.feedback\.rule='frist'.*mean 'first'",
        ),
    ],
)
def test_what_cannot_work_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make_provider("ensemble", **options)


async def test_try_again():
    provider = make_provider("try_again")
    assert (provider.constant, provider.sees_reference) == (True, False)
    assert (await provider.feedback(asked("41"))).text == "Let's try again."
    assert (await provider.feedback(asked(turn("42")))).text == "Your previous attempt was correct."
    assert (
        await make_provider("try_again", text="Once more!").feedback(asked("41"))
    ).text == "Once more!"
    with pytest.raises(
        ValueError, match=r"rltf\.feedback\.text=' ': must be text that is not blank"
    ):
        make_provider("try_again", text=" ")
