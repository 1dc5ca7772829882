"""A run of verl as an RLTF run: which of its settings stay, which change, and why.

Settings that the start-up checks refuse or warn of cannot stay: their words are the reasons. The
result has composed and passed those of them that need no device; where the run's files are here,
also those of its rows. `rltf plan` measures its prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.startup.files import DATA, REWARD_FUNCTION
from rltf_verl.adapters.startup.rules import ACTOR, MINI_BATCH, ROLLOUT, USELESS
from rltf_verl.config import ConfigError
from rltf_verl.data.made_for import OWN, DatasetOrigin, made_for
from rltf_verl.data.schema import environments_of, files_of
from rltf_verl.findings import Finding
from rltf_verl.tools.adopt.checked import (
    apply_refusals,
    checked_config,
    grading_notes,
)
from rltf_verl.tools.adopt.command import Adopted, Launch
from rltf_verl.tools.compose.overrides import (
    STOCK,
    Override,
    Overrides,
    differences,
    has_value_model,
    own_config,
    parsed,
    text_of,
)
from rltf_verl.tools.compose.runs import compose_run

ENV, HARDWARE = "rltf/env", "rltf/hardware="
OWN_GROUP = f"{ENV}={OWN}"
ANOTHER_RUN = ("reward_model.enable", "reward.reward_model.enable", "distillation.enabled")
"""Settings without which the run would learn something else: refused, not dropped."""

FOLDERS = (
    "trainer.default_local_dir",
    "trainer.rollout_data_dir",
    "trainer.validation_data_dir",
)
REFILL_ROUNDS = 10
"""`rltf.refill_rounds` where the run filters groups without a limit."""


def adopt(launch: Launch, method: str = "sd", feedback: str | None = None) -> Adopted:
    """The run with text feedback.

    Args:
        launch: the run.
        method: of `rltf/method`.
        feedback: of `rltf/feedback`; None: what comes with the method.

    Raises:
        ConfigError: it cannot be adopted; names key, value and fix.
    """
    settings = settings_of(launch)
    keys, notes = [setting.key for setting in settings.values], list(launch.notes)
    settings.drop_unknown()  # first: an unknown key would not compose
    theirs = compose_run(STOCK, settings.overrides)
    _refuse_another_run(theirs)
    extra = parsed(list(filter(_is_ours, launch.overrides)))
    env = _environment(theirs, notes)
    settings.groups = [*_groups(extra, method, env, feedback), *settings.groups]
    _choose_class(settings, env, extra)
    hardware = [word for word in extra.groups if word.startswith(HARDWARE)]
    _leave_to_hardware(settings, hardware, extra)
    _translate(settings, theirs)
    _rename(settings, theirs, method)
    apply_refusals(settings, theirs, extra)
    config = checked_config(settings, extra)
    notes += grading_notes(config)
    groups = [word for word in (*settings.groups, *extra.groups) if word not in hardware]
    set_keys = {*keys, *(setting.key for setting in (*settings.values, *extra.values))}
    # what the user has set himself is no change to tell
    chosen = tuple(f"{sign}{setting.key}=" for setting in extra.values for sign in ("", "+"))
    usual = differences(theirs, compose_run("rltf", groups))
    presets = [s for s in differences(theirs, config) if s in usual and s.key not in set_keys]
    return Adopted(
        launch,
        settings.with_others(extra),
        [line for line in settings.changes.values() if not line.startswith(chosen)],
        notes,
        [
            *(str(setting) for setting in presets if not setting.key.startswith("rltf")),
            *(f"all settings of {word}" for word in hardware),
        ],
    )


def settings_of(launch: Launch) -> Overrides:
    """All settings of a run as overrides of verl's own config, those of its config file first.

    Raises:
        ConfigError: its config cannot be read.
    """
    settings = parsed([word for word in launch.overrides if not _is_ours(word)])
    if launch.config_name == STOCK and not launch.folder:
        return settings
    config, engine = own_config(launch.config_name, launch.folder)
    if engine != "dp" and not any(word.startswith("model_engine=") for word in settings.groups):
        settings.groups.append(f"model_engine={engine}")
    stock = compose_run(STOCK, [g for g in settings.groups if g.startswith("model_engine=")])
    settings.values = [*differences(stock, config), *settings.values]
    return settings


def _is_ours(word: str) -> bool:
    """True if the word was added to the launch for RLTF, as in `bash run.sh rltf/hardware=cpu`."""
    return word.lstrip("+~").startswith(("rltf/", "rltf."))


def _groups(extra: Overrides, method: str, env: DatasetOrigin, feedback: str | None) -> list[str]:
    """Ours, as far as the user has not chosen them."""
    wanted = {"rltf/method": method, ENV: env.group, "rltf/feedback": feedback}
    chosen = {word.partition("=")[0] for word in extra.groups}
    return [f"{k}={v}" for k, v in wanted.items() if v is not None and k not in chosen]


def _choose_class(settings: Overrides, env: DatasetOrigin, extra: Overrides) -> None:
    """Name the class that made the rows, with its options, unless the user names another.

    Raises:
        ConfigError: neither the rows nor the user say where it is.
    """
    others = [word for word in extra.groups if word.startswith(f"{ENV}=") and word != OWN_GROUP]
    if env.group != OWN or others or extra.get("rltf.env.name"):
        return
    if not env.own:
        raise ConfigError(
            f"{OWN_GROUP}: the environment {env.spec} of the rows is not built in, and the rows"
            " do not say where its class is; add rltf.env.name=./FILE.py:CLASS"
        )
    settings.values.append(Override("", "rltf.env.name", env.spec))
    settings.values += [
        Override("+", f"rltf.env.{key}", text_of(value)) for key, value in env.options.items()
    ]


def _leave_to_hardware(settings: Overrides, hardware: Sequence[str], extra: Overrides) -> None:
    """Drop what a hardware preset of the user's choice sets."""
    preset = differences(compose_run("rltf", []), compose_run("rltf", hardware)) if hardware else []
    keys = [setting.key for setting in preset if extra.get(setting.key) is None]
    settings.drop(keys, f"{' '.join(hardware)} sets it")


