"""One request to an OpenAI-compatible endpoint, and what became of it: a reply, or a fault of a named kind."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from rltf_verl.judge.gateway import Reply, ScoredReply
from rltf_verl.judge.settings import Endpoint

TRANSIENT = ("rate_limited", "server_error", "timeout", "connection", "bad_reply", "empty")
"""Kinds of faults that another try may not meet; `refused` it will."""

OF_THE_ENDPOINT = ("server_error", "timeout", "connection", "bad_reply")
"""Kinds that say that the endpoint is not well, which the breaker watches."""


class Fault(Exception):
    """A request that brought no reply.

    Args:
        kind: one of `TRANSIENT`, or `refused`.
        what: what happened, one line, without secrets.
        retry_after_s: how long the endpoint asks to be left alone, if it says so.
    """

    def __init__(self, kind: str, what: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{kind}: {what}")
        self.kind, self.what, self.retry_after_s = kind, what, retry_after_s


class JudgeClient:
    """Keeps connections to the endpoint open. One per event loop.

    Args:
        endpoint: where to, and with which key.
        timeout_s: of the parts of a request; the runtime has an eye on the whole.

    Raises:
        ValueError: the package `openai` or the API key is missing.
    """

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        require_packages()
        from openai import AsyncOpenAI

        self._key = endpoint.api_key()
        self._may_say_nothing = endpoint.may_say_nothing
        client = AsyncOpenAI(api_key=self._key, base_url=endpoint.base_url, max_retries=0, timeout=timeout_s)
        # Looked up here: the package imports half of itself then, and in a request that would hold up all others.
        self._completions = client.chat.completions.with_raw_response
        self._client = client

    async def request(self, body: Mapping[str, Any]) -> Reply:
        """One request. Raises Fault."""
        import openai

        rest = {k: v for k, v in body.items() if k not in ("model", "messages")}
        try:
            response = await self._completions.create(model=body["model"], messages=body["messages"], extra_body=rest)
            text = response.text
        except openai.APIStatusError as error:
            raise self._status_fault(error.status_code, error.response.headers, error.response.text) from None
        except openai.APITimeoutError:
            raise Fault("timeout", "no answer in time") from None
        except openai.APIConnectionError as error:
            raise Fault("connection", self._clean(str(error.__cause__ or error))) from None
        except openai.OpenAIError as error:
            raise Fault("bad_reply", self._clean(str(error))) from None
        return read_reply(text, self._may_say_nothing)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _status_fault(self, status: int, headers: Mapping[str, str], text: str) -> Fault:
        what = f"HTTP {status}: {self._clean(text)}"
        if status == 429:
            return Fault("rate_limited", what, retry_after(headers))
        if status >= 500 or status in (408, 409):
            return Fault("server_error", what, retry_after(headers))
        return Fault("refused", what)

    def _clean(self, text: str) -> str:
        """One short line without the key: endpoints quote it in their errors."""
        line = " ".join(re.sub(r"\b(sk|key|tok)-[\w*.\-]+", "***", text.replace(self._key, "***")).split())
        return line[:200] or "no details"


def require_packages() -> None:
    """Raise ValueError unless the packages of the extra `judge` are there."""
    try:
        import openai  # noqa: F401
        import tenacity  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"asking an endpoint: the package {error.name} is missing; pip install rltf-verl[judge]"
        ) from None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the endpoint asks for, in any of the three ways there are; None if it does not."""
    if (told := _number(headers.get("retry-after-ms"))) is not None:
        return told / 1000
    if (told := _number(headers.get("retry-after"))) is not None:
        return told
    try:
        return max(0.0, parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time())
    except (KeyError, ValueError, TypeError):
        return None


def _number(text: str | None) -> float | None:
    """A finite number that is not negative, or None."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def read_reply(text: str, may_say_nothing: bool = False) -> Reply:
    """The reply in a response body. Raises Fault."""
    try:
        data = json.loads(text)
        choice = data["choices"][0]
        content, usage = choice["message"]["content"], data.get("usage") or {}
        tokens = [max(0, int(usage.get(f"{part}_tokens") or 0)) for part in ("prompt", "completion")]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise Fault("bad_reply", f"not a chat completion: {text[:80]!r}") from None
    if may_say_nothing and content is None:  # all its tokens were thoughts, which the endpoint keeps apart
        content = ""
    if not isinstance(content, str) or not (may_say_nothing or content.strip()):
        raise Fault("empty", f"the reply has no text (finish_reason {choice.get('finish_reason')!r})")
    reply = (content, choice.get("finish_reason") != "length", tokens[0], tokens[1])
    if data.get("prompt_logprobs"):
        return ScoredReply(*reply, prompt=_prompt_log_probs(data["prompt_logprobs"]))
    return Reply(*reply)


def _prompt_log_probs(places: Any) -> tuple[tuple[str, float], ...]:
    """Of each place the token that stands there, which comes first. Raises Fault."""
    try:
        tokens = [next(iter(place.values())) for place in places if place]
        return tuple((str(token["decoded_token"]), float(token["logprob"])) for token in tokens)
    except (LookupError, TypeError, ValueError, AttributeError, StopIteration):
        raise Fault("bad_reply", "prompt_logprobs are not as vLLM's") from None
