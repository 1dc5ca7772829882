"""Log lines about an endpoint: the first failure of each kind, its outages and their ends."""

from __future__ import annotations

import logging
import time

from rltf_verl.judge.client import Fault
from rltf_verl.judge.settings import Endpoint

logger = logging.getLogger(__name__)

LINE_S = 60.0
"""Seconds between two lines about one outage."""

MOST_KINDS = 12
"""Kinds of failures that are logged of one endpoint: a broken one may send any status."""


class FailureLog:
    """Log lines about one endpoint. In training the job's actor writes them, and Ray shows them in
    the console.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._whose, self._url = endpoint.whose, endpoint.base_url
        self._logged: set[str] = set()
        self.last = ""
        """The last failure, one line; empty if there was none."""
        self._next_line = 0.0

    def failed(self, fault: Fault) -> None:
        """A request brought no reply. Logged once for each status or class of error."""
        self.last = f"{self._url}: {fault}; {fault.fix}"
        # `HTTP 401: …`, `no answer in 120 s`: all of a kind share the text before a colon or a
        # bracket.
        self._once(f"{fault.kind} {fault.what.partition(':')[0].partition(' (')[0]}", self.last)

    def gave_up(self, kind: str, cause: str) -> None:
        """A call ended without a reply for a reason that no request has named."""
        self.last = cause
        self._once(f"call {kind}", self.last)

    def away(self, cause: str) -> None:
        """The breaker opened, or a call waits for it to close. Logged once a minute."""
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_S
            logger.warning("%s: %s (last failure: %s)", self._whose, cause, self.last)

    def came_back(self, seconds: float) -> None:
        """The breaker closed."""
        self._next_line = 0.0
        logger.warning("%s: %s answers again, after %.0f s", self._whose, self._url, seconds)

    def _once(self, kind: str, line: str) -> None:
        if kind not in self._logged and len(self._logged) < MOST_KINDS:
            self._logged.add(kind)
            more = "Later failures of this kind are counted, not logged"
            logger.warning("%s: %s. %s", self._whose, line, more)