def _refuse_another_run(theirs: DictConfig) -> None:
    if has_value_model(theirs):
        raise ConfigError(
            f"algorithm.adv_estimator={theirs.algorithm.adv_estimator}: this run trains a value"
            " model, and RLTF compares the episodes of a problem instead; start from a GRPO run:"
            f" algorithm.adv_estimator=grpo {ROLLOUT}.n=8"
        )
    for key in ANOTHER_RUN:
        if OmegaConf.select(theirs, key):
            raise ConfigError(Finding(key, True, *USELESS[key]))


def _environment(theirs: DictConfig, notes: list[str]) -> DatasetOrigin:
    """The one that the rows were made for; `reward_function` for rows in verl's form."""
    for key in DATA:
        for path in files_of(OmegaConf.select(theirs, key) or []):
            if not Path(path).is_file():
                notes.append(f"{key}={path}: not on this machine, its rows were not checked")
            elif names := environments_of(path):
                return made_for(path, min(names))
    return DatasetOrigin("reward_function")


def _translate(settings: Overrides, theirs: DictConfig) -> None:
    """Settings that have another name with us."""
    mode = str(theirs.trainer.v1.trainer_mode)
    if mode != "sync" or settings.get("trainer.v1.trainer_mode"):
        settings.change("trainer.v1.trainer_mode", f"rltf_{mode}", "verl's, with our losses")
    size = int(theirs.actor_rollout_ref.actor.ppo_mini_batch_size)
    batch = int(theirs.data.train_batch_size)
    if mode != "separate_async" and (batch <= size or batch % size == 0):
        settings.drop([MINI_BATCH], "see rltf.updates_per_batch")
        if batch > size:
            why = f"mini-batches of {size} of the {batch} problems"
            settings.change("rltf.updates_per_batch", batch // size, why)
    _refill(settings, theirs, mode)
    if theirs.algorithm.use_kl_in_reward:
        settings.drop(["algorithm.use_kl_in_reward"], f"see {ACTOR}.use_kl_loss")
        settings.change(f"{ACTOR}.use_kl_loss", True, "the KL goes into the loss")
        settings.change(f"{ACTOR}.kl_loss_coef", theirs.algorithm.kl_ctrl.kl_coef, "of kl_ctrl")
    if int(theirs.actor_rollout_ref.rollout.n) < 2:
        settings.change(f"{ROLLOUT}.n", 8, "an answer is compared with the others to its problem")
    kept = tuple(f"{block}." for block in REWARD_FUNCTION)
    grades = [s.key for s in settings.values if s.key.startswith(("reward.", "reward_model."))]
    settings.drop(
        [key for key in grades if not key.startswith(kept)],
        "the environment grades, verl's reward workers do not start",
    )
    settings.drop(["critic"], "no value model is trained")


def _refill(settings: Overrides, theirs: DictConfig, mode: str) -> None:
    """Dynamic sampling, which fills a batch until all of its groups teach something."""
    if not OmegaConf.select(theirs, "algorithm.filter_groups.enable"):
        return
    key = "rltf.refill_rounds"
    if mode != "sync":
        settings.drop(["algorithm.filter_groups"], f"{key} needs trainer.v1.trainer_mode=rltf_sync")
        return
    limit = int(OmegaConf.select(theirs, "algorithm.filter_groups.max_num_gen_batches") or 0)
    settings.drop(["algorithm.filter_groups"], f"see {key}")
    settings.change(key, limit if limit > 0 else REFILL_ROUNDS, "in the place of filter_groups")
    settings.drop(["data.gen_batch_size"], "refilling asks for single further problems")


def _rename(settings: Overrides, theirs: DictConfig, method: str) -> None:
    """Another name and other folders: else the run would resume the GRPO run's checkpoint."""
    suffix = f"_rltf_{method.replace('/', '_')}"
    for key in ("trainer.experiment_name", *FOLDERS):
        setting = settings.get(key)
        value = OmegaConf.select(theirs, key)
        # `…/${trainer.experiment_name}` changes with the name
        if setting is not None and value and "${" not in setting:
            settings.change(key, f"{str(value).rstrip('/')}{suffix}", "keeps the GRPO run's")
