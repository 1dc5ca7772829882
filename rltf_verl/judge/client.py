"""One request to an OpenAI-compatible endpoint: it ends with a reply, or with a fault of a named
kind.

Text from the endpoint is cleaned here: it may quote the API key, in an error or in a reply.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from rltf_verl.findings import ConfigError, Finding
from rltf_verl.judge.settings import Endpoint, JudgeLimits
from rltf_verl.judge.wire import Reply
from rltf_verl.redaction import Secrets, clean_log, secrets_here

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

TRANSIENT = ("rate_limited", "server_error", "timeout", "connection", "bad_reply")
"""Kinds of faults that another try may not meet; `refused` it will."""

ENDPOINT_FAULTS = ("server_error", "timeout", "connection", "bad_reply")
"""Kinds that the breaker counts: the endpoint itself is in trouble."""

BROKEN_OFF = ("abort", "error", "insufficient_system_resource")
"""`finish_reason` of half a reply that comes with HTTP 200, and may be whole the next time."""
CUT_OFF = ("length", "content_filter")
"""`finish_reason` of half a reply that the same request has again."""

LONGEST_REPLY = 400_000
"""Characters of a reply that are kept, its last ones: no model says more at once."""

MOST_TOKENS = 10**9
"""Bound for an endpoint's count of a prompt or a reply."""

FIXES = {
    "refused": "correct endpoint (model, api_key_env, base_url, extra_body)",
    "rate_limited": "lower limits.requests_per_minute, tokens_per_minute or max_concurrency",
    "connection": "start the endpoint or correct endpoint.base_url",
    "timeout": "raise limits.request_timeout_s or lower max_concurrency",
    "server_error": "look at the endpoint's log",
    "bad_reply": "look at what answers at endpoint.base_url",
}
"""Kind of a fault -> what to change."""

BY_STATUS = {
    401: "correct the key in the variable that endpoint.api_key_env names",
    403: "correct the key in the variable that endpoint.api_key_env names, or its rights",
    404: "correct endpoint.model or endpoint.base_url",
}
"""HTTP status of a refusal -> what to change, where that is known more exactly."""

PATIENCE_S = 10.0
QUESTION = {"role": "user", "content": "Reply with the word ok, and nothing else."}

LOGGERS = ("aiohttp.client", "aiohttp.internal")
"""Loggers of the HTTP library: they log addresses and headers."""


class Fault(Exception):
    """A request that brought no reply.

    Args:
        kind: one of `TRANSIENT`, or `refused`.
        what: what happened, one line, without secrets.
        retry_after_s: how long the endpoint asks to be left alone, if it says so.
        fix: what to change, where that is known more exactly than by the kind.
    """

    def __init__(
        self, kind: str, what: str, retry_after_s: float | None = None, fix: str = ""
    ) -> None:
        super().__init__(f"{kind}: {what}")
        self.kind, self.what, self.retry_after_s = kind, what, retry_after_s
        self.fix = fix or FIXES.get(kind, "look at the endpoint's log")


@cache
def _certificates(file: str | None, folder: str | None) -> ssl.SSLContext:
    """The trusted ones. Cached: reading them takes longer than a request. Raises ConfigError."""
    import certifi

    try:
        return ssl.create_default_context(cafile=file or certifi.where(), capath=folder or None)
    except OSError as error:
        why = f"no certificate can be read from it ({error})"
        raise ConfigError(f"SSL_CERT_FILE={file}: {why}; correct or unset it") from None


