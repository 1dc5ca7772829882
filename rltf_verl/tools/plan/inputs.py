"""The inputs of a plan: refusals, components, tokenizer and the first rows of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.hook import refused_by_verl
from rltf_verl.adapters.startup.checks import parts_of, start_findings, warnings_of
from rltf_verl.adapters.startup.files import DATA, user_code
from rltf_verl.adapters.startup.machine import lacks_accelerator
from rltf_verl.adapters.startup.model import load_model
from rltf_verl.adapters.startup.rules import ROLLOUT
from rltf_verl.adapters.startup.scripted_policy import ScriptedVerlPolicy
from rltf_verl.adapters.startup.stamp import resumed_folder
from rltf_verl.adapters.startup.values import COUNTS, wrong_values
from rltf_verl.config import ConfigError
from rltf_verl.data.questions import QuestionRow, first_questions
from rltf_verl.data.schema import files_of, rows_of
from rltf_verl.envs.calls import tools_of
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.episode.parts import Parts
from rltf_verl.findings import Finding, value_at
from rltf_verl.objectives import Method
from rltf_verl.tools.data.check import shared_questions

ELSEWHERE = (
    "no accelerator on this machine: this is the plan of a run on another one, whose devices,"
    " precision, CPUs, engine and judges are not checked",
    "`rltf doctor` checks them there",
)
"""Reason and fix of a warning."""


@dataclass(frozen=True)
class Inputs:
    """A run before its start. Refused components are missing."""

    config: Any
    """The whole config."""
    refusals: Sequence[Finding]
    warnings: Sequence[Finding]
    parts: Parts | None
    method: Method | None
    """Where there are parts, and only there."""
    policy: ScriptedVerlPolicy | None
    cases: Sequence[QuestionRow]
    """The first rows of the training data."""
    num_train: int
    """Rows of the training files that the run takes."""
    num_val: int
    resumes: Path | None = None
    """The checkpoint that the run will resume."""
    dry_run: DryRun = field(default_factory=DryRun)
    """Counts the time for grades."""

    def setting(self, key: str) -> Any:
        """The value of a dotted key; None where a block is missing."""
        return value_at(self.config, key)


COUNTED = (
    *COUNTS,
    *("trainer.test_freq", "trainer.save_freq", f"{ROLLOUT}.temperature"),
    "trainer.v1.separate_async.parameter_sync_step",
)
"""Settings that a plan counts with."""
NUM_MEASURED = 256
"""Rows whose lengths are looked at."""


def inspect_run(
    config: DictConfig,
    dry_run: DryRun | None = None,
    chosen: Sequence[str] = (),
    card: float | None = None,
) -> Inputs:
    """Collect the inputs of a plan. Inputs that cannot be loaded become refusals.

    Args:
        config: of the run.
        dry_run: counts the time for grades.
        chosen: the user's overrides.
        card: GB of a GPU of the machine that the run will be on; None: of this one's.

    Raises:
        ConfigError: a setting of `COUNTED` is no number that a run can have.
    """
    wrong = [str(finding) for finding in wrong_values(config) if finding.key in COUNTED]
    if wrong:
        raise ConfigError("; ".join(wrong))
    dry_run = dry_run or DryRun()
    warnings: list[Finding] = []
    if lacks_accelerator(config):
        warnings.append(Finding("", None, *ELSEWHERE, "warning"))
        OmegaConf.update(config, "ray_kwargs.ray_init.address", "auto", force_add=True)
    found = [*start_findings(config, dry_run, card=card), *refused_by_verl(config)]
    refused = {str(finding): finding for finding in found if finding.level == "error"}
    warnings += (finding for finding in found if finding.level != "error")
    parts = method = None
    with contextlib.suppress(ValueError, TypeError):  # a refused list in the place of a block
        # code of the user's that was refused is not called again
        if user_code(config).keys().isdisjoint(finding.key for finding in refused.values()):
            built = parts_of(config)
            method, parts = Method(built.config), built
    if method is not None:
        warnings += warnings_of(config, method)
    policy = _policy(config, parts)
    if isinstance(policy, str) and policy not in refused:
        why = f"no prompts can be shown here ({policy})"
        warnings.append(Finding("", None, why, "", "warning"))
    warnings += _shared_questions(config)
    resumes = None
    with contextlib.suppress(ConfigError):  # among the refusals
        resumes = resumed_folder(config)
    return Inputs(
        config=config,
        refusals=[finding.with_chosen_key(chosen) for finding in refused.values()],
        warnings=warnings,
        parts=parts,
        method=method,
        policy=None if isinstance(policy, str) else policy,
        cases=[] if parts is None else _cases(config, parts),
        num_train=_rows_in(config, DATA[0]),
        num_val=_rows_in(config, DATA[1]),
        resumes=resumes,
        dry_run=dry_run,
    )


def _policy(config: DictConfig, parts: Parts | None) -> ScriptedVerlPolicy | str:
    """The policy that the prompts are shown with, or why there is none."""
    try:
        tools = () if parts is None else tools_of(parts.env)
        return ScriptedVerlPolicy(config, load_model(config), tools)
    except Exception as error:  # also of families that verl has a tokenisation of its own for
        return " ".join(str(error).split())


def _shared_questions(config: DictConfig) -> Iterator[Finding]:
    """Between the files of training and of validation."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):  # refused above
        files = [files_of(OmegaConf.select(config, key) or []) for key in DATA]
        for line in shared_questions(*files):
            yield Finding("", None, f"{DATA[1]}: {line}", "", "warning")


def _rows_in(config: DictConfig, key: str) -> int:
    """Rows of the files of `data.train_files` or `data.val_files` that the run takes."""
    num = 0
    for path in files_of(OmegaConf.select(config, key) or []):
        with contextlib.suppress(OSError, ValueError):
            num += rows_of(path)
    most = int(OmegaConf.select(config, key.replace("_files", "_max_samples")) or -1)
    return min(num, most) if most > 0 else num


def _cases(config: DictConfig, parts: Parts) -> list[QuestionRow]:
    try:
        (file, *_) = files_of(config.data.train_files)
        cases = first_questions(file, NUM_MEASURED, parts.env)
    except (OSError, ValueError, LookupError, TypeError):  # refused above
        return []
    # rows of another environment are refused too
    return [case for case in cases if case.problem.env == parts.env.name]
