"""The back end `sandbox_fusion`: a service with the protocol of ByteDance's SandboxFusion, as
verl's client speaks it.

Request and response fields are those of verl/utils/reward_score/sandbox_fusion/utils.py: one POST
per test. How well a program is shut in, and what processes and files it may have, is the service's
affair.
"""

from __future__ import annotations

import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from typing import Any

from rltf_verl.envs.sandbox.base import (
    Outcome,
    Program,
    Resources,
    SandboxError,
    SandboxUnreachableError,
)
from rltf_verl.envs.sandbox.local import INSIDE, held, slots
from rltf_verl.envs.sandbox.reports import SILENT, as_mapping, outcome_of_report

TRIES = 3
RETRY_S = 1.0
NETWORK_S = 10.0
"""Seconds beyond a test's own that a reply may take, as in verl."""
RETRIED = (429, 502, 503, 504)


class FusionSandbox:
    """Sends programs to a service.

    Args:
        url: of its `run_code`.
        limits: `time_s`, `total_s`, `memory_mb` and `output_kb` count.
        max_parallel: requests at once from this process.
    """

    def __init__(self, url: str, limits: Resources, max_parallel: int) -> None:
        self._url, self._limits, self._slots = url, limits, slots(max_parallel)

    def trouble(self) -> str | None:
        """See `Sandbox.trouble`."""
        try:
            with self.start(Program("print(int(input()) + 1)")) as run:
                outcome = run.call("41\n")
        except SandboxError as error:
            return str(error)
        if outcome.ending == "ok" and outcome.output.strip() == "42":
            return None
        return (
            f"rltf.env.url={self._url}: the service does not run a simple Python program"
            f" ({outcome.ending})"
        )

    @contextmanager
    def start(self, program: Program) -> Iterator[FusionRun]:
        """See `Sandbox.start`."""
        with held(self._slots, self._limits):
            yield FusionRun(self._url, self._limits, program)


class FusionRun:
    """One program; a request per test."""

    def __init__(self, url: str, limits: Resources, program: Program) -> None:
        self._url, self._limits, self._entry = url, limits, program.entry
        # Random, so that no output holds it by chance.
        self._mark = f"\n{secrets.token_hex(16)}\n"
        self._code = f"{INSIDE}\ntell({program.source!r}, {program.entry!r}, {self._mark!r})\n"
        self._deadline = time.monotonic() + limits.total_s

    def call(self, given: Any) -> Outcome:
        """See `ProgramRun.call`."""
        if time.monotonic() > self._deadline:
            return Outcome("timeout")
        request: dict[str, Any] = {
            "compile_timeout": self._limits.time_s,
            "run_timeout": self._limits.time_s,
            "code": self._code,
            "stdin": given if self._entry is None else json.dumps(given),
            "memory_limit_MB": self._limits.memory_mb,
            "language": "python",
            "files": {},
            "fetch_files": [],
        }
        return self._outcome(self._post(json.dumps(request).encode()))

    def _outcome(self, reply: dict[str, Any]) -> Outcome:
        ran = reply.get("run_result")
        if reply.get("status") not in ("Success", "Failed") or not isinstance(ran, dict):
            raise SandboxError(
                f"rltf.env.url={self._url}: {reply.get('status')}:"
                f" {str(reply.get('message'))[:200]}"
            )
        if ran.get("status") == "TimeLimitExceeded":
            return Outcome("timeout")
        printed, found, report = str(ran.get("stdout") or "").rpartition(self._mark)
        if not found:
            # Without the mark `rpartition` has put all of it last.
            printed, report = report, ""
        if not found and ran.get("return_code") != 0:
            last = str(ran.get("stderr") or "").strip().rpartition("\n")[2]
            return Outcome(
                "memory" if "MemoryError" in last else "crash", message=last or SILENT.message
            )
        outcome = outcome_of_report(report, printed, self._entry)
        return (
            Outcome("output")
            if len(outcome.output.encode()) > 1024 * self._limits.output_kb
            else outcome
        )

    def _post(self, body: bytes) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        failed: type[SandboxError] = SandboxUnreachableError
        for k in range(TRIES):
            try:
                request = urllib.request.Request(self._url, body, headers)
                left = max(self._deadline - time.monotonic(), 0.0)
                seconds = min(2 * self._limits.time_s, left) + NETWORK_S
                end = time.monotonic() + seconds
                with urllib.request.urlopen(request, timeout=seconds) as response:
                    return as_mapping(b"".join(_chunks(response, end)))
            except urllib.error.HTTPError as error:
                failure: Exception = error
                if error.code not in RETRIED:
                    failed = SandboxError  # it answers, and may refuse this program only
                    break
            except (OSError, HTTPException, ValueError) as error:
                failure = error
            if time.monotonic() > self._deadline:
                break
            if k + 1 < TRIES:
                time.sleep(RETRY_S * (k + 1))
        raise failed(f"rltf.env.url={self._url}: {type(failure).__name__}: {failure}") from failure


def _chunks(response: HTTPResponse, end: float) -> Iterator[bytes]:
    """The body; urllib's timeout is one of each read. Raises TimeoutError at `end`."""
    while chunk := response.read1(2**16):
        if time.monotonic() > end:
            raise TimeoutError("the reply did not end in time")
        yield chunk
