"""RateLimit, breaker, counters and settings, by the clock of the test."""

import sys
from typing import Any

import pytest

from rltf_verl.feedback import make_provider
from rltf_verl.findings import ConfigError
from rltf_verl.judge.client import LONGEST_REPLY, Fault, read_reply, retry_after
from rltf_verl.judge.limits import Breaker, RateLimit
from rltf_verl.judge.wire import Reply


def test_a_pace_lets_a_second_of_requests_through_at_once_and_then_one_by_one() -> None:
    """An idle minute saves up no more than a second of them."""
    pace, now, begun = RateLimit(120), 0.0, []
    for arrival in [100.0] * 6 + [160.0] * 5:
        now = max(now, arrival)
        now += pace.wait(now)
        pace.take(now, 1.0)
        begun.append(now)
    assert begun[:6] == pytest.approx([100.0, 100.0, 100.0, 100.5, 101.0, 101.5])
    assert begun[6:] == pytest.approx([160.0, 160.0, 160.0, 160.5, 161.0])


def test_a_pace_learns_what_a_request_really_took() -> None:
    pace = RateLimit(60)
    pace.take(0.0, 10)
    assert pace.wait(0.0) == pytest.approx(9.0)
    pace.correct(-8)
    assert pace.wait(0.0) == pytest.approx(1.0)


def test_a_breaker_opens_probes_and_closes() -> None:
    breaker = Breaker(failures=2, after_s=10.0, probe_s=5.0)
    for now in (0.0, 1.0, 9.9):
        breaker.failed(now)
        assert breaker.admit(now), "a short outage is ridden out"
    breaker.failed(10.0)
    assert (breaker.state, breaker.down_for(12.0)) == ("open", 12.0)
    assert [breaker.admit(t) for t in (14.9, 15.0, 15.1)] == [False, True, False], "one probe"
    breaker.failed(16.0)
    assert [breaker.admit(t) for t in (20.9, 21.0)] == [False, True]
    assert breaker.admit(26.0), "a probe that never came back does not block the next"
    breaker.succeeded()
    assert [breaker.admit(26.1)] * 2 == [True, True]
    breaker.failed(99.0)
    assert breaker.state == "closed", "the count began anew"
    assert breaker.num_opened == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_retry_after_in_its_three_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "null",
        '{"choices": {}}',
        '{"choices": [{"message": {"content": "x"}}], "usage": 3}',
        '{"choices": [{"message": {"content": 3}}]}',
        '{"choices": [{"message": {"content": "x"}, "finish_reason": "abort"}]}',
    ],
)
def test_bodies_that_are_no_replies(body: str) -> None:
    with pytest.raises(Fault) as info:
        read_reply(body)
    assert info.value.kind == "bad_reply"


LONG = "a" * LONGEST_REPLY
"""What a judge says last counts."""


@pytest.mark.parametrize(
    ("content", "finish", "reply"),
    [
        pytest.param(f'"{LONG}Critique: b"', "stop", Reply(f"{LONG}Critique: b"[11:]), id="long"),
        (
            '[{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]',
            "stop",
            Reply("in parts"),
        ),
        ('"x"', "length", Reply("x", complete=False)),
        ('"x"', "content_filter", Reply("x", complete=False)),
        ("null", "stop", Reply("")),
    ],
)
def test_a_reply_without_usage_counts_no_tokens(content: str, finish: str, reply: Reply) -> None:
    choice = f'{{"message": {{"content": {content}}}, "finish_reason": "{finish}"}}'
    assert read_reply(f'{{"choices": [{choice}]}}') == reply


URL = {"base_url": "http://127.0.0.1:8000/v1", "model": "m"}
BAD = {  # options, and the key that is refused
    "no endpoint": ({}, "endpoint.base_url"),
    "a missing value": ({"endpoint": {**URL, "base_url": "???"}}, "endpoint.base_url"),
    "no model": ({"endpoint": {**URL, "model": "???"}}, "endpoint.model"),
    "too much of a URL": (
        {"endpoint": {**URL, "base_url": "http://h/v1/chat/completions"}},
        "endpoint.base_url",
    ),
    "an unknown key": ({"endpoint": {**URL, "modle": 1}}, "endpoint.modle"),
    "a cold judge": ({"endpoint": {**URL, "temperature": -1}}, "endpoint.temperature"),
    "no reply": ({"endpoint": {**URL, "max_tokens": 0}}, "endpoint.max_tokens"),
    "an unknown limit": (
        {"endpoint": URL, "limits": {"deadline": 3}},
        "limits.deadline",
    ),
    "no concurrency": (
        {"endpoint": URL, "limits": {"max_concurrency": 0}},
        "limits.max_concurrency",
    ),
    "half a request": (
        {"endpoint": URL, "limits": {"max_attempts": 1.5}},
        "limits.max_attempts",
    ),
    "a text": ({"endpoint": URL, "limits": {"deadline_s": "5m"}}, "limits.deadline_s"),
    "money back": ({"endpoint": URL, "price": {"prompt": -1}}, "price.prompt"),
    "a body that is none": ({"endpoint": {**URL, "extra_body": "{"}}, "endpoint.extra_body"),
    "a body of ours": (
        {"endpoint": {**URL, "extra_body": {"model": "x"}}},
        "endpoint.extra_body",
    ),
    "a folder of numbers": ({"endpoint": URL, "cache_dir": 3}, "cache_dir"),
    "a style": ({"endpoint": URL, "style": "hnt"}, "style"),
}


@pytest.mark.parametrize(("options", "key"), BAD.values(), ids=list(BAD))
def test_bad_options_name_their_key(options: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_provider("judge", **options)
    assert refused.value.finding.key == f"rltf.feedback.{key}"


async def test_a_missing_key_or_package_says_so(monkeypatch) -> None:
    from rltf_verl.judge.runtime import JudgeRuntime
    from tests.support.judge.calls import settings

    wanted = settings("http://127.0.0.1:9/v1", endpoint={"api_key_env": "RLTF_NO_SUCH_KEY"})
    with pytest.raises(ValueError, match="api_key_env=RLTF_NO_SUCH_KEY: "):
        JudgeRuntime(wanted)
    for package in ("aiohttp", "tenacity"):
        monkeypatch.setitem(sys.modules, package, None)
    assert make_provider("judge", endpoint=URL).sees_reference, "it can be listed and checked"
    with pytest.raises(
        ValueError, match=r"the package \w+ is missing; pip install rltf-verl\[judge\]"
    ):
        JudgeRuntime(wanted)
