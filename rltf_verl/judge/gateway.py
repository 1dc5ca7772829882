"""Who answers a judge's questions: a runtime in this process, or (in training) the job's one
runtime elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from rltf_verl.judge.settings import JudgeSettings
from rltf_verl.judge.wire import Call, Reply


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
    """Open gateways of this process this way from now on; a worker of a job asks the job's one
    runtime.
    """
    _process.opener = opener


def gateways_of(make: Callable[[], object]) -> list[JudgeSettings]:
    """Settings of the judges that are opened while `make` builds a provider, each once; nobody is
    asked.
    """
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
