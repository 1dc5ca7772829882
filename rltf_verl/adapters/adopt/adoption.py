"""A run of verl as an RLTF run: which of its settings stay, which change, and why.

What cannot stay is what the start-up checks refuse or warn of: their words are the reasons. The
result has composed and passed those of them that need no device; where the run's files are here,
its rows and the lengths of its prompts too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from verl.trainer.ppo.utils import need_critic

from rltf_verl.adapters.adopt.launch import MAINS, Launch
from rltf_verl.adapters.adopt.settings import (
    STOCK,
    Setting,
    Settings,
    composed,
    differences,
    differing,
    parsed,
    settings_of,
    text_of,
    without_unknown,
)
from rltf_verl.adapters.startup import checks
from rltf_verl.adapters.startup.files import (
    DATA,
    REWARD_FUNCTION,
    check_dataset,
    resolve_files,
)
from rltf_verl.adapters.startup.logger import check_loggers
from rltf_verl.adapters.startup.machine import cpu_combinations
from rltf_verl.adapters.startup.modes import mode_combinations
from rltf_verl.adapters.startup.values import too_few_devices
from rltf_verl.adapters.startup.verl_settings import USELESS, ignored_settings, verl_combinations
from rltf_verl.config import ConfigError
from rltf_verl.data.made_for import OWN, MadeFor, made_for
from rltf_verl.data.schema import environments_of, files_of
from rltf_verl.envs.trials import Trials

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"

ENV, HARDWARE = "rltf/env", "rltf/hardware"
"""Groups of ours."""

ANOTHER_RUN = ("reward_model.enable", "reward.reward_model.enable", "distillation.enabled")
"""Settings without which the run would learn something else: refused, not dropped."""

STAY = (
    "data.train_batch_size",
    "data.max_response_length",
    f"{ROLLOUT}.val_kwargs.do_sample",
    f"{ROLLOUT}.val_kwargs.temperature",
)
"""Settings that stay the run's where it left them at verl's default, which is not ours."""

TOKEN_LIMITS = (
    f"{ACTOR}.ppo_max_token_len_per_gpu",
    f"{ROLLOUT}.log_prob_max_token_len_per_gpu",
    "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu",
)
FOLDERS = (
    "trainer.default_local_dir",
    "trainer.rollout_data_dir",
    "trainer.validation_data_dir",
)
NUM_ROUNDS = 10
"""Of `rltf.refill_rounds` where the run filters groups without a limit."""

TO_OURS = re.compile(r"; set it to [^;]*$")
PROMPT = "data.max_prompt_length"
TOO_LONG = re.compile(r"\w+\.max_prompt_length=\d+: (.*?); set it to at least (\d+) plus [^;]*(.*)")


@dataclass(frozen=True)
class Adopted:
    """The RLTF run."""

    launch: Launch
    overrides: list[str]
    changes: list[str]
    """One line per setting that changed or was dropped, and why."""
    notes: list[str]
    """What was not read or not checked, and what decides what the run learns from."""
    checked: list[str]
    """What the checks before a start were asked of."""


def adopt(
    launch: Launch, method: str = "sd", feedback: str | None = None, added: Sequence[str] = ()
) -> Adopted:
    """The run with text feedback.

    Args:
        launch: the run.
        method: of `rltf/method`.
        feedback: of `rltf/feedback`; None: what comes with the method.
        added: further overrides, which stay as they are.

    Raises:
        ConfigError: it cannot be adopted; names key, value and fix.
    """
    settings = settings_of(launch)
    known, notes = [setting.key for setting in settings.values], list(launch.notes)
    if launch.module not in MAINS:
        _from_async_main(settings)
    without_unknown(settings)
    theirs = composed(STOCK, settings.overrides)
    _refuse_another_run(theirs)
    extra = parsed(added)
    env = _environment(theirs, notes)
    settings.groups = [*_groups(extra, method, env, feedback), *settings.groups]
    _choose_class(settings, env, extra)
    _fit_hardware(settings, extra)
    _translate(settings, theirs)
    _name(settings, theirs, method)
    _settle(settings, theirs, extra)
    config = _checked(settings, extra)
    _say_who_grades(config, notes)
    checked = ["settings", *(["rows"] if _rows_are_here(config) else [])]
    if _make_room(settings, theirs, extra, config, notes):
        config, checked = _checked(settings, extra), [*checked, "prompt lengths"]
    _say_what_a_logger_needs(config, notes)
    changes = [
        *(line for line in settings.changes if not _of_the_user(line, extra)),
        *differences(theirs, config, known + [s.key for s in settings.values]),
    ]
    return Adopted(launch, settings.with_others(extra), changes, notes, checked)


def _of_the_user(line: str, extra: Settings) -> bool:
    """Whether a change is of a setting that the user has chosen."""
    return any(line.startswith((f"{s.key}=", f"+{s.key}=")) for s in extra.values)


def _groups(extra: Settings, method: str, env: MadeFor, feedback: str | None) -> list[str]:
    """Ours, as far as the user has not chosen them."""
    wanted = {"rltf/method": method, ENV: env.group, "rltf/feedback": feedback}
    chosen = {word.partition("=")[0] for word in extra.groups}
    return [f"{k}={v}" for k, v in wanted.items() if v is not None and k not in chosen]


def _choose_class(settings: Settings, env: MadeFor, extra: Settings) -> None:
    """Name the class that made the rows, with its options, unless the user names another.

    Raises:
        ConfigError: the rows do not say where it is, and neither does the user.
    """
    if env.group != OWN or _group(extra, ENV) not in (None, OWN) or extra.get("rltf.env.name"):
        return
    if not env.own:
        raise ConfigError(
            f"rltf/env={OWN}: the rows are of the environment {env.spec}, which is none of this"
            " package, and do not say where its class is; add rltf.env.name=./FILE.py:CLASS"
        )
    settings.values.append(Setting("", "rltf.env.name", env.spec))
    settings.values += [
        Setting("+", f"rltf.env.{key}", text_of(value)) for key, value in env.options.items()
    ]


def _fit_hardware(settings: Settings, extra: Settings) -> None:
    """Leave to a hardware group that the user chose what it sets."""
    chosen = [word for word in extra.groups if word.partition("=")[0] == HARDWARE]
    if not chosen:
        return
    usual, fit = composed("rltf", []), composed("rltf", chosen)
    for key in differing(usual, fit):
        if extra.get(key) is None:
            settings.drop([key], f"{chosen[-1]} sets it")


def _group(settings: Settings, name: str) -> str | None:
    """What was chosen of a group."""
    found = [word.partition("=")[2] for word in settings.groups if word.startswith(f"{name}=")]
    return found[-1] if found else None


def _from_async_main(settings: Settings) -> None:
    """verl's other mains have their own keys for what `main_ppo` has in its mode
    `separate_async`.
    """
    moved = {
        "rollout.nnodes": f"{ROLLOUT}.nnodes",
        "rollout.n_gpus_per_node": f"{ROLLOUT}.n_gpus_per_node",
    }
    for old, new in moved.items():
        setting = settings.get(old)
        settings.drop([old], f"main_ppo's key is {new}")
        settings.values.append(Setting("", new, setting.text if setting else "1"))
    trigger = settings.get("async_training.trigger_parameter_sync_step")
    require = settings.get("async_training.require_batches")
    size = settings.get(f"{ACTOR}.ppo_mini_batch_size")
    batch = settings.get("data.train_batch_size")
    num_problems = int(size.text) if size else 256
    if trigger:
        syncs = int(trigger.text) * (int(require.text) if require else 1)
    else:
        syncs = max(1, int(batch.text) // num_problems) if batch else 1
    settings.values.append(Setting("", "trainer.v1.trainer_mode", "separate_async"))
    settings.change("trainer.v1.separate_async.parameter_sync_step", syncs, "updates between syncs")
    settings.change("data.train_batch_size", syncs * num_problems, "the problems of these updates")
    settings.change(f"{ROLLOUT}.checkpoint_engine.backend", "nccl", "reaches the devices that play")
    if size is None:
        settings.change(f"{ACTOR}.ppo_mini_batch_size", num_problems, "verl's default")
    settings.drop(["data.gen_batch_size"], "trainer.v1 asks for single problems by itself")
    total = settings.get("rollout.total_rollout_steps")
    if total:
        steps = max(1, int(total.text) // (syncs * num_problems))
        settings.change("trainer.total_training_steps", steps, f"{total.text} problems in all")
    settings.drop(["async_training", "rollout"], "not a key of main_ppo")
    settings.drop(["actor_rollout_ref.hybrid_engine"], "trainer.v1 sets what it needs")


def _refuse_another_run(theirs: DictConfig) -> None:
    if need_critic(theirs):
        raise ConfigError(
            f"algorithm.adv_estimator={theirs.algorithm.adv_estimator}: this run trains a value"
            " model (critic), which RLTF does not have: it compares the episodes of a problem."
            f" Start from a GRPO run: algorithm.adv_estimator=grpo {ROLLOUT}.n=8"
        )
    for key in ANOTHER_RUN:
        if OmegaConf.select(theirs, key):
            why = TO_OURS.sub("", USELESS[key])
            raise ConfigError(f"{key}=True: {why}. Adopt the run without it")


def _environment(theirs: DictConfig, notes: list[str]) -> MadeFor:
    """The one that the rows were made for; `reward_function` for rows in verl's form."""
    for key in DATA:
        for path in files_of(OmegaConf.select(theirs, key) or []):
            if not Path(path).is_file():
                notes.append(f"{key}={path}: not on this machine, its rows were not looked at")
            elif names := environments_of(path):
                return made_for(path, min(names))
    return MadeFor("reward_function")


