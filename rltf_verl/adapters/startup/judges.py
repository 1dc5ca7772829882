"""Before a run: one request to each of its judges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rltf_verl.findings import Finding, finding_of
from rltf_verl.judge.client import TRANSIENT, first_answers
from rltf_verl.judge.gateway import Judge


def check_judges(judges: Sequence[Judge]) -> Iterator[Finding]:
    """The first judge that cannot be sent requests from here, where the trainer runs."""
    try:
        for judge in judges:
            judge.require_client()
    except ValueError as error:
        yield finding_of(error)


def check_endpoints(judges: Sequence[Judge]) -> Iterator[Finding]:
    """Ask each endpoint once. A warning where it may answer later.

    Raises:
        ConfigError: a package or an API key is missing (`check_judges`).
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
