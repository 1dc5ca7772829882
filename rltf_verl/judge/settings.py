"""What a judge runtime is told: where the judge is, how much of it may be used, what it costs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rltf_verl.kinds import LARGEST, Url, plain, shown, trouble
from rltf_verl.registry import build_block
from rltf_verl.texts import clean_text


class SettingError(ValueError):
    """A setting of a judge that cannot be. The text begins with its key, seen from the judge's
    block, e.g. `endpoint.model`.
    """

    def under(self, block: str) -> SettingError:
        """The same, seen from where `block` is."""
        return SettingError(f"{block}.{self}")


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible chat-completions endpoint."""

    may_say_nothing: ClassVar[bool] = False
    """A reply without text is an answer, and not a fault that is asked about again."""

    whose: ClassVar[str] = "judge"
    """Who answers there, in the log."""

    base_url: str = ""
    """Up to and without `/chat/completions`, e.g. `http://127.0.0.1:8000/v1`."""
    model: str = ""
    """The model's name there."""
    api_key_env: str | None = None
    """Environment variable that holds the API key, on the node where the trainer runs; null for an
    open endpoint.
    """
    temperature: float | None = 0.7
    """null leaves it to the endpoint. With 0 equal questions are one question: its answer is asked
    for once.
    """
    max_tokens: int | None = 1024
    """Longest reply in tokens; null leaves it to the endpoint."""
    send_seed: bool = True
    """Send a seed per call; some hosted endpoints refuse the field."""
    extra_body: Any = "{}"
    """More fields of the request body: a mapping, or its JSON text (which is what it becomes)."""

    def __post_init__(self) -> None:
        _check_url("endpoint.base_url", self.base_url)
        _require(
            trouble(self.model, str) is None and self.model != "???",
            "endpoint.model",
            plain(self.model),
            "must be the name that the endpoint serves a model under",
        )
        name = self.api_key_env
        _require(
            name is None or (isinstance(name, str) and bool(_NAME.fullmatch(name))),
            "endpoint.api_key_env",
            "…",
            "must be the *name* of an environment variable, not the key",
        )
        _require(
            isinstance(self.send_seed, bool),
            "endpoint.send_seed",
            shown(self.send_seed),
            "must be true or false",
        )
        _number("endpoint.temperature", self.temperature, at_least=0, optional=True)
        _number("endpoint.max_tokens", self.max_tokens, at_least=1, optional=True, whole=True)
        object.__setattr__(self, "extra_body", _canonical(self.extra_body))

    def api_key(self) -> str:
        """The key, from the environment.

        Raises:
            SettingError: the variable is not set, or holds what cannot be sent.
        """
        if self.api_key_env is None:
            return "none"
        key = os.environ.get(self.api_key_env, "").strip()  # a line end is easily exported with it
        fix = (
            "this environment variable is not set; export it before the run (and before `ray start`"
            " on a cluster)"
        )
        _require(bool(key), "endpoint.api_key_env", self.api_key_env, fix)
        fix = "the key in it holds characters that no HTTP header may; export it again"
        _require(
            key.isascii() and key.isprintable() and " " not in key,
            "endpoint.api_key_env",
            self.api_key_env,
            fix,
        )
        return key

    def body(self, messages: list[dict[str, str]], seed: int) -> dict[str, Any]:
        """The request body. A judge without randomness gets no seed, so that equal questions have
        equal bodies.
        """
        sent = [{name: clean_text(text) for name, text in message.items()} for message in messages]
        fields: dict[str, Any] = {"model": self.model, "messages": sent}
        if self.temperature is not None:
            fields["temperature"] = self.temperature
        if self.max_tokens is not None:
            fields["max_tokens"] = self.max_tokens
        if self.send_seed and self.temperature != 0:
            fields["seed"] = seed % 2**31
        return fields | dict(json.loads(self.extra_body))

    def identity(self, body: dict[str, Any], seed: int) -> dict[str, Any]:
        """What has to be equal in two calls for one reply to be the answer to both: the body, and
        the seed where there is randomness, sent or not.
        """
        return body if self.temperature == 0 or "seed" in body else {**body, "seed": seed}


@dataclass(frozen=True)
class Limits:
    """How much of the endpoint the whole job may use, and how long a call may take."""

    max_concurrency: int = 64
    """Requests on their way at once."""
    requests_per_minute: float | None = None
    """null: no limit."""
    tokens_per_minute: float | None = None
    """Prompt and reply tokens together; null: no limit."""
    request_timeout_s: float = 120.0
    """One request; at most 0.95 of `deadline_s`."""
    deadline_s: float = 300.0
    """One call: its wait in the queue, its requests and the waits between them. Then `on_error`
    decides.
    """
    max_attempts: int = 8
    """Requests per call."""
    backoff_s: float = 0.5
    """The wait before the second request is random up to this, doubling from request to request."""
    backoff_cap_s: float = 30.0
    """Longest wait between two requests, unless the endpoint asks for a longer one
    (Retry-After).
    """
    retry_after_cap_s: float = 10.0
    """Longest Retry-After that is obeyed, and at most a quarter of `deadline_s`: all requests wait
    for it.
    """
    max_reply_bytes: int = 4_000_000
    """Longest body of a reply that is read."""
    breaker_failures: int = 8
    """The breaker opens after that many failed requests in a row …"""
    breaker_after_s: float = 20.0
    """… if nothing has succeeded for that long; open, calls fail at once instead of waiting for
    their deadline.
    """
    breaker_probe_s: float = 15.0
    """An open breaker lets one call through that often, to see whether the endpoint is back."""

    def __post_init__(self) -> None:
        _number(
            "limits.max_concurrency", self.max_concurrency, at_least=1, at_most=1000, whole=True
        )
        for name in ("requests_per_minute", "tokens_per_minute"):
            _number(f"limits.{name}", getattr(self, name), above=0, optional=True)
        for name in (
            "request_timeout_s",
            "deadline_s",
            "backoff_s",
            "backoff_cap_s",
            "breaker_probe_s",
            "retry_after_cap_s",
        ):
            _number(f"limits.{name}", getattr(self, name), above=0)
        _number(
            "limits.max_reply_bytes",
            self.max_reply_bytes,
            at_least=10_000,
            at_most=2**30,
            whole=True,
        )
        _number("limits.max_attempts", self.max_attempts, at_least=1, at_most=100, whole=True)
        _number("limits.breaker_failures", self.breaker_failures, at_least=1, whole=True)
        _number("limits.breaker_after_s", self.breaker_after_s, at_least=0)


