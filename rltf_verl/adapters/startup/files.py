"""Files and folders that the config names: made absolute, and looked at."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rltf_verl.config import ConfigError, RLTFConfig
from rltf_verl.data.made_for import forgotten_options, made_for
from rltf_verl.data.schema import (
    FIX,
    check_parquet,
    environments_of,
    files_of,
    index_of_all,
    refuse_empty_prompts,
    rows_of,
)
from rltf_verl.envs.base import Env, KnowsTrouble
from rltf_verl.envs.trials import OutOfTimeError, Trials
from rltf_verl.prompts import is_file
from rltf_verl.texts import counted

TEMPLATES = ("rltf.episode.revise", "rltf.teacher.prompt", "rltf.feedback_modeling.critic")
"""Settings that can name a template file; so can `critic` of every provider."""

OWN = (
    *("rltf.env.name", "rltf.env.function", "rltf.distill.baseline"),
    *("rltf.feedback_modeling.filter", "rltf.teacher.gate"),
)
"""Settings that can name a class or a function of a Python file; so can `provider` of every
provider and each of `rltf.objectives`."""

DATA = ("data.train_files", "data.val_files")
REWARD_FUNCTION = ("custom_reward_function", "reward.custom_reward_function")
"""verl's blocks for a reward function, the older one first."""


def resolve_files(config: DictConfig) -> None:
    """Make `./mine.py:Class` and `./mine.j2` absolute: workers of a cluster start in folders of
    their own.
    """
    feedback = _tree_of(config, "rltf.feedback")
    for key in (*TEMPLATES, *_keys_of("critic", feedback, "rltf.feedback")):
        template = OmegaConf.select(config, key)
        if template is not None and is_file(str(template)):
            OmegaConf.update(config, key, str(Path(str(template)).expanduser().resolve()))
    take_reward_function(config)
    objectives = _tree_of(config, "rltf.objectives")
    named = objectives if isinstance(objectives, Mapping) else ()  # refused later
    own = [f"rltf.objectives.{name}" for name in named]
    for key in (*OWN, *own, *_keys_of("provider", feedback, "rltf.feedback")):
        path, separator, name = str(OmegaConf.select(config, key)).rpartition(":")
        if separator and path.endswith(".py"):
            OmegaConf.update(config, key, f"{Path(path).expanduser().resolve()}:{name}")


def _tree_of(config: DictConfig, key: str) -> Any:
    block = OmegaConf.select(config, key)
    return OmegaConf.to_container(block) if OmegaConf.is_config(block) else block


def _keys_of(name: str, tree: Any, at: str) -> Iterator[str]:
    """The keys called `name` of a block and of all blocks inside it: a provider can be made of
    others.
    """
    if isinstance(tree, Mapping):
        for key, inner in tree.items():
            yield from [f"{at}.{key}"] if key == name else _keys_of(name, inner, f"{at}.{key}")
    elif isinstance(tree, list):
        for i, inner in enumerate(tree):
            yield from _keys_of(name, inner, f"{at}[{i}]")


def take_reward_function(config: DictConfig) -> None:
    """Give the environment `reward_function` what verl's config says of it, and leave nothing to
    verl, which would load it once more to grade nothing.
    """
    if OmegaConf.select(config, "rltf.env.name") != "reward_function":
        return
    for block in REWARD_FUNCTION:
        path = OmegaConf.select(config, f"{block}.path")
        if path is None:
            continue
        _require_python_file(f"{block}.path", str(path), f"{block}.name")
        name = OmegaConf.select(config, f"{block}.name") or "compute_score"
        source = str(path).removeprefix("pkg://")
        if source == str(path):
            source = str(Path(source).expanduser().resolve())
        OmegaConf.update(config, "rltf.env.function", f"{source}:{name}")
        if source.endswith(".py") and not Path(source).is_file():
            raise ConfigError(f"{block}.path={path}: no such file, seen from {Path.cwd()}")
        kwargs = OmegaConf.select(config, f"{block}.reward_kwargs")
        if kwargs is not None:
            OmegaConf.update(config, "rltf.env.kwargs", kwargs, force_add=True)
        OmegaConf.update(config, f"{block}.path", None)


def _require_python_file(key: str, path: str, name_key: str) -> None:
    file, _, function = path.rpartition(":")
    if file.endswith(".py"):
        raise ConfigError(
            f"{key}={path}: names a function, too; write {key}={file} {name_key}={function}"
        )
    if not path.endswith(".py") and not path.startswith("pkg://"):
        raise ConfigError(f"{key}={path}: must be a Python file, path/to/file.py, or pkg://module")


