"""The judges of a run are asked once before it starts."""

from typing import Any

import pytest

from rltf_verl.adapters.startup.judges import check_endpoints
from rltf_verl.judge.gateway import Judge
from tests.support.judge.server import InThread, JudgeServer


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def judge(url: str, block: str = "rltf.feedback", **endpoint: Any) -> Judge:
    return Judge({"endpoint": {"base_url": url, "model": "m", **endpoint}}, block)


def test_one_request_for_each_endpoint_as_the_run_sends_it() -> None:
    with InThread(JudgeServer()) as thread:
        url = thread.server.url
        other = judge(url, "rltf.env.judges[0]", temperature=0, extra_body={"top_k": 3})
        judges = [judge(url), judge(url, "rltf.feedback.guard.judge"), other]
        assert not list(check_endpoints(judges))
        bodies = sorted(thread.server.bodies, key=lambda body: "top_k" in body)
    assert [sorted(body) for body in bodies] == [
        ["max_tokens", "messages", "model", "seed", "temperature"],
        ["max_tokens", "messages", "model", "temperature", "top_k"],
    ]


@pytest.mark.parametrize(
    ("answer", "level", "words"),
    [
        # what waiting cannot fix refuses the run
        ("401 Unauthorized", "error", ("HTTP 401", "endpoint.api_key_env")),
        ("404 model", "error", ("HTTP 404", "endpoint.model")),
        ("400", "error", ("HTTP 400", "extra_body")),
        ("301", "error", ("HTTP 301", "before /chat/completions")),
        # what may pass is one warning
        ("500", "warning", ("gives no answer", "server_error: HTTP 500")),
        ("429", "warning", ("gives no answer", "rate_limited: HTTP 429")),
    ],
)
def test_an_endpoint_that_refuses(answer: str, level: str, words: tuple[str, str]) -> None:
    status, _, text = answer.partition(" ")

    class Refusing(JudgeServer):
        async def _act(self, action, body, reader, writer):  # type: ignore[no-untyped-def]
            return await self._respond(writer, int(status), text)

    with InThread(Refusing()) as thread:
        (finding,) = check_endpoints([judge(thread.server.url)])
    assert len(thread.server.bodies) == 1, "it is not tried again"
    assert finding.level == level
    assert finding.key == "rltf.feedback.endpoint.base_url"
    for word in words:
        assert word in str(finding)


def test_an_endpoint_that_nobody_listens_at_or_that_hangs_is_one_warning(monkeypatch) -> None:
    found = [*check_endpoints([judge("http://127.0.0.1:9/v1")])]
    monkeypatch.setattr("rltf_verl.judge.client.PATIENCE_S", 0.3)
    with InThread(JudgeServer(script=["hang"])) as thread:
        found += check_endpoints([judge(thread.server.url)])
    gone, hangs = map(str, found)
    assert "127.0.0.1:9/v1: gives no answer now (connection: ClientConnectorError" in gone
    assert "start the endpoint or correct endpoint.base_url" in gone
    assert "(timeout: no answer in 0.3 s)" in hangs
