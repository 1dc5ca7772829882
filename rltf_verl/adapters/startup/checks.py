"""Refuse what cannot work, with the key, the value and the fix, before a worker starts or a GPU
second is spent.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.compat import TESTED_VERL, verl_is_tested, verl_version
from rltf_verl.adapters.seams import seam_findings
from rltf_verl.adapters.startup.budget import (
    NUM_BUDGET_PROBES,
    check_prompt_budget,
    check_row_budget,
    check_world,
)
from rltf_verl.adapters.startup.files import (
    changed_prompts,
    check_datasets,
    check_folders,
    odd_files,
    resolve_files,
)
from rltf_verl.adapters.startup.judges import check_endpoints, check_judges
from rltf_verl.adapters.startup.machine import (
    check_cpus,
    check_devices,
    check_loggers,
    check_platform,
    is_here,
)
from rltf_verl.adapters.startup.memory import card_here, memory_findings
from rltf_verl.adapters.startup.model import (
    Model,
    check_attention,
    check_context,
    is_elsewhere,
    load_model,
)
from rltf_verl.adapters.startup.rules import N, rltf_of, rule_findings
from rltf_verl.adapters.startup.stamp import check_resume
from rltf_verl.adapters.startup.thoughts import keeps_answers, thought_findings
from rltf_verl.adapters.startup.user_code import check_own_rows
from rltf_verl.adapters.startup.values import wrong_values
from rltf_verl.config import ConfigError
from rltf_verl.data.questions import QuestionRow, first_questions
from rltf_verl.data.schema import files_of
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.episode.parts import Parts
from rltf_verl.findings import Finding, finding_of
from rltf_verl.hardware import cpu_services
from rltf_verl.objectives import Method
from rltf_verl.objectives.dry_run import own_failures

logger = logging.getLogger(__name__)


def check_driver(config: DictConfig) -> None:
    """All checks that need no Ray; run in the driver by `validate_config`.

    Raises:
        ConfigError: the first finding that is an error, with the key that the user set.
    """
    dry_run = DryRun()
    chosen = HydraConfig.get().overrides.task if HydraConfig.initialized() else ()
    require(start_findings(config, dry_run, ask_judges=True), chosen)
    require(chain(warnings_of(config, Method(rltf_of(config))), dry_run.findings()))


def require(found: Iterable[Finding], chosen: Sequence[str] = ()) -> None:
    """Raise ConfigError at the first error; log what comes before it.

    Args:
        found: of the checks.
        chosen: the user's overrides, whose key the error then names.
    """
    for finding in found:
        if finding.level == "error":
            raise ConfigError(finding.with_chosen_key(chosen))
        logger.log(logging.INFO if finding.level == "note" else logging.WARNING, "%s", finding)


def start_findings(
    config: DictConfig,
    dry_run: DryRun,
    *,
    ask_judges: bool = False,
    card: float | None = None,
) -> Iterator[Finding]:
    """Everything that cannot work, in the order in which to change it, and what the checks warn of.

    Makes the paths of the config absolute. Each check runs when its finding is wanted; a check that
    needs something refused is left out.

    Args:
        config: of the run.
        dry_run: counts the time for grades.
        ask_judges: in the end, each endpoint once, where the run's processes are this machine's.
        card: GB of a GPU, where the run will be; None: of this machine's.
    """
    yield from seam_findings()
    yield from wrong_values(config)
    parts = method = None
    try:
        resolve_files(config)
        # Hydra knows the config's name here only.
        config.trainer.experiment_name = str(config.trainer.experiment_name)
        with dry_run.explained("your own code"):
            parts = parts_of(config)
            method = Method(parts.config)
    except ValueError as error:
        yield finding_of(error)
    if parts is not None and method is not None:
        yield from refused_combinations(config, parts, method)
    yield from check_platform(config)
    yield from check_devices(config)
    with suppress(TypeError):  # no number, refused above
        yield from check_cpus(config)
    unusable: list[Finding] = []
    if parts is not None:
        if (trouble := parts.env.trouble()) is not None:
            yield Finding("", None, trouble, "")
        if is_here(config):
            yield from check_judges(parts.judges)
        unusable = [*check_datasets(config, parts.env, dry_run)]
        yield from unusable or changed_prompts(config, parts.env)
        yield from check_folders(parts.config)
        yield from check_resume(config, parts.config)
    yield from check_loggers(config)
    yield from check_model(config, None if unusable else parts, dry_run, card)
    if ask_judges and parts is not None and is_here(config):
        yield from check_endpoints(parts.judges)


def check_model(
    config: DictConfig, parts: Parts | None, dry_run: DryRun, card: float | None
) -> Iterator[Finding]:
    """The model, and the prompts under its tokenizer. A model on other machines is not checked."""
    if is_elsewhere(str(config.actor_rollout_ref.model.path)):
        return
    try:
        model = load_model(config)
    except ValueError as error:
        if is_here(config):
            yield finding_of(error)
        return
    yield from check_context(config, model)
    yield from check_attention(config, model)
    card = card or (card_here(config) if is_here(config) else None)
    with suppress(TypeError, ValueError, AttributeError):  # refused above, or no known model
        yield from memory_findings(config, model.text, card)
    if parts is not None:
        yield from check_row_budget(config)
        yield from check_first_rows(config, parts, model, dry_run)


def check_first_rows(
    config: DictConfig, parts: Parts, model: Model, dry_run: DryRun
) -> Iterator[Finding]:
    """The first rows of the first training file, as verl will read them. A user's dataset class is
    left to the trainer, which has one.
    """
    questions: list[QuestionRow] = []
    if OmegaConf.select(config, "data.custom_cls.path") is None:
        file = files_of(config.data.train_files)[0]
        try:
            questions = first_questions(file, NUM_BUDGET_PROBES, parts.env)
        except ValueError as error:
            yield finding_of(error)
    if questions:
        # An environment without a state for the first problem has no prompts to measure.
        stuck = [*check_world(parts, questions[0].problem, dry_run)] if parts.env.acts else []
        yield from stuck or check_prompt_budget(config, parts, questions, model.tokenizer, dry_run)
        yield from check_own_rows(config, parts, questions[0], model, dry_run)
    yield from thought_findings(config, parts, questions, model.tokenizer)


def parts_of(config: DictConfig) -> Parts:
    """The components of the `rltf:` block. Names `rltf.episode.context` in the config, so that
    workers need not choose again. Raises ValueError, ConfigError.
    """
    rltf = rltf_of(config)
    parts = Parts.of(rltf, rltf.episode.context is None and keeps_answers(config))
    named = parts.config.episode.context
    OmegaConf.update(config, "rltf.episode.context", named, force_add=True)
    return parts


def checked_parts(config: DictConfig) -> Parts:
    """The components of the `rltf:` block, held against verl's settings.

    Raises:
        ConfigError: names the key, its value and what to set instead.
    """
    parts = parts_of(config)
    method = Method(parts.config)
    require(chain(refused_combinations(config, parts, method), warnings_of(config, method)))
    return parts


def refused_combinations(config: DictConfig, parts: Parts, method: Method) -> Iterator[Finding]:
    """Settings of verl and ours that do not go together."""
    yield from rule_findings(config, "error")
    size = int(config.actor_rollout_ref.rollout.n)
    if size == 1 and all(o.compares_siblings for o in method.objectives if o.enabled):
        yield Finding(
            N,
            size,
            "a group of one is its own baseline"
            f" (rltf.attempt.estimator={parts.config.attempt.estimator}), so nothing would be"
            " trained",
            "set it to 8, or the estimator to none",
        )
    yield from own_failures(method, size)
    for objective in method.objectives:
        yield from objective.refusals(partial(OmegaConf.select, config), parts.provider)


def warnings_of(config: DictConfig, method: Method) -> Iterator[Finding]:
    """Settings that have no effect, or may not be meant."""
    if not verl_is_tested():
        yield Finding(
            "",
            None,
            f"verl {verl_version()} is outside the tested range {TESTED_VERL}",
            "run `rltf doctor`",
            "warning",
        )
    yield from rule_findings(config, "warning")
    yield from odd_files(config)
    if startup := cpu_services():
        yield from startup.warnings_of(config)
    yield from method.warnings(partial(OmegaConf.select, config))
