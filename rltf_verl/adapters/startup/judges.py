"""Before a run: one request to each of its judges."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from rltf_verl.findings import ConfigError, Finding
from rltf_verl.judge.client import TRANSIENT, first_answers
from rltf_verl.judge.gateway import Judge

logger = logging.getLogger(__name__)


def check_judges(judges: Sequence[Judge]) -> None:
    """Raise ConfigError if a judge cannot be sent requests from here, where the trainer runs."""
    for judge in judges:
        judge.require_client()


def check_endpoints(judges: Sequence[Judge]) -> None:
    """Ask each endpoint once. Raise ConfigError where it will refuse every request; warn where it
    may answer later.
    """
    for finding in sorted(unanswered(judges), key=lambda finding: finding.level):
        if finding.level == "error":
            raise ConfigError(finding)
        logger.warning("%s", finding)


def unanswered(judges: Sequence[Judge]) -> Iterator[Finding]:
    """The judges that do not answer, one for each endpoint. No request without judges.

    Raises:
        ConfigError: a package or an API key is missing.
    """
    # Reversed: of judges with one endpoint the first stays, and its key is named.
    asked = {judge.settings.endpoint: judge for judge in reversed(judges)}
    faults = first_answers(list(asked)) if asked else []
    for (endpoint, judge), fault in zip(asked.items(), faults, strict=True):
        key = f"{judge.block}.endpoint.base_url"
        if fault is None:
            continue
        if fault.kind not in TRANSIENT:
            yield Finding(key, endpoint.base_url, f"refuses a request ({fault.what})", fault.fix)
            continue
        until = "grade its texts" if judge.block.startswith("rltf.env") else "give feedback"
        yield Finding(
            key,
            endpoint.base_url,
            f"gives no answer now ({fault})",
            f"{fault.fix}. The run starts; it cannot {until} before the endpoint answers",
            "warning",
        )
