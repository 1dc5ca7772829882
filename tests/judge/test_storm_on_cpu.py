"""Every fault that an endpoint can have, many at once: no call is lost, none hangs, and the key is
nowhere.
"""

import asyncio
import json
import logging
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.feedback import make_provider
from rltf_verl.feedback.base import FeedbackUnavailable, ask
from rltf_verl.judge.client import LOGGERS, read_reply
from rltf_verl.judge.limits import (
    LONGEST_REPLY_TOKENS,
    TEMPLATE_TOKENS,
    RateLimit,
    guessed_tokens,
    possible,
)
from rltf_verl.judge.runtime import JudgeRuntime, runtime_of
from rltf_verl.judge.wire import JudgeUnavailable, Reply
from rltf_verl.objectives.base import VERL_REDUCES
from rltf_verl.redaction import Secrets
from rltf_verl.texts import CHAT_TOKENS, clean_text
from rltf_verl.types import Feedback
from tests.support.judge.calls import QUICK, call, request, settings
from tests.support.judge.server import SAID, InThread, JudgeServer
from tests.support.judge.storm import KEY, KINDS, RESPONSES, StormServer

SECRETS = Secrets([KEY])
LIMITS = {
    **QUICK,
    "request_timeout_s": 2.0,
    "max_attempts": 6,
    "max_reply_bytes": 500_000,
    "retry_after_cap_s": 0.2,
    "max_concurrency": 32,
    "tokens_per_minute": 1e9,
}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORM_KEY", KEY)


def written_in(folder: Path) -> str:
    return "\n".join(path.read_text("utf-8") for path in folder.rglob("*.jsonl"))


async def test_a_storm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("", *LOGGERS):
        caplog.set_level(logging.DEBUG, name)
    with InThread(
        StormServer(latency=lambda rng: rng.uniform(0, 0.01), keep_bodies=False)
    ) as thread:
        endpoint = {"base_url": thread.server.url, "model": "m", "api_key_env": "STORM_KEY"}
        provider = make_provider(
            "judge", endpoint=endpoint, limits=LIMITS, cache_dir=str(tmp_path / "cache")
        )
        asked = [ask(provider, request(f"try {i}", seed=2 * i)) for i in range(200)]
        outcomes = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 300)
        runtime = runtime_of(provider.settings)  # type: ignore[attr-defined]
        stats, values = runtime.stats, runtime.snapshot()
        await runtime.aclose()
    assert set(KINDS) <= set(thread.server.counts), "all kinds of fault came"
    answers = [outcome for outcome in outcomes if isinstance(outcome, Feedback)]
    failures = [outcome for outcome in outcomes if isinstance(outcome, FeedbackUnavailable)]
    assert len(answers) + len(failures) == 200, "no call is lost"
    assert not any("JudgeUnavailable" in failure.cause for failure in failures)
    assert len(answers) >= 140, "the others have their answers"
    assert (stats.in_flight, stats.waiting) == (0, 0)
    counted = stats.since_start
    failed = sum(counted[k] for k in counted if k.startswith("failed/"))
    assert counted["calls"] == counted["answered"] + counted["cache_hits"] + failed
    faults = sum(counted[k] for k in counted if k.startswith("faults/"))
    assert counted["requests"] == counted["answered_requests"] + faults
    assert counted["failed/internal"] == 0
    assert 0 <= values["tokens_run"] < 400 * (5000 + 1024)
    assert {"latency_p50_s", "request_p99_s", "faults/timeout_share", "queue/max"} <= set(values)
    names = [name.removesuffix("/max") for name in values]
    assert not [name for name in names if any(word in name for word in VERL_REDUCES)]
    for text in (
        *(json.dumps(answer.text) for answer in answers),
        *("".join(traceback.format_exception(error)) + error.cause for error in failures),
        written_in(tmp_path),
        repr(provider.settings),
        *(r.getMessage() for r in caplog.records),
    ):  # type: ignore[attr-defined]
        assert not SECRETS.found_in(text), text[:300]
    for answer in answers:
        assert answer.text == clean_text(answer.text)
        assert CHAT_TOKENS.search(answer.text) is None