def check_datasets(config: DictConfig, env: Env, trials: Trials | None = None) -> Iterator[str]:
    """A line for each file of the config that cannot be trained or validated on."""
    num_rows, said, trials = 0, set(), trials or Trials()
    for key in DATA:
        named = OmegaConf.select(config, key)
        if not named:
            yield f"{key}={named}: no file is named, and verl wants one; {FIX}"
            return
        for path in files_of(named):
            try:
                check_dataset(key, path, env, trials)
            except ValueError as error:
                line = " ".join(str(error).split())
                if line not in said:
                    yield line
                said.add(line)
                num_rows = -1
            if key == DATA[0] and num_rows >= 0:
                num_rows += rows_of(path)
    wanted = config.data.get("gen_batch_size") or config.data.train_batch_size
    most = int(config.data.get("train_max_samples") or -1)
    taken = min(num_rows, most) if most > 0 else num_rows
    if num_rows > 0 and taken < wanted:
        of_which = f", of which data.train_max_samples={most} are taken" if taken < num_rows else ""
        yield (
            f"data.train_batch_size={config.data.train_batch_size}: the training files hold"
            f" {counted(num_rows, 'row')}{of_which}, so there is no whole batch;"
            " lower it, or add rows"
        )


def files_made_otherwise(config: DictConfig) -> list[str]:
    """A line for each file that the run's own environment made with options that the run lacks."""
    lines = []
    block: Any = OmegaConf.to_container(config.rltf.env, resolve=True)
    for key in DATA:
        for path in files_of(OmegaConf.select(config, key) or ()):
            with suppress(OSError, ValueError):  # said by `check_datasets`, or not on this machine
                words = forgotten_options(path, str(block.get("name")), block)
                if words:
                    lines.append(f"{key}={path}: was made with other options; add {words}")
    return lines


def files_of_one_index(config: DictConfig) -> list[str]:
    """A line for each file whose rows have all the same index."""
    lines = []
    for key in DATA:
        for path in files_of(OmegaConf.select(config, key) or ()):
            with suppress(OSError, ValueError):  # said by `check_datasets`, or not on this machine
                index = index_of_all(path)
                if index is not None:
                    lines.append(
                        f"{key}={path}: extra_info.index is {index} in all rows, so the same"
                        " episode of each problem is sampled with the same seed; number the rows"
                    )
    return lines


def check_dataset(key: str, path: str, env: Env, trials: Trials | None = None) -> None:
    """Raise ConfigError unless the file of config `key` holds rows that the environment can
    grade.
    """
    trials = trials or Trials()
    if Path(path).is_dir():
        raise ConfigError(f"{key}={path}: is a folder; name its parquet files")
    try:
        first = check_parquet(path, env)
        refuse_empty_prompts(path)
        names = environments_of(path)
    except FileNotFoundError as error:
        raise ConfigError(f"{key}={path}: no such file, seen from {Path.cwd()}; {FIX}") from error
    except (ValueError, OSError) as error:
        raise ConfigError(f"{key}: {error}") from error
    others = sorted(names - {env.name})
    if others:
        raise ConfigError(
            f"{key}={path}: its rows were made for the environment {', '.join(others)}"
            f" (extra_info.env), and rltf.env.name is {env.name}; add"
            f" {made_for(path, others[0]).overrides}, or name a file of {env.name}"
        )
    trouble = None
    try:
        if isinstance(env, KnowsTrouble):
            with trials.timed():
                trouble = env.trouble_with(first)
    except OutOfTimeError:
        trials.left_out.append(f"a grade of the first row of {key}")
    if trouble is not None:
        own = trouble.startswith("rltf.")  # names the key that is to blame
        raise ConfigError(trouble if own else f"{key}={path}: {trouble}")


def check_folders(rltf: RLTFConfig) -> None:
    """Raise ConfigError if a folder that the run writes to cannot be made or written."""
    feedback = {
        "record_dir": rltf.feedback.record_dir,
        "guard": {"judge": rltf.feedback.guard.judge},
        **rltf.feedback.provider.options,
    }
    blocks = {
        "episode_log": {"dir": rltf.episode_log.dir},
        "feedback": feedback,
        "env": rltf.env.options,
    }
    for key, folder in _folders("rltf", blocks):
        trouble = _write_trouble(Path(folder))
        if trouble is not None:
            raise ConfigError(f"{key}={folder}: cannot be written ({trouble}); name another folder")


def _write_trouble(folder: Path) -> str | None:
    """Why nothing could be written there; it is made by whoever writes first."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            return None
    except OSError as error:
        return str(error.strerror)


FOLDERS = ("dir", "record_dir", "cache_dir", "inbox")
"""Keys of the `rltf:` block, at any depth, that name a folder to write to."""


def _folders(key: str, value: Any) -> Iterator[tuple[str, str]]:
    items = (
        value.items()
        if isinstance(value, Mapping)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, inner in items:
        inner_key = f"{key}[{name}]" if isinstance(name, int) else f"{key}.{name}"
        if name in FOLDERS and isinstance(inner, str):
            yield inner_key, inner
        else:
            yield from _folders(inner_key, inner)