@dataclass(frozen=True)
class Price:
    """What the endpoint charges."""

    prompt: float = 0.0
    """Per million prompt tokens, in your currency."""
    completion: float = 0.0
    """Per million reply tokens."""

    def __post_init__(self) -> None:
        _number("price.prompt", self.prompt, at_least=0)
        _number("price.completion", self.completion, at_least=0)

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The price of one reply."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


@dataclass(frozen=True)
class JudgeSettings:
    """Everything that a runtime needs. Hashable: who asks with equal settings shares one
    runtime.
    """

    endpoint: Endpoint
    limits: Limits = field(default_factory=Limits)
    price: Price = field(default_factory=Price)
    cache_dir: str | None = None
    """Folder of replies that are paid for; null keeps none. Jobs may share it."""


def judge_settings(
    options: Mapping[str, Any], endpoint: type[Endpoint] = Endpoint
) -> JudgeSettings:
    """Settings from a config block with `endpoint`, `limits`, `price` and `cache_dir`.

    Raises:
        SettingError: a bad option.
    """
    try:
        return JudgeSettings(
            endpoint=build_block("endpoint", endpoint, _block("endpoint", options)),
            limits=build_block("limits", Limits, _block("limits", options)),
            price=build_block("price", Price, _block("price", options)),
            cache_dir=_folder(options.get("cache_dir")),
        )
    except ValueError as error:
        raise SettingError(str(error)) from None


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OWN_FIELDS = frozenset({"messages", "model", "n", "seed", "stream", "stream_options"})
"""Of a request's body: the runtime sets them or counts on their being absent."""


def _check_url(key: str, value: object) -> None:
    """A user or a password in it is not shown."""
    open_part = str(value).rpartition("@")[2]
    open_part = open_part.partition("?")[0] or open_part
    _require(
        trouble(value, Url) is None,
        key,
        plain(open_part),
        "must be a URL such as http://127.0.0.1:8000/v1, with no user, password, query or fragment;"
        " the key's variable is named in api_key_env",
    )
    _require(
        not str(value).rstrip("/").endswith("/chat/completions"),
        key,
        plain(open_part),
        "must be the part before /chat/completions",
    )


def _folder(value: Any) -> str | None:
    _require(
        value is None or trouble(value, str) is None,
        "cache_dir",
        shown(value),
        "must be a folder, or null",
    )
    return None if value is None else str(value)


def _block(key: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    value = options.get(key)
    _require(
        value is None or isinstance(value, Mapping), key, shown(value), "must be a block of keys"
    )
    return value or {}


def _require(ok: bool, key: str, value: object, fix: str) -> None:
    if not ok:
        raise SettingError(f"{key}={value}: {fix}")


def _number(
    key: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    optional: bool = False,
    whole: bool = False,
) -> None:
    if optional and value is None:
        return
    wanted = [
        f"{word} {bound:g}"
        for word, bound in (("above", above), ("at least", at_least), ("at most", at_most))
        if bound is not None
    ]
    kind, kinds = ("a whole number", int) if whole else ("a number", (int, float))
    fix = f"must be {kind} {', '.join(wanted)}{' or null' if optional else ''}"
    _require(isinstance(value, kinds) and not isinstance(value, bool), key, shown(value), fix)
    _require(-LARGEST < value < LARGEST, key, shown(value), fix)  # type: ignore[operator]
    number = float(value)  # type: ignore[arg-type]
    within = (above is None or number > above) and (at_least is None or number >= at_least)
    _require(
        within and (at_most is None or number <= at_most) and number < LARGEST, key, value, fix
    )


def _canonical(body: Any) -> str:
    try:
        fields = json.loads(body) if isinstance(body, str) else body
    except ValueError:
        fields = None
    _require(
        isinstance(fields, Mapping),
        "endpoint.extra_body",
        plain(body),
        "must be a block of keys, e.g. {top_k: 20}",
    )
    taken = sorted(OWN_FIELDS & set(fields or {}))
    _require(
        not taken,
        "endpoint.extra_body",
        plain(body),
        f"must not hold {', '.join(taken)}, which endpoint.* and the questions decide",
    )
    return json.dumps(dict(fields or {}), sort_keys=True)
