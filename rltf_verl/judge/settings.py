"""Settings of a judge runtime: where the judge is, how much of it may be used, its price."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from rltf_verl.findings import ConfigError, Finding
from rltf_verl.kinds import Form, Url, Within, trouble
from rltf_verl.registry import build_block, require_choice
from rltf_verl.texts import clean_text

BaseUrl = Annotated[
    Url, Form(lambda url: not url.rstrip("/").endswith("/chat/completions"), "the part before it")
]
ModelName = Annotated[
    str, Form(lambda name: name != "???", "the name that the endpoint serves a model under")
]
Variable = Annotated[
    str,
    Form(
        lambda name: bool(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)),
        "the *name* of an environment variable, not the key",
    ),
]
Temperature = Annotated[float, Within(0)]
Tokens = Annotated[int, Within(1)]
Rate = Annotated[float, Within(above=0)]
Seconds = Annotated[float, Within(above=0)]
Cost = Annotated[float, Within(0)]

BLOCKS = ("endpoint", "limits", "price", "cache_dir")
TAKEN_FIELDS = frozenset({"messages", "model", "n", "seed", "stream", "stream_options"})
"""Fields of a request's body that the runtime sets, or that must be absent."""


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible chat-completions endpoint."""

    whose: ClassVar[str] = "judge"
    """Name of the one who answers, in the log."""

    base_url: BaseUrl
    """Up to and without `/chat/completions`, e.g. `http://127.0.0.1:8000/v1`."""
    model: ModelName
    """The model's name there."""
    api_key_env: Variable | None = None
    """Environment variable that holds the API key, on the node where the trainer runs; null for an
    open endpoint.
    """
    temperature: Temperature | None = 0.7
    """null leaves it to the endpoint. With 0 equal questions share one call."""
    max_tokens: Tokens | None = 1024
    """Longest reply in tokens; null leaves it to the endpoint."""
    send_seed: bool = True
    """Send a seed per call; some hosted endpoints refuse the field."""
    extra_body: Any = "{}"
    """More fields of the request body: a mapping, or its JSON text (which is what it becomes)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "extra_body", _canonical(self.extra_body))

    def api_key(self) -> str:
        """The key, from the environment.

        Raises:
            ConfigError: the variable is not set, or holds what cannot be sent.
        """
        if self.api_key_env is None:
            return "none"
        key = os.environ.get(self.api_key_env, "").strip()  # a line end is easily exported with it
        why, fix = "", "export it before the run (and before `ray start` on a cluster)"
        if not key:
            why = "this environment variable is not set"
        elif not (key.isascii() and key.isprintable() and " " not in key):
            why = "the key in it holds characters that no HTTP header may"
        if why:
            raise ConfigError(Finding("endpoint.api_key_env", self.api_key_env, why, fix))
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
        """Parts that are equal in two calls which one reply answers: the body, and the seed where
        there is randomness, sent or not.
        """
        return body if self.temperature == 0 or "seed" in body else {**body, "seed": seed}


@dataclass(frozen=True)
class JudgeLimits:
    """Limits of the whole job at the endpoint, and of a call's time."""

    max_concurrency: Annotated[int, Within(1, 1000)] = 64
    """Requests on their way at once."""
    requests_per_minute: Rate | None = None
    """null: no limit."""
    tokens_per_minute: Rate | None = None
    """Prompt and reply tokens together; null: no limit."""
    request_timeout_s: Seconds = 120.0
    """One request; at most 0.95 of `deadline_s`."""
    deadline_s: Seconds = 300.0
    """One call: its wait in the queue, its requests and the waits between them. Then `on_error`
    decides.
    """
    max_attempts: Annotated[int, Within(1, 100)] = 8
    """Requests per call."""
    backoff_s: Seconds = 0.5
    """The wait before the second request is random up to this, doubling from request to request."""
    backoff_cap_s: Seconds = 30.0
    """Longest wait between two requests, unless the endpoint asks for a longer one
    (Retry-After).
    """
    retry_after_cap_s: Seconds = 10.0
    """Longest Retry-After that is obeyed, and at most a quarter of `deadline_s`: all requests wait
    for it.
    """
    max_reply_bytes: Annotated[int, Within(10_000, 2**30)] = 4_000_000
    """Longest body of a reply that is read."""
    breaker_failures: Annotated[int, Within(1)] = 8
    """The breaker opens after that many failed requests in a row …"""
    breaker_after_s: Annotated[float, Within(0)] = 20.0
    """… if nothing has succeeded for that long; open, calls fail at once instead of waiting for
    their deadline.
    """
    breaker_probe_s: Seconds = 15.0
    """An open breaker lets one call through that often, to see whether the endpoint is back."""
    outage_s: Seconds = 3600.0
    """With `rltf.feedback.on_error=wait`: how long calls wait for an endpoint that does not answer,
    from its first failed request. Then they fail at once."""


