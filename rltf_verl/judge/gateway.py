"""A judge as providers and environments declare it. A runtime in this process answers, or (in
training) the job's one runtime elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from rltf_verl.findings import ConfigError
from rltf_verl.judge.client import PATIENCE_S, JudgeClient
from rltf_verl.judge.parsing import parse_reply
from rltf_verl.judge.settings import JudgeSettings, judge_settings
from rltf_verl.judge.wire import Call, JudgeUnavailable, Reply
from rltf_verl.prompts import render
from rltf_verl.prompts.quote import defused, fence_around
from rltf_verl.types import Message


class Gateway(Protocol):
    """Answers calls within one budget."""

    async def complete(self, call: Call) -> Reply:
        """Raises JudgeUnavailable, within `JudgeSettings.longest_call_s` and a little."""
        ...

    def note(self, event: str) -> None:
        """Count something that only the one who reads replies can see, e.g. `no_marker`."""
        ...


Opener = Callable[[JudgeSettings], Gateway]

WORDS_PER_TOKEN = 0.75
"""For English, about."""

# Not `no verdict can be given`, and not the requested form: `yes (it does) or no`.
_YES_OR_NO = re.compile(r"[\W_]*(yes|no)\b(?![ \t]*[\w/])(?!.*\bor no\b)", re.IGNORECASE)


@contextmanager
def _under(block: str) -> Iterator[None]:
    """Errors name the judge's block; empty: it has none."""
    try:
        yield
    except JudgeUnavailable as error:
        raise JudgeUnavailable(f"{block}: {error.cause}".removeprefix(": ")) from None
    except ConfigError as error:
        raise ConfigError(error.finding.under(block)) from None


class Judge:
    """A judge that a provider or an environment asks, and declares as one of its `judges`.

    Until `open` says otherwise, a runtime of this process answers.

    Args:
        options: `endpoint`, `limits`, `price`, `cache_dir`, as of the provider `judge`.
        block: where they are in the config, e.g. `rltf.feedback`; for errors.
        words: of the longest feedback that it writes; 0: no prompt has its text.

    Raises:
        ValueError: a bad option; names the config key.
    """

    def __init__(self, options: Mapping[str, Any], block: str, words: int = 0) -> None:
        from rltf_verl.judge.runtime import runtime_of

        self.block = block
        with _under(block):
            self.settings = judge_settings(options)
        most = self.settings.endpoint.max_tokens
        self.words = words if most is None else min(words, round(most * WORDS_PER_TOKEN))
        self._gateway: Callable[[], Gateway] = lambda: runtime_of(self.settings)

    def open(self, opener: Opener) -> None:
        """Calls go through `opener(settings)` from now on."""
        gateway = opener(self.settings)
        self._gateway = lambda: gateway

    def wait(self) -> None:
        """Calls wait for an endpoint that does not answer. To be called before `open`."""
        self.settings = replace(self.settings, waits=True)

    async def complete(self, call: Call) -> Reply:
        """The reply.

        Raises:
            JudgeUnavailable: none could be had; the cause names the block.
            ValueError: a package or the API key is missing.
        """
        with _under(self.block):
            return await self._gateway().complete(call)

    async def says_yes(self, template: str, texts: Mapping[str, str], seed: int = 0) -> bool:
        """The verdict on texts. A reply without one costs a second call.

        Args:
            template: `prompts/<template>.j2`, whose prompt asks for `Verdict: yes` or `no`.
            texts: its fields; the judge reads them as quotations.
            seed: of the call.

        Raises:
            JudgeUnavailable: no verdict could be had; the cause names the block.
            ValueError: as of `complete`.
        """
        messages, verdict = verdict_messages(template, texts), ""
        for again in range(2):
            reply = await self.complete(Call(messages, seed + again))
            parsed = parse_reply(reply.text, marker="Verdict:", words=20, complete=reply.complete)
            verdict = parsed.text
            if word := _YES_OR_NO.match(verdict):
                return word[1].lower() == "yes"
            self.note("no_verdict")
        with _under(self.block):
            raise JudgeUnavailable(f"no verdict in the reply, twice: {verdict[:80]!r}")

    def require_client(self) -> None:
        """Raise ConfigError unless this process can send requests: packages, API key, proxy,
        certificates.
        """
        with _under(self.block):
            JudgeClient(self.settings.endpoint, PATIENCE_S, self.settings.limits.max_reply_bytes)

    def note(self, event: str) -> None:
        """Count what the reader of a reply found in it."""
        self._gateway().note(event)


def verdict_messages(template: str, texts: Mapping[str, str]) -> tuple[Message, ...]:
    """Messages of `Judge.says_yes`. No text can end its block or the message."""
    shown = {name: defused(text) for name, text in texts.items()}
    prompt = render(template, **shown, fence=fence_around([*shown.values()]))
    return ({"role": "user", "content": prompt},)


def judges_of(part: object) -> tuple[Judge, ...]:
    """The judges that a provider or an environment declares; one that declares none asks none.

    Raises:
        ValueError: its `judges` are something else.
    """
    judges = getattr(part, "judges", ())
    if not isinstance(judges, tuple) or not all(isinstance(judge, Judge) for judge in judges):
        raise ValueError(
            f"{type(part).__name__}.judges: must be a tuple of rltf_verl.judge.gateway.Judge, which"
            " the run opens; call the attribute something else if it is something else"
        )
    return judges
