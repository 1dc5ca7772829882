"""The provider `judge`: from an attempt to feedback, over real HTTP."""

from __future__ import annotations

import json
import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rltf_verl.feedback import make_provider
from rltf_verl.feedback.base import FeedbackUnavailable
from rltf_verl.judge.gateway import judges_of
from rltf_verl.judge.runtime import runtime_of
from rltf_verl.judge.settings import JudgeSettings
from tests.support.judge.calls import QUICK, request
from tests.support.judge.server import JudgeServer


@asynccontextmanager
async def judging(server: JudgeServer, **options: Any) -> AsyncIterator[Any]:
    async with server:
        limits = {**QUICK, **options.pop("limits", {})}
        yield make_provider(
            "judge", endpoint={"base_url": server.url, "model": "m"}, limits=limits, **options
        )


def scripted(*replies: str) -> JudgeServer:
    told = list(replies)
    return JudgeServer(reply=lambda body: told.pop(0))


async def test_feedback_is_what_follows_the_marker() -> None:
    async with judging(JudgeServer()) as provider:
        feedback = await provider.feedback(request("13"))
    assert (feedback.text, feedback.provider) == ("Look at\nthe second line again.", "judge")
    assert (feedback.sees_reference, feedback.prompt_tokens, feedback.completion_tokens) == (
        True,
        100,
        20,
    )
    assert feedback.latency_s > 0


async def test_the_prompt_is_the_style_s() -> None:
    server = JudgeServer()
    async with judging(server, style="short") as provider:
        assert not provider.constant
        await provider.feedback(request("13", seed=9))
    (message,) = server.bodies[0]["messages"]
    assert "keep it very short" in message["content"]
    assert server.bodies[0]["seed"] == 9


@pytest.mark.parametrize(
    ("style", "option", "shown"),
    [
        ("short", {}, False),
        ("hint", {"reference": False}, False),
        ("short", {"reference": True}, True),
    ],
)
async def test_the_reference_can_be_shown_or_hidden(
    style: str, option: dict[str, bool], shown: bool
) -> None:
    server = JudgeServer()
    async with judging(server, style=style, **option) as provider:
        feedback = await provider.feedback(request("13"))
    assert (provider.sees_reference, feedback.sees_reference) == (shown, shown)
    assert ("\n42\n" in server.bodies[0]["messages"][0]["content"]) == shown


async def test_a_reply_without_feedback_is_asked_for_once_more_and_counted() -> None:
    server = scripted("Thinking: a\n\nCritique:", "Critique: b")
    async with judging(server) as provider:
        assert (await provider.feedback(request("13", seed=1))).text == "b"
        assert [body["seed"] for body in server.bodies] == [1, 2]
        assert runtime_of(provider.settings).stats.since_start["noted/empty"] == 1


async def test_twice_nothing_is_no_feedback() -> None:
    server = scripted("Critique:", "<|im_end|>")
    async with judging(server) as provider:
        with pytest.raises(
            FeedbackUnavailable,
            match=r"judge: no feedback in the judge's reply, twice \(no_marker, empty",
        ):
            await provider.feedback(request("13"))


async def test_an_endpoint_that_is_gone_is_no_feedback_within_the_deadline() -> None:
    options = {"limits": {"max_attempts": 2}}
    async with judging(JudgeServer(), **options) as provider:
        pass
    with pytest.raises(
        FeedbackUnavailable,
        match=r"judge: rltf\.feedback: http.* gave no reply in 2 tries, last failure: connection",
    ) as info:
        await provider.feedback(request("13"))
    again = pickle.loads(pickle.dumps(info.value))
    assert (str(again), again.cause) == (
        str(info.value),
        info.value.cause,
    ), "on_error=raise carries it through Ray"


def test_judges_with_equal_settings_share_a_runtime_and_others_do_not() -> None:
    def judge(style: str, model: str) -> dict[str, Any]:
        endpoint = {
            "base_url": "http://127.0.0.1:9/v1",
            "model": model,
            "extra_body": {"b": [1], "a": {"c": 2}},
        }
        return {"provider": "judge", "style": style, "endpoint": endpoint}

    def settings(even: dict[str, Any], odd: dict[str, Any]) -> list[JudgeSettings]:
        judges = judges_of(make_provider("paired", even=even, odd=odd))
        return list({judge.settings for judge in judges})

    one = settings(judge("hint", "m"), judge("short", "m"))
    two = settings(judge("hint", "m"), judge("hint", "n"))
    assert (len(one), len(two)) == (1, 2)
    assert json.loads(one[0].endpoint.extra_body) == {"a": {"c": 2}, "b": [1]}
    assert judges_of(make_provider("verifier")) == ()
