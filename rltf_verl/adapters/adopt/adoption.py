"""A run of verl as an RLTF run: which of its settings stay, which change, and why.

What cannot stay is what the start-up checks refuse or warn of: their words are the reasons. The
result has composed and passed those of them that need no device; where the run's files are here,
its rows and the lengths of its prompts too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from verl.trainer.ppo.utils import need_critic

from rltf_verl.adapters.adopt.checking import (
    checked_config,
    rows_are_here,
    say_what_a_logger_needs,
    say_who_grades,
)
from rltf_verl.adapters.adopt.launch import MAINS, Launch
from rltf_verl.adapters.adopt.settings import (
    ACTOR,
    ROLLOUT,
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
from rltf_verl.adapters.adopt.sizes import make_room, settle
from rltf_verl.adapters.startup.files import DATA, REWARD_FUNCTION
from rltf_verl.adapters.startup.rules import USELESS
from rltf_verl.config import ConfigError
from rltf_verl.data.made_for import OWN, MadeFor, made_for
from rltf_verl.data.schema import environments_of, files_of

ENV, HARDWARE = "rltf/env", "rltf/hardware"
"""Groups of ours."""

ANOTHER_RUN = ("reward_model.enable", "reward.reward_model.enable", "distillation.enabled")
"""Settings without which the run would learn something else: refused, not dropped."""

FOLDERS = (
    "trainer.default_local_dir",
    "trainer.rollout_data_dir",
    "trainer.validation_data_dir",
)
NUM_ROUNDS = 10
"""Of `rltf.refill_rounds` where the run filters groups without a limit."""


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
    settle(settings, theirs, extra)
    config = checked_config(settings, extra)
    say_who_grades(config, notes)
    checked = ["settings", *(["rows"] if rows_are_here(config) else [])]
    if make_room(settings, theirs, extra, config, notes):
        config, checked = checked_config(settings, extra), [*checked, "prompt lengths"]
    say_what_a_logger_needs(config, notes)
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
            why = USELESS[key][0]
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
        settings.drop(
            ["algorithm.use_kl_in_reward"], "; ".join(USELESS["algorithm.use_kl_in_reward"])
        )
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