@dataclass(frozen=True)
class Price:
    """Prices of the endpoint."""

    prompt: Cost = 0.0
    """Per million prompt tokens, in your currency."""
    completion: Cost = 0.0
    """Per million reply tokens."""

    def of(self, prompt_tokens: float, completion_tokens: float) -> float:
        """The price of one reply."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


@dataclass(frozen=True)
class JudgeSettings:
    """Everything that a runtime needs. Hashable: callers with equal settings share one runtime."""

    endpoint: Endpoint
    limits: JudgeLimits = field(default_factory=JudgeLimits)
    price: Price = field(default_factory=Price)
    cache_dir: str | None = None
    """Folder of paid replies; null keeps none. Jobs may share it."""
    waits: bool = False
    """Calls wait for an endpoint that does not answer, for `limits.outage_s`."""

    @property
    def longest_call_s(self) -> float:
        """Bound of a call; with `waits` it has an outage, the last probe and a second try."""
        once = self.limits.deadline_s
        return once + self.waits * (self.limits.outage_s + 2 * once)


def judge_settings(
    options: Mapping[str, Any], endpoint: type[Endpoint] = Endpoint
) -> JudgeSettings:
    """Settings from a config block with `endpoint`, `limits`, `price` and `cache_dir`.

    Raises:
        ConfigError: a bad option; its key begins with the name of the inner block.
    """
    for key in options:
        require_choice(key, key, BLOCKS)
    own = dict(_block("endpoint", options))
    key = own.pop("api_key", None)
    if key is not None:
        raise ConfigError(
            Finding(
                "endpoint.api_key",
                key,
                "a config is logged",
                "export the key and name its variable in api_key_env",
            )
        )
    folder = options.get("cache_dir")
    fix_folder = trouble(folder, str | None)
    if fix_folder is not None:
        raise ConfigError(Finding("cache_dir", folder, "", fix_folder))
    return JudgeSettings(
        endpoint=build_block("endpoint", endpoint, own),
        limits=build_block("limits", JudgeLimits, _block("limits", options)),
        price=build_block("price", Price, _block("price", options)),
        cache_dir=folder,
    )


def _block(key: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    value = options.get(key)
    if not (value is None or isinstance(value, Mapping)):
        raise ConfigError(Finding(key, value, "", "must be a block of keys"))
    return value or {}


def _canonical(body: Any) -> str:
    try:
        fields = json.loads(body) if isinstance(body, str) else body
    except ValueError:
        fields = None
    key = "endpoint.extra_body"
    if not isinstance(fields, Mapping):
        raise ConfigError(Finding(key, body, "", "must be a block of keys, e.g. {top_k: 20}"))
    taken = sorted(TAKEN_FIELDS & set(fields))
    if taken:
        raise ConfigError(
            Finding(
                key,
                body,
                "",
                f"must not hold {', '.join(taken)}, which endpoint.* and the questions decide",
            )
        )
    return json.dumps(dict(fields), sort_keys=True)