@pytest.mark.parametrize("kind", RESPONSES)
async def test_each_fault_ends_as_a_reply_or_in_one_short_clean_line(kind: str) -> None:
    options = {**LIMITS, "max_attempts": 1, "endpoint": {"api_key_env": "STORM_KEY"}}
    with InThread(StormServer(every=1)) as thread:
        thread.server._choose = lambda: kind  # type: ignore[method-assign]
        runtime = JudgeRuntime(settings(thread.server.url, **options))
        (outcome,) = await asyncio.gather(runtime.complete(call()), return_exceptions=True)
        await runtime.aclose()
    if isinstance(outcome, Reply):
        assert not SECRETS.found_in(outcome.text)
        assert max(outcome.prompt_tokens, outcome.completion_tokens) < 2000
        outcome.text.encode()
        return
    assert isinstance(outcome, JudgeUnavailable)
    assert len(outcome.cause) < 500
    assert "\n" not in outcome.cause
    if kind == "huge body":
        assert "limits.max_reply_bytes" in outcome.cause
    chain: BaseException | None = outcome
    while chain is not None:  # whatever hangs on it, suppressed or not
        assert not SECRETS.found_in("".join(traceback.format_exception(chain)))
        assert type(chain).__module__.partition(".")[0] not in ("aiohttp", "yarl")
        chain = chain.__cause__ or chain.__context__


NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.just(10**400),
    st.just(-(10**400)),
    st.none(),
    st.text(max_size=3),
)


LIMIT = st.fixed_dictionaries(
    {},
    optional={
        "max_tokens": st.none() | st.integers(1, 5000),
        "max_completion_tokens": st.integers(1, 5000),
    },
)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.text(max_size=30)), min_size=1, max_size=20), LIMIT)
def test_no_usage_leaves_a_debt_that_its_request_could_not_make(
    replies: list[tuple[Any, Any, str]], limit: dict[str, int | None]
) -> None:
    pace, most = RateLimit(60.0), 0.0
    longest = max(filter(None, limit.values()), default=LONGEST_REPLY_TOKENS)
    for prompt, completion, text in replies:
        body = {"messages": [{"role": "user", "content": text}], **limit}
        usage = {"prompt_tokens": prompt, "completion_tokens": completion}
        reply = possible(
            read_reply(json.dumps({"choices": [{"message": {"content": "x"}}], "usage": usage})),
            body,
        )
        assert 0 <= reply.prompt_tokens <= len(text.encode()) + TEMPLATE_TOKENS
        assert 0 <= reply.completion_tokens <= longest
        estimate = guessed_tokens(body)
        pace.take(0.0, estimate)
        used = reply.prompt_tokens + reply.completion_tokens
        pace.correct((used or guessed_tokens(body, reply)) - estimate)
        most += len(text.encode()) + TEMPLATE_TOKENS + longest
    assert 0 <= pace.wait(0.0) <= most


async def test_a_key_that_no_header_may_hold_is_refused_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STORM_KEY", f"{KEY}\u2026")
    with pytest.raises(
        ValueError, match="api_key_env=STORM_KEY: the key in it holds characters"
    ) as info:
        JudgeRuntime(settings("http://127.0.0.1:9/v1", endpoint={"api_key_env": "STORM_KEY"}))
    assert not SECRETS.found_in(str(info.value))
    monkeypatch.setenv("STORM_KEY", f"{KEY}\n")
    with InThread(JudgeServer(key=KEY)) as thread:
        runtime = JudgeRuntime(settings(thread.server.url, endpoint={"api_key_env": "STORM_KEY"}))
        assert (await runtime.complete(call())).text == SAID
        await runtime.aclose()
