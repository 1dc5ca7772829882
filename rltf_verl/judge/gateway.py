"""Who answers a judge's questions: a runtime in this process, or (in training) the job's one runtime elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from rltf_verl.judge.settings import JudgeSettings
from rltf_verl.texts import clean_text
from rltf_verl.types import Message


@dataclass(frozen=True)
class Call:
    """One question."""

    messages: tuple[Message, ...]
    seed: int


@dataclass(frozen=True)
class Reply:
    """What the judge said."""

    text: str
    complete: bool = True
    """False: cut off at the token limit."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached: bool = False

    def __post_init__(self) -> None:
        """Whatever comes in from an endpoint, or from a cache, can be tokenised and logged."""
        object.__setattr__(self, "text", clean_text(self.text))


@dataclass(frozen=True)
class ScoredReply(Reply):
    """A reply to a call that asked for the log-probs of its own prompt (vLLM's `prompt_logprobs`)."""

    prompt: tuple[tuple[str, float], ...] = ()
    """Text and log-prob, nats, of every token but the first, which has none."""


class JudgeUnavailable(Exception):
    """No reply could be had.

    Args:
        cause: one line that says what failed and what to change.
    """

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


class Gateway(Protocol):
    """Answers calls within one budget."""

    async def complete(self, call: Call) -> Reply:
        """Raises JudgeUnavailable, within `limits.deadline_s` and a little."""
        ...

    def note(self, event: str) -> None:
        """Count something that only the one who reads replies can see, e.g. `no_marker`."""
        ...


Opener = Callable[[JudgeSettings], Gateway]


def _runtime_here(settings: JudgeSettings) -> Gateway:
    from rltf_verl.judge.runtime import RuntimeOfLoop

    return RuntimeOfLoop(settings)


@dataclass
class _Process:
    """How this process opens gateways."""

    opener: Opener = field(default=_runtime_here)


_process = _Process()


def open_gateway(settings: JudgeSettings) -> Gateway:
    """The gateway for these settings, as this process opens them."""
    return _process.opener(settings)


def use_opener(opener: Opener) -> None:
    """Open gateways of this process this way from now on; a worker of a job asks the job's one runtime."""
    _process.opener = opener


def gateways_of(make: Callable[[], object]) -> list[JudgeSettings]:
    """Settings of the judges that are opened while `make` builds a provider, each once; nobody is asked."""
    opened: list[JudgeSettings] = []

    def remember(settings: JudgeSettings) -> Gateway:
        opened.append(settings)
        return _runtime_here(settings)

    before, _process.opener = _process.opener, remember
    try:
        make()
    finally:
        _process.opener = before
    return list(dict.fromkeys(opened))
