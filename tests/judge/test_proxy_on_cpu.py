"""What a proxy of the environment sees of a judge's requests, on real connections."""

import base64
import ssl

import pytest

from rltf_verl.findings import ConfigError
from rltf_verl.judge.client import first_answers, proxy_of
from rltf_verl.judge.gateway import Judge
from rltf_verl.judge.runtime import JudgeRuntime
from rltf_verl.judge.settings import Endpoint
from rltf_verl.judge.wire import JudgeUnavailable
from tests.support.judge.calls import call, settings
from tests.support.judge.proxy import CERTIFICATE, RecordingProxy
from tests.support.judge.server import SAID, JudgeServer

KEY = "sk-For-the-judge-0815"
USERS = {"": "", "http://": "", "http://me:p%40ss-Word1@": "me:p@ss-Word1"}
"""What a proxy has before its host -> user and password. Without a scheme it is an http proxy."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("JUDGE_KEY", KEY)
    monkeypatch.setenv("SSL_CERT_FILE", CERTIFICATE)
    return monkeypatch


def server_with_tls(**options: object) -> JudgeServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return JudgeServer(tls=context, **options)  # type: ignore[arg-type]


async def asked(url: str, **endpoint: object) -> str:
    runtime = JudgeRuntime(settings(url, endpoint=endpoint, max_attempts=1))
    try:
        return (await runtime.complete(call())).text
    finally:
        await runtime.aclose()


def heads(received: bytes) -> dict[str, str]:
    """Name -> value of the first head's lines."""
    lines = received.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (s.partition(":") for s in lines)}


@pytest.mark.parametrize("user", USERS)
async def test_no_header_of_an_https_endpoint_reaches_a_proxy(environment, user: str) -> None:
    async with server_with_tls(key=KEY) as server, RecordingProxy(server.port) as proxy:
        environment.setenv("HTTPS_PROXY", f"{user}127.0.0.1:{proxy.port}")
        assert await asked("https://judge.invalid/v1", api_key_env="JUDGE_KEY") == SAID
    assert proxy.received.startswith(b"CONNECT judge.invalid:443 ")
    sent = heads(bytes(proxy.received))
    basic = base64.b64encode(USERS[user].encode()).decode()
    assert sent.pop("proxy-authorization", "") == (f"Basic {basic}" if USERS[user] else "")
    assert set(sent) <= {"host", "user-agent", "accept", "accept-encoding"}, "aiohttp's own"
    assert sent.get("accept-encoding") != "identity", "ours"
    for form in (KEY, base64.b64encode(KEY.encode()).decode(), "Bearer"):
        assert form.encode() not in proxy.received


@pytest.mark.parametrize("user", USERS)
async def test_an_http_endpoint_with_a_key_is_not_asked_through_a_proxy(
    environment, user: str
) -> None:
    url = "http://judge.invalid/v1"
    async with JudgeServer() as server, RecordingProxy(server.port) as proxy:
        environment.setenv("http_proxy", f"{user}127.0.0.1:{proxy.port}")
        judge = Judge(
            {"endpoint": {"base_url": url, "model": "m", "api_key_env": "JUDGE_KEY"}}, "x"
        )
        with pytest.raises(ConfigError, match=r"x\.endpoint\.base_url=.*NO_PROXY") as refused:
            judge.require_client()
        assert "Word1" not in str(refused.value)
        assert proxy.received == b""
        assert await asked(url) == SAID, "without a key there is nothing to hide"
        assert ("proxy-authorization" in heads(bytes(proxy.received))) == bool(USERS[user])
        assert KEY.encode() not in proxy.received
        environment.setenv("NO_PROXY", "judge.invalid")
        judge.require_client()


async def test_a_redirect_is_not_followed_and_a_cookie_is_not_sent_back(environment) -> None:
    async with server_with_tls(key=KEY) as server, RecordingProxy(server.port) as proxy:
        environment.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        plain = server._response
        server._response = lambda *request: (  # type: ignore[method-assign]
            307,
            "Location: http://elsewhere.invalid/\r\nSet-Cookie: a=b",
            plain(*request)[2],
        )
        with pytest.raises(JudgeUnavailable, match="redirects to"):
            await asked("https://judge.invalid/v1", api_key_env="JUDGE_KEY")
    assert proxy.received.count(b"CONNECT ") == 1
    assert b"elsewhere" not in proxy.received


@pytest.mark.parametrize("proxy", ["socks5://me:p-Word-12@h:1080", "http://h:port", "http://"])
def test_a_proxy_that_is_none_is_refused_with_its_cause(environment, proxy: str) -> None:
    environment.setenv("ALL_PROXY", proxy)
    judge = Judge({"endpoint": {"base_url": "https://judge.example/v1", "model": "m"}}, "x")
    with pytest.raises(ConfigError, match="proxy") as refused:
        judge.require_client()
    assert "Word-12" not in str(refused.value)


@pytest.mark.parametrize("text", [None, "no certificate"])
def test_certificates_that_cannot_be_read_are_refused_by_name(environment, tmp_path, text) -> None:
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    environment.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(ConfigError, match=f"SSL_CERT_FILE={file}"):
        first_answers([Endpoint("https://127.0.0.1:1/v1", "m")])


@pytest.mark.parametrize(
    ("url", "exempt", "proxied"),
    [
        ("https://judge.example/v1", "localhost,127.0.0.1", True),
        ("http://judge.example/v1", "", False),
        ("https://127.0.0.1:8000/v1", "localhost,127.0.0.1", False),
        ("https://127.0.0.1:9000/v1", "127.0.0.1:9000", False),
        ("https://127.0.0.1:8000/v1", "127.0.0.1:9000", True),
    ],
)
def test_a_proxy_is_the_one_of_the_environment(environment, url, exempt, proxied) -> None:
    assert proxy_of(Endpoint(url, "m")) is None
    environment.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    environment.setenv("NO_PROXY", exempt)
    assert proxy_of(Endpoint(url, "m")) == ("http://proxy.example:3128" if proxied else None)
