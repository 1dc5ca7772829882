"""Secrets are cut out of text, innocent text stays."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.feedback.base import FeedbackUnavailable, ask
from rltf_verl.jsonl import append_line, read_lines
from rltf_verl.kinds import plain, shown
from rltf_verl.redaction import Secrets, looks_secret, secrets_here
from rltf_verl.types import Feedback

KEY = "sk-Live_9aZ7+qX/42mNbVcRtYuIoP"


@pytest.mark.parametrize("text", ["{}", "Incorrect API key: {}.", "x{}y", '{{"k": "{}"}}'])
def test_a_secret_is_cut_out_and_the_rest_stays(text: str) -> None:
    secrets = Secrets([KEY, 'other"Secret-77'])
    assert secrets.clean(text.format(KEY)) == text.format("***")
    assert secrets.clean(text.format(KEY.lower())) == text.format("***")
    assert secrets.clean(json.dumps(text.format('other"Secret-77'))) == json.dumps(
        text.format("***")
    )
    assert repr(secrets) == "Secrets(…)"


@given(st.text(max_size=400))
def test_innocent_text_stays(text: str) -> None:
    assert Secrets([KEY, "123456789", "EMPTY"]).clean(text) == text


def test_numbers_placeholders_and_words_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "none of 1 1 1 1 1 1 1 1 is EMPTY; 1, 2, 3, 4, 5, 6, 7, 8, 9, in timestamp order, at"
        " /home/me/.ssh/id_1"
    )
    assert Secrets(["123456789", "EMPTY", "none"]).clean(text) == text
    monkeypatch.setenv("SORT_KEY", "timestamp")
    monkeypatch.setenv("SSH_KEY", "/home/me/.ssh/id_1")
    assert secrets_here().clean(text) == text


def test_passwords_of_proxies_are_secrets_and_odd_proxies_do_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://[odd@x:y")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:Proxy-Word-1@h:80")
    assert secrets_here().clean("proxy me:proxy-word-1@h refused") == "proxy me:***@h refused"


def test_a_quotation_is_short_and_a_cut_does_not_save_a_secret() -> None:
    secrets = Secrets([KEY, "abc"])
    quote = secrets.quote(" " * 19_990 + KEY + "x" * 30_000)
    assert KEY[:6] not in quote
    assert secrets.quote("<b>\n bad   key abc</b>") == "<b> bad key ***</b>"
    assert (
        secrets.quote("at https://me:word@h/v1?key=hush&x=1 with Bearer hush and sk-12****89")
        == "at https://***@h/v1?key=***&x=1 with Bearer *** and ***"
    )
    assert len(secrets.quote("word " * 10_000)) == 200


class Own:
    """A provider of a user's: awaits what it is given."""

    name, sees_reference, constant = "own", False, False

    def __init__(self, answer: Callable[[], Awaitable[object]]) -> None:
        self.feedback = lambda request: answer()


async def asked(answer: Callable[[], Awaitable[object]]) -> Feedback:
    return await ask(Own(answer), None)  # type: ignore[arg-type]


async def failure(answer: Callable[[], Awaitable[object]]) -> FeedbackUnavailable:
    with pytest.raises(FeedbackUnavailable) as info:
        await asked(answer)
    return info.value


async def fails(text: str) -> object:
    try:
        raise ConnectionError(f"GET https://h/?k={text}")
    except ConnectionError as error:
        raise RuntimeError(f"no answer with {text}") from error


async def returns(value: object) -> object:
    return value


async def raises(error: BaseException) -> object:
    raise error


async def test_no_text_of_an_own_provider_has_a_secret_of_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("MY_JUDGE_TOKEN", KEY)
    error = await failure(lambda: fails(KEY))
    assert KEY not in "".join(traceback.format_exception(error)) + repr(error) + error.cause
    assert error.__context__ is None
    assert (await asked(lambda: returns(Feedback(f"use {KEY}", "own")))).text == "use ***"
    assert isinstance((await failure(lambda: fails("harmless"))).__cause__, RuntimeError)


@pytest.mark.parametrize("error", [SystemExit(2), RecursionError(), asyncio.CancelledError()])
async def test_whatever_a_provider_raises_costs_its_feedback_and_no_more(
    error: BaseException,
) -> None:
    if isinstance(error, asyncio.CancelledError) and sys.version_info < (3, 11):
        pytest.skip("Python 3.10 does not say whose end it is")
    assert type(error).__name__ in (await failure(lambda: raises(error))).cause


async def test_an_episode_that_is_ended_ends() -> None:
    task = asyncio.create_task(asked(lambda: asyncio.sleep(60)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_provider_that_returns_none_has_no_feedback() -> None:
    error = await failure(lambda: returns(None))
    assert error.cause == "it returned NoneType, not a Feedback"


def test_no_line_of_a_log_holds_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_JUDGE_TOKEN", KEY)
    path = tmp_path / "log.jsonl"
    append_line(path, {"turns": [{"error": f"bad {KEY}", "n": 1}], "good": "x", KEY: None})
    (record,) = read_lines(path)
    assert record == {"turns": [{"error": "bad ***", "n": 1}], "good": "x", "***": None}


@pytest.mark.parametrize(
    ("name", "value"),
    [("WANDB_API_KEY", "x"), ("DB_PASS", "1"), ("X", "http://me:word@h"), ("X", "{HF_TOKEN: x}")],
)
def test_a_name_or_a_value_shows_a_secret(name: str, value: str) -> None:
    assert looks_secret(name, value)
    assert not looks_secret("TOKENIZERS_PARALLELISM", "Qwen/Qwen2.5-7B-Instruct")


@pytest.mark.parametrize("url", ["http://me:pass@word@h/v1", "https://only-a-name@h:8"])
def test_a_message_about_a_url_shows_neither_user_nor_password(url: str) -> None:
    for text in (shown(url), plain(url), shown([url]), shown({"url": url})):
        assert "://…@h" in text
        assert not any(word in text for word in ("me:", "word", "only"))
    assert plain("http://h:8000/v1") == "http://h:8000/v1"
