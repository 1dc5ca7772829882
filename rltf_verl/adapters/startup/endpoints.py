"""Whether the judges of a run answer, asked once before it starts."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rltf_verl.config import ConfigError
from rltf_verl.judge.client import TRANSIENT, Fault
from rltf_verl.judge.gateway import Judge
from rltf_verl.judge.news import fix_of
from rltf_verl.judge.reach import first_answers

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Unanswered:
    """A judge whose endpoint did not answer."""

    judge: Judge
    fault: Fault

    @property
    def for_good(self) -> bool:
        """Waiting does not help."""
        return self.fault.kind not in TRANSIENT

    def __str__(self) -> str:
        """One line: the key, the URL, what came, what to change."""
        url, block = self.judge.settings.endpoint.base_url, self.judge.block
        if self.for_good:
            key, fix = self._to_correct()
            return f"{block}.{key}: {url} refuses a request ({self.fault.what}); {fix}"
        slow = "it may only be slow, or hang"
        fix = slow if self.fault.kind == "timeout" else fix_of(self.fault)
        until = (
            "its texts are not graded"
            if block.startswith("rltf.env")
            else "rltf.feedback.on_error decides"
        )
        return (
            f"{block}.endpoint.base_url={url}: gives no answer now ({self.fault}); {fix}. The run"
            f" starts; until it answers, {until}"
        )

    def _to_correct(self) -> tuple[str, str]:
        """The key with its value, and what to do."""
        endpoint, what = self.judge.settings.endpoint, self.fault.what
        if what.startswith(("HTTP 401", "HTTP 403")):
            if endpoint.api_key_env is None:
                fix = "set it to the name of the environment variable that holds the key"
                return "endpoint.api_key_env=null", fix
            fix = "put a key that the endpoint takes into this variable"
            return f"endpoint.api_key_env={endpoint.api_key_env}", fix
        if endpoint.model in what or "model" in what.lower():
            return f"endpoint.model={endpoint.model}", "set it to a name that the endpoint serves"
        if what.startswith(("HTTP 3", "HTTP 404", "HTTP 405")):
            fix = "set it to the part of the endpoint's address before /chat/completions"
            return f"endpoint.base_url={endpoint.base_url}", fix
        return "endpoint", "correct its model, temperature, max_tokens, send_seed or extra_body"


def check_endpoints(judges: Sequence[Judge]) -> None:
    """Ask each endpoint once. Raise ConfigError where it will refuse all that the run asks; warn
    where it may answer later.
    """
    silent = list(unanswered(judges))
    for one in silent:
        if one.for_good:
            raise ConfigError(str(one))
    for one in silent:
        logger.warning(str(one))


def unanswered(judges: Sequence[Judge]) -> Iterator[Unanswered]:
    """The judges that do not answer, one for each endpoint. No request without judges.

    Raises:
        ValueError: a package or an API key is missing.
    """
    asked = {judge.settings.endpoint: judge for judge in reversed(judges)}
    if asked:
        for (_, judge), fault in zip(asked.items(), first_answers(list(asked)), strict=True):
            if fault is not None:
                yield Unanswered(judge, fault)
