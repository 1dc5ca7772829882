"""Running untrusted programs, by name of the back end."""

from __future__ import annotations

import os
from typing import Literal

from rltf_verl.envs.sandbox.base import Resources, Sandbox

Backend = Literal["bubblewrap", "sandbox_fusion", "unsafe_process"]


def make_sandbox(
    backend: Backend,
    limits: Resources,
    max_parallel: int | None = None,
    url: str | None = None,
    python: str | None = None,
) -> Sandbox:
    """The back end of `rltf.env.sandbox`.

    Args:
        backend: one of `Backend`.
        limits: what one answer may use.
        max_parallel: executions at once in this process; None: as many as there are cores.
        url: of the service, for `sandbox_fusion` only.
        python: interpreter for the programs, for the local back ends only; None: the one that runs
            this, outside of its virtual environment.

    Raises:
        ValueError: a value that the config key cannot have.
    """
    if (url is None) == (backend == "sandbox_fusion"):
        raise ValueError(
            f"rltf.env.url={url!r} with rltf.env.sandbox={backend}: sandbox_fusion needs the URL of"
            " its service, e.g. http://127.0.0.1:8080/run_code, and nothing else has one"
        )
    num = os.cpu_count() or 1 if max_parallel is None else max_parallel
    if backend == "sandbox_fusion":
        from rltf_verl.envs.sandbox.fusion import FusionSandbox

        return FusionSandbox(str(url), limits, num)
    if backend == "bubblewrap":
        from rltf_verl.envs.sandbox.bubblewrap import BubblewrapSandbox

        return BubblewrapSandbox(limits, num, python)
    from rltf_verl.envs.sandbox.process import ProcessSandbox

    return ProcessSandbox(limits, num, python)
