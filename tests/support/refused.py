"""Refusals of the checks before a run."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig

from rltf_verl.adapters.startup.checks import start_findings
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.findings import Finding


def refusals(config: DictConfig) -> Iterator[Finding]:
    """The errors, in order."""
    return (f for f in start_findings(config, DryRun()) if f.level == "error")