class JudgeClient:
    """Keeps connections to the endpoint open. One per event loop.

    Args:
        endpoint: where to, and with which key.
        timeout_s: of the parts of a request; the runtime has an eye on the whole.
        reply_bytes: longest body that is read.

    Raises:
        ConfigError: a package, the API key or the certificates are missing, or a proxy is in the
            way.
    """

    def __init__(self, endpoint: Endpoint, timeout_s: float, reply_bytes: int) -> None:
        try:
            import aiohttp  # noqa: F401
            import certifi  # noqa: F401
            import tenacity  # noqa: F401
        except ImportError as error:
            fix = f"the package {error.name} is missing; pip install rltf-verl[judge]"
            raise ConfigError(f"asking an endpoint: {fix}") from None
        key = endpoint.api_key()
        self._proxy = proxy_of(endpoint)
        self._tls = urlsplit(endpoint.base_url).scheme == "http" or _certificates(
            os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
        )
        self._secrets = secrets_here([key])
        for name in LOGGERS:
            library = logging.getLogger(name)
            library.addFilter(clean_log(self._secrets))
            if library.level == logging.NOTSET:  # else the user chose a level
                library.setLevel(logging.WARNING)
        self._url = f"{endpoint.base_url.rstrip('/')}/chat/completions"
        self._base_url = endpoint.base_url
        self._reply_bytes = reply_bytes
        # Request no compression: it saves little, and the unpacked size is not known before.
        self._headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
        }
        self._timeout_s = timeout_s
        self._session: ClientSession | None = None

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _connections(self) -> ClientSession:
        if self._session is None:
            import aiohttp

            # Cookies and netrc are not for a judge, and the runtime bounds how many ask at once.
            # No headers: aiohttp sends a session's to the proxy as well.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=self._tls),
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=self._timeout_s, sock_read=self._timeout_s
                ),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def request(self, body: Mapping[str, Any]) -> Reply | Fault:
        """One request. A fault is returned: raised in here, it would carry the request with its
        headers as its context.
        """
        import aiohttp

        try:
            async with self._connections().post(
                self._url,
                data=json.dumps(body).encode(),
                headers=self._headers,
                allow_redirects=False,
                proxy=self._proxy,
            ) as response:
                if 300 <= response.status < 400:
                    return self._redirected(response.status, response.headers.get("location", ""))
                text = await read_body(response, self._reply_bytes)
            if response.status >= 400:
                return self._status_fault(response.status, response.headers, text)
            return read_reply(text, self._secrets)
        except asyncio.TimeoutError:  # not the builtin before Python 3.11
            return Fault("timeout", "no answer in time")
        except Fault as fault:  # of the body
            return fault.with_traceback(None)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            what = f"{type(error).__name__}: {error}".rstrip(": ")
            return Fault("connection", self._secrets.quote(what))

    def _redirected(self, status: int, location: str) -> Fault:
        place = self._secrets.quote("/".join(location.split("/")[:3]), 80)  # scheme and host
        what = f"HTTP {status}: it redirects to {place}, which is not followed"
        fix = "set endpoint.base_url to the address before /chat/completions"
        return Fault("refused", f"{what} (base_url={self._base_url})", fix=fix)

    def _status_fault(self, status: int, headers: Mapping[str, str], text: str) -> Fault:
        what = f"HTTP {status}: {self._secrets.quote(text) or 'no details'}"
        if status == 429:
            return Fault("rate_limited", what, retry_after(headers))
        if status >= 500 or status in (408, 409):
            return Fault("server_error", what, retry_after(headers))
        return Fault("refused", what, fix=BY_STATUS.get(status, ""))


# `http://user:password@host:3128`, `https://[::1]:3128/`
_PROXY = re.compile(
    r"https?://(?:[^/\s]*@)?(?:\w[\w.-]*|\[[0-9a-f:.]+\])(?::\d+)?/?", re.IGNORECASE
)