def _translate(settings: Settings, theirs: DictConfig) -> None:
    """Settings that ours have another name for."""
    mode = str(theirs.trainer.v1.trainer_mode)
    separate = mode == "separate_async"
    if mode != "sync" or settings.get("trainer.v1.trainer_mode"):
        settings.change("trainer.v1.trainer_mode", f"rltf_{mode}", "verl's, with our losses")
    size, batch = (
        int(theirs.actor_rollout_ref.actor.ppo_mini_batch_size),
        int(theirs.data.train_batch_size),
    )
    if not separate and batch > size and batch % size == 0:
        settings.drop([f"{ACTOR}.ppo_mini_batch_size"], "see rltf.updates_per_batch")
        why = f"mini-batches of {size} of the {batch} problems"
        settings.change("rltf.updates_per_batch", batch // size, why)
    _refill(settings, theirs, mode)
    if theirs.algorithm.use_kl_in_reward:
        settings.drop(["algorithm.use_kl_in_reward"], USELESS["algorithm.use_kl_in_reward"])
        settings.change(f"{ACTOR}.use_kl_loss", True, "the KL goes into the loss")
        settings.change(f"{ACTOR}.kl_loss_coef", theirs.algorithm.kl_ctrl.kl_coef, "of kl_ctrl")
    if int(theirs.actor_rollout_ref.rollout.n) < 2:
        why = "an answer is compared with the others to its problem, so there must be some"
        settings.change(f"{ROLLOUT}.n", 8, why)
    graded = [f"{s.key}" for s in settings.values if s.key.startswith(("reward.", "reward_model."))]
    kept = tuple(f"{block}." for block in REWARD_FUNCTION)
    settings.drop(
        [key for key in graded if not key.startswith(kept)],
        "the environment grades, verl's reward workers do not start",
    )
    settings.drop(["critic"], "there is no value model")


def _refill(settings: Settings, theirs: DictConfig, mode: str) -> None:
    """Dynamic sampling, which fills a batch until all of its groups teach something."""
    if not OmegaConf.select(theirs, "algorithm.filter_groups.enable"):
        return
    key = "rltf.refill_rounds"
    if mode != "sync":
        settings.drop(["algorithm.filter_groups"], f"{key} needs trainer.v1.trainer_mode=rltf_sync")
        return
    most = int(OmegaConf.select(theirs, "algorithm.filter_groups.max_num_gen_batches") or 0)
    settings.drop(["algorithm.filter_groups"], f"see {key}")
    settings.change(key, most if most > 0 else NUM_ROUNDS, "in the place of filter_groups")
    settings.drop(["data.gen_batch_size"], "refilling asks for single further problems")


def _name(settings: Settings, theirs: DictConfig, method: str) -> None:
    """A name and folders of its own: the run would go on from the other one's checkpoint."""
    suffix = f"_rltf_{method.replace('/', '_')}"
    why = "a run of its own, with checkpoints of its own"
    for key in ("trainer.experiment_name", *FOLDERS):
        setting = settings.get(key)
        value = OmegaConf.select(theirs, key)
        if setting is not None and value and "${" not in setting.text:
            settings.change(key, f"{str(value).rstrip('/')}{suffix}", why)


def _settle(settings: Settings, theirs: DictConfig, extra: Settings) -> None:
    """Sizes: what the run left at verl's default, and room for the second prompt."""
    ours = composed("rltf", [*settings.groups, *extra.groups])
    hardware = [] if ours.trainer.device == "cpu" else [f"{ROLLOUT}.tensor_model_parallel_size"]
    for key in (*STAY, *hardware):
        value = OmegaConf.select(theirs, key)
        if settings.get(key) is None and value != OmegaConf.select(ours, key):
            settings.change(key, value, "the run's value, verl's default")
    horizon = extra.get("rltf.episode.horizon")
    prompt, answer = int(theirs.data.max_prompt_length), int(theirs.data.max_response_length)
    if (int(horizon.text) if horizon else ours.rltf.episode.horizon) > 1:
        if extra.get(PROMPT) is None:
            why = "the second prompt quotes the question, the first answer and the feedback"
            settings.change(PROMPT, prompt + answer, why)
        prompt += answer
    if (
        settings.get(f"{ACTOR}.use_dynamic_bsz") is None
        and not theirs.actor_rollout_ref.actor.use_dynamic_bsz
    ):
        settings.drop(
            [f"{ACTOR}.ppo_micro_batch_size", f"{ACTOR}.ppo_micro_batch_size_per_gpu"],
            f"rows differ in length, so {ACTOR}.ppo_max_token_len_per_gpu packs them by tokens",
        )
    _widen(settings, theirs, prompt + answer)


def _widen(settings: Settings, theirs: DictConfig, needed: int) -> None:
    """Limits of tokens that one row must fit."""
    ranks = max(
        int(OmegaConf.select(theirs, f"{ACTOR}.{key}") or 1)
        for key in ("ulysses_sequence_parallel_size", "fsdp_config.ulysses_sequence_parallel_size")
    )
    for key in TOKEN_LIMITS:
        limit = OmegaConf.select(theirs, key)
        if limit is not None and int(limit) * ranks < needed:
            why = "a row must fit: data.max_prompt_length + data.max_response_length"
            settings.change(key, -(-needed // ranks), why)


def _checked(settings: Settings, extra: Settings) -> DictConfig:
    """The composed run, after dropping what the start-up checks refuse or warn of.

    Raises:
        ConfigError: they refuse something that is not the run's own setting.
    """
    while True:
        config = composed("rltf", [*settings.overrides, *extra.overrides])
        seen = _checkable(config)
        combinations = verl_combinations(seen) + mode_combinations(seen) + cpu_combinations(seen)
        refused = [message for ok, message in combinations if not ok]
        said = [*refused, *too_few_devices(seen), *ignored_settings(seen)]
        if not sum(_dropped(settings, message) for message in said):
            break
    parts = checks.checked_parts(seen)
    for key in DATA:
        for path in files_of(OmegaConf.select(seen, key) or []):
            if Path(path).is_file():
                check_dataset(key, path, parts.env)
    return config


def _rows_are_here(config: DictConfig) -> bool:
    paths = [path for key in DATA for path in files_of(OmegaConf.select(config, key) or [])]
    return bool(paths) and all(Path(path).is_file() for path in paths)


def _make_room(
    settings: Settings, theirs: DictConfig, extra: Settings, config: DictConfig, notes: list[str]
) -> bool:
    """Measure the prompts of the first problems where rows and model are here, and raise the limit
    to what the longest needs beside a whole attempt, if the model reads that much; whether they
    were measured.
    """
    path = str(OmegaConf.select(config, "actor_rollout_ref.model.path"))
    if not Path(path).is_dir():
        notes.append(f"actor_rollout_ref.model.path={path}: no folder here, no prompt was measured")
        return False
    if not _rows_are_here(config):
        return False
    seen, answer = _checkable(config), int(config.data.max_response_length)
    parts, trials = checks.parts_of(seen), Trials()
    messages = list(checks.refused_model(seen, parts, trials))
    while extra.get(PROMPT) is None and (found := _too_long(messages)) is not None:
        needed = int(found[2]) + answer
        OmegaConf.update(seen, PROMPT, needed)
        before, messages = messages, list(checks.refused_model(seen, parts, trials))
        if messages and _too_long(messages) is None:  # the model cannot read that much
            messages = before
            break
        settings.change(PROMPT, needed, f"{found[1]}, and the attempt up to {answer}{found[3]}")
        _widen(settings, theirs, needed + answer)
    notes += [f"a start would be refused: {message}" for message in messages]
    notes += trials.lines()
    return True


def _too_long(messages: Sequence[str]) -> re.Match[str] | None:
    return next(filter(None, map(TOO_LONG.match, messages)), None)


def _say_what_a_logger_needs(config: DictConfig, notes: list[str]) -> None:
    try:
        check_loggers(config, here=True)
    except ConfigError as error:
        notes.append(f"a start on this machine would be refused: {error}")


def _checkable(config: DictConfig) -> DictConfig:
    """A copy as the start-up checks see it, without a reward function that is not here."""
    seen: Any = config.copy()
    for block in REWARD_FUNCTION:
        path = OmegaConf.select(seen, f"{block}.path")
        if path and not str(path).startswith("pkg://") and not Path(path).expanduser().is_file():
            OmegaConf.update(seen, f"{block}.path", None)
    resolve_files(seen)
    return seen


def _dropped(settings: Settings, message: str) -> bool:
    """Drop the setting that a message of the checks begins with; whether it is the run's own."""
    key, _, rest = message.partition("=")
    value, _, why = rest.partition(": ")
    return settings.drop([key], TO_OURS.sub("", why) or value)


def _say_who_grades(config: DictConfig, notes: list[str]) -> None:
    env = str(config.rltf.env.name)
    if env != "reward_function":
        notes.append(f"rltf.env.name={env}: the rows were made for it, and it grades")
        return
    for block in REWARD_FUNCTION:
        path = OmegaConf.select(config, f"{block}.path")
        if path:
            notes.append(
                f"{block}.path={path}: grades, and its `feedback` is what the verifier says"
            )
            if not str(path).startswith("pkg://") and not Path(path).expanduser().is_file():
                notes.append(f"{block}.path={path}: not on this machine, not checked")
            return
    notes.append(
        "no custom_reward_function: verl's scorer of the rows' data_source grades, and feedback is"
        " only that an answer is wrong; return a dict with `feedback`, or use --feedback judge"
    )
