"""Whether the judges of a run can be asked, and answer; asked once before it starts."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rltf_verl.config import ConfigError
from rltf_verl.findings import Finding
from rltf_verl.judge.client import TRANSIENT, Fault, first_answers, require_packages
from rltf_verl.judge.failure_log import fix_of
from rltf_verl.judge.gateway import Judge

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Unanswered:
    """A judge whose endpoint did not answer."""

    judge: Judge
    fault: Fault

    @property
    def is_final(self) -> bool:
        """Waiting does not help."""
        return self.fault.kind not in TRANSIENT

    def finding(self) -> Finding:
        """The setting to change."""
        url, block = self.judge.settings.endpoint.base_url, self.judge.block
        if self.is_final:
            key, value, fix = self._to_correct()
            why = f"{url} refuses a request ({self.fault.what})"
            return Finding(f"{block}.endpoint.{key}", value, why, fix)
        slow = "it may only be slow, or hang"
        fix = slow if self.fault.kind == "timeout" else fix_of(self.fault)
        until = (
            "its texts are not graded"
            if block.startswith("rltf.env")
            else "rltf.feedback.on_error decides"
        )
        why = f"gives no answer now ({self.fault})"
        fix = f"{fix}. The run starts; until it answers, {until}"
        return Finding(f"{block}.endpoint.base_url", url, why, fix, "warning")

    def _to_correct(self) -> tuple[str, object, str]:
        """The key with its value, and the fix."""
        endpoint, what = self.judge.settings.endpoint, self.fault.what
        if what.startswith(("HTTP 401", "HTTP 403")):
            if endpoint.api_key_env is None:
                fix = "set it to the name of the environment variable that holds the key"
                return "api_key_env", "null", fix
            fix = "put a key that the endpoint takes into this variable"
            return "api_key_env", endpoint.api_key_env, fix
        if endpoint.model in what or "model" in what.lower():
            return "model", endpoint.model, "set it to a name that the endpoint serves"
        if what.startswith(("HTTP 3", "HTTP 404", "HTTP 405")):
            fix = "set it to the part of the endpoint's address before /chat/completions"
            return "base_url", endpoint.base_url, fix
        fix = "correct its model, temperature, max_tokens, send_seed or extra_body"
        return "base_url", endpoint.base_url, fix


def check_judges(judges: Sequence[Judge]) -> None:
    """Raise ConfigError if a judge's key or the packages that ask it are missing here, where the
    trainer runs.
    """
    if judges:
        require_packages()
    for judge in judges:
        judge.require_key()


def check_endpoints(judges: Sequence[Judge]) -> None:
    """Ask each endpoint once. Raise ConfigError where it will refuse every request; warn where it
    may answer later.
    """
    silent = sorted(unanswered(judges), key=lambda judge: not judge.is_final)
    for judge in silent:
        if judge.is_final:
            raise ConfigError(judge.finding())
        logger.warning("%s", judge.finding())


def unanswered(judges: Sequence[Judge]) -> Iterator[Unanswered]:
    """The judges that do not answer, one for each endpoint. No request without judges.

    Raises:
        ConfigError: a package or an API key is missing.
    """
    asked = {judge.settings.endpoint: judge for judge in reversed(judges)}
    if asked:
        for judge, fault in zip(asked.values(), first_answers(list(asked)), strict=True):
            if fault is not None:
                yield Unanswered(judge, fault)