def proxy_of(endpoint: Endpoint) -> str | None:
    """The proxy that the environment names for an endpoint (`HTTPS_PROXY`, `ALL_PROXY`,
    `NO_PROXY`). Without a scheme it is an http proxy, as for curl.

    Raises:
        ConfigError: it is no http or https proxy, or it would read the API key.
    """
    url, proxies = urlsplit(endpoint.base_url), getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(url.netloc):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    reads_key = endpoint.api_key_env is not None and url.scheme == "http"
    if _PROXY.fullmatch(proxy) and not reads_key:
        return proxy
    trouble = "would read the API key" if reads_key else "is no http:// or https:// URL"
    fix = f"use an https URL, correct HTTPS_PROXY or ALL_PROXY, or add {url.hostname} to NO_PROXY"
    why = f"the proxy {proxy} of the environment {trouble}"
    raise ConfigError(Finding("endpoint.base_url", endpoint.base_url, why, fix))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the endpoint asks for, in any of the three ways there are; None if it does
    not.
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    if (seconds := _number(headers.get("retry-after"))) is not None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time())
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    """A finite number that is not negative, or None."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def read_reply(text: str, secrets: Secrets | None = None) -> Reply:
    """The reply in a response body. An empty text is a valid reply: all its tokens may be
    thoughts, which the endpoint keeps apart.

    Args:
        text: the body.
        secrets: what is cut out of it.

    Raises:
        Fault: the body is not a chat completion.
    """
    secrets = secrets or secrets_here()
    try:
        data = json.loads(text)
        choice = data["choices"][0]
        functions = [call["function"] for call in choice["message"].get("tool_calls") or ()]
        calls = tuple(
            (secrets.clean(f["name"]), secrets.clean(f["arguments"][:LONGEST_REPLY]))
            for f in functions
        )
        message = {"content": None, **choice["message"]} if calls else choice["message"]
        content, usage = _text_of(message["content"]) or "", data.get("usage") or {}
        content = secrets.clean(content[-LONGEST_REPLY:])
        finish = choice.get("finish_reason")
        tokens = [_count(usage.get(f"{part}_tokens")) for part in ("prompt", "completion")]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise Fault("bad_reply", f"not a chat completion: {secrets.quote(text, 80)}") from None
    if finish in BROKEN_OFF:
        raise Fault("bad_reply", f"broken off: finish_reason={finish}")
    return Reply(content, finish not in CUT_OFF, tokens[0], tokens[1], False, calls)


def _text_of(content: Any) -> Any:
    """Text that comes in parts as one text, as some endpoints send it; whatever else as it is."""
    if not isinstance(content, list):
        return content
    texts = [part["text"] for part in content if part.get("type", "text") == "text"]
    return "".join(texts) if all(isinstance(text, str) for text in texts) else content


def _count(value: object) -> int:
    """A token count in [0, MOST_TOKENS]; 0 if it is invalid."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        return 0
    return int(min(value, MOST_TOKENS))


async def read_body(response: ClientResponse, longest: int) -> str:
    """The text of a response that is being streamed; its connection is closed if it is too long.

    Args:
        response: not read yet.
        longest: bytes.

    Raises:
        Fault: it is longer, or packed, against the request.
        aiohttp.ClientError: the connection broke.
    """
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("identity", ""):
        what = "the body is packed, which was not asked for (Content-Encoding)"
        raise Fault("bad_reply", what)
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > longest:
            raise Fault(
                "bad_reply",
                f"the body has more than {longest} bytes",
                fix="raise limits.max_reply_bytes, or lower endpoint.max_tokens",
            )
    return body.decode("utf-8", "replace")


def first_answers(endpoints: Sequence[Endpoint]) -> list[Fault | None]:
    """One small request to each endpoint, all at the same time: its fault, or None for an answer.

    It has the fields of the run's requests, so that an endpoint that refuses those refuses it.
    Nothing of it is counted, recorded or kept.

    Raises:
        ValueError: a package or an API key is missing.
    """

    async def all_of_them() -> list[Fault | None]:
        return list(await asyncio.gather(*map(_first_answer, endpoints)))

    return asyncio.run(all_of_them())


async def _first_answer(endpoint: Endpoint) -> Fault | None:
    client = JudgeClient(endpoint, PATIENCE_S, JudgeLimits.max_reply_bytes)
    try:
        asked = client.request(endpoint.body([QUESTION], seed=0))
        outcome = await asyncio.wait_for(asked, PATIENCE_S)
    except asyncio.TimeoutError:  # not the builtin before Python 3.11
        return Fault("timeout", f"no answer in {PATIENCE_S:g} s")
    finally:
        await client.aclose()
    return outcome if isinstance(outcome, Fault) else None
