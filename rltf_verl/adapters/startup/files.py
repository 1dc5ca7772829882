"""Files and folders that the config names: absolute paths, and checks of what they hold."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rltf_verl.config import ConfigError, RLTFConfig, reading
from rltf_verl.config.objectives import is_own
from rltf_verl.data.made_for import forgotten_options, made_for
from rltf_verl.data.provenance import read_provenance
from rltf_verl.data.schema import (
    FIX,
    JUDGED,
    LABELLED,
    check_parquet,
    corrections_in,
    environments_of,
    files_of,
    first_rows,
    index_of_all,
    problem_of,
    refuse_empty_prompts,
    refuse_foreign_loops,
    rows_of,
)
from rltf_verl.envs.base import Env
from rltf_verl.envs.dry_run import DryRun, OutOfTimeError
from rltf_verl.findings import Finding
from rltf_verl.kinds import name_of
from rltf_verl.prompts import is_file
from rltf_verl.texts import counted

TEMPLATES = ("rltf.episode.revise", "rltf.teacher.prompt", "rltf.feedback_modeling.critic")
"""Settings that can name a template file; so can `critic` of every provider."""

USER_CODE = (
    *("rltf.env.name", "rltf.env.function", "rltf.distill.baseline"),
    *("rltf.feedback_modeling.filter", "rltf.teacher.gate", "rltf.logit_distill.divergence"),
)
"""Settings that can name a class or a function of a Python file; so can `provider` of every
provider and each of `rltf.objectives`."""

DATA = ("data.train_files", "data.val_files")
REWARD_FUNCTION = ("custom_reward_function", "reward.custom_reward_function")
"""verl's blocks for a reward function, the older one first."""


def resolve_files(config: DictConfig) -> None:
    """Make `./mine.py:Class` and `./mine.j2` absolute: workers of a cluster start in other folders.

    Raises:
        ConfigError: a reward function that cannot be found, a value in the place of a block.
    """
    for key in sorted({key.rpartition(".")[0] for key in (*TEMPLATES, *USER_CODE)}):
        reading.block(key.removeprefix("rltf."), _tree_of(config, key))
    for key in (*TEMPLATES, *_keys_of("critic", config)):
        template = OmegaConf.select(config, key)
        if template is not None and is_file(str(template)):
            OmegaConf.update(config, key, str(Path(str(template)).expanduser().resolve()))
    take_reward_function(config)
    for key, where in user_code(config).items():
        path, _, name = where.rpartition(":")
        if path.endswith(".py"):
            OmegaConf.update(config, key, f"{Path(path).expanduser().resolve()}:{name}")


def user_code(config: DictConfig) -> dict[str, str]:
    """Key -> `./mine.py:name` or `module:name` of all code of the user's that the config names."""
    objectives = _tree_of(config, "rltf.objectives")
    own = objectives if isinstance(objectives, Mapping) else ()  # refused later
    keys = (
        *USER_CODE,
        *(f"rltf.objectives.{name}" for name in own),
        *_keys_of("provider", config),
    )
    named = {}
    for key in keys:
        value = OmegaConf.select(config, key)
        where = str(name_of(value))
        if is_own(where):
            named[f"{key}.name" if isinstance(value, DictConfig) else key] = where
    return named


def _keys_of(name: str, config: DictConfig) -> list[str]:
    """The keys called `name`: a provider can be made of others."""
    key = "rltf.feedback"
    return [at for at, last, _ in reading.keys_in(key, _tree_of(config, key)) if last == name]


def _tree_of(config: DictConfig, key: str) -> Any:
    block = OmegaConf.select(config, key)
    return OmegaConf.to_container(block) if OmegaConf.is_config(block) else block


def take_reward_function(config: DictConfig) -> None:
    """Give verl's reward function to the environment `reward_function`, and not to verl, which
    would load it once more to grade nothing.
    """
    if OmegaConf.select(config, "rltf.env.name") != "reward_function":
        return
    for block in REWARD_FUNCTION:
        path = OmegaConf.select(config, f"{block}.path")
        if path is None:
            continue
        _require_python_file(block, str(path))
        name = OmegaConf.select(config, f"{block}.name") or "compute_score"
        source = str(path).removeprefix("pkg://")
        # Without `pkg://` it is a file.
        if source == str(path):
            source = str(Path(source).expanduser().resolve())
        OmegaConf.update(config, "rltf.env.function", f"{source}:{name}")
        kwargs = OmegaConf.select(config, f"{block}.reward_kwargs")
        if kwargs is not None:
            OmegaConf.update(config, "rltf.env.kwargs", kwargs, force_add=True)
        OmegaConf.update(config, f"{block}.path", None)


def _require_python_file(block: str, path: str) -> None:
    key, (file, _, function) = f"{block}.path", path.rpartition(":")
    if file.endswith(".py"):
        raise ConfigError(
            Finding(
                key, path, "names a function, too", f"write {key}={file} {block}.name={function}"
            )
        )
    if path.startswith("pkg://"):
        return
    if not path.endswith(".py"):
        raise ConfigError(Finding(key, path, "must be a Python file, path/to/file.py", ""))
    if not Path(path).expanduser().is_file():
        raise ConfigError(Finding(key, path, f"no such file, seen from {Path.cwd()}", "correct it"))


def check_datasets(config: DictConfig, env: Env, dry_run: DryRun) -> Iterator[Finding]:
    """Files of the config that cannot be trained or validated on."""
    num_rows, seen = 0, set()
    for key in DATA:
        named = OmegaConf.select(config, key)
        if not named:
            yield Finding(key, named, "no file is named, and verl wants one", FIX)
            return
        for path in files_of(named):
            for finding in check_dataset(key, path, env, dry_run):
                if str(finding) not in seen:
                    yield finding
                seen.add(str(finding))
                # A file that cannot be read: how many rows there are is not known.
                num_rows = -1
            if key == DATA[0] and num_rows >= 0:
                num_rows += rows_of(path)
    wanted = config.data.get("gen_batch_size") or config.data.train_batch_size
    most = int(config.data.get("train_max_samples") or -1)
    taken = min(num_rows, most) if most > 0 else num_rows
    if num_rows > 0 and taken < wanted:
        of_which = f", of which data.train_max_samples={most} are taken" if taken < num_rows else ""
        yield Finding(
            "data.train_batch_size",
            config.data.train_batch_size,
            f"the training files hold {counted(num_rows, 'row')}{of_which}: no whole batch",
            "lower it, or add rows",
        )


def odd_files(config: DictConfig) -> Iterator[Finding]:
    """Files made with options that the run lacks, or whose rows have one index; corrections to
    train on that neither a person nor a judge has seen.
    """
    block: Any = OmegaConf.to_container(config.rltf.env, resolve=True)
    for key in DATA:
        for path in files_of(OmegaConf.select(config, key) or ()):
            with suppress(OSError, ValueError):  # `check_datasets` names it, or it is elsewhere
                options = forgotten_options(path, str(block.get("name")), block)
                if options:
                    yield Finding(
                        key, path, "was made with other options", f"add {options}", "warning"
                    )
                rules = [one.get("rule", JUDGED) for one in corrections_in(path)]
                num = sum(rule not in (LABELLED, JUDGED) for rule in rules)
                if num and key == DATA[0]:
                    yield Finding(
                        key,
                        path,
                        f"{num} of its {len(rules)} corrections were picked by a rule and not"
                        " checked, and wrong ones are learnt, too",
                        "read some with `rltf data show`, or let a judge pick them",
                        "warning",
                    )
                index = index_of_all(path)
                if index is not None:
                    yield Finding(
                        key,
                        path,
                        f"extra_info.index is {index} in all rows, so the same episode of each"
                        " problem is sampled with the same seed",
                        "number the rows",
                        "warning",
                    )


def changed_prompts(config: DictConfig, env: Env) -> Iterator[Finding]:
    """Checked files whose first prompt is not what the environment writes: a run reads prompts from
    the file, whatever has changed since it was built.
    """
    for key in DATA:
        for path in files_of(OmegaConf.select(config, key)):
            if not str(read_provenance(path).get("command")).startswith("rltf data build "):
                continue
            (row,) = first_rows(path, 1)
            with suppress(Exception):  # of a user's class; a run asks for no prompt
                prompt = env.prompt(problem_of(env, row))
                if [message["content"] for message in row["prompt"]] != [prompt]:
                    yield Finding(
                        key,
                        path,
                        f"its first prompt is not the one that {env.name} writes now: its class or"
                        " options changed after the file was built, and the run reads the file's",
                        "build the file again with `rltf data build`",
                        "warning",
                    )


def check_dataset(key: str, path: str, env: Env, dry_run: DryRun) -> Iterator[Finding]:
    """A file of config `key` whose rows the environment cannot grade."""
    if Path(path).is_dir():
        yield Finding(key, path, "is a folder", "name its parquet files")
        return
    try:
        first = check_parquet(path, env)
        refuse_empty_prompts(path)
        refuse_foreign_loops(path)
        names = environments_of(path)
    except FileNotFoundError:
        yield Finding(key, path, f"no such file, seen from {Path.cwd()}", FIX)
        return
    except (ValueError, OSError) as error:
        yield Finding("", None, f"{key}: {error}", "")
        return
    others = sorted(names - {env.name})
    if others:
        yield Finding(
            key,
            path,
            f"its rows were made for the environment {', '.join(others)} (extra_info.env), and"
            f" rltf.env.name is {env.name}",
            f"add {made_for(path, others[0]).overrides}, or name a file of {env.name}",
        )
        return
    trouble = None
    try:
        with dry_run.timed():
            trouble = (env.not_for_training(first) if key == DATA[0] else None) or env.trouble_with(
                first
            )
    except OutOfTimeError:
        dry_run.left_out.append(f"a grade of the first row of {key}")
    if trouble is not None:
        has_key = trouble.startswith("rltf.")
        yield Finding("", None, trouble if has_key else f"{key}={path}: {trouble}", "")


def check_folders(rltf: RLTFConfig) -> Iterator[Finding]:
    """Folders that the run writes to, and that cannot be made or written."""
    guard = {"judge": rltf.feedback.guard.judge}
    blocks = {
        "episode_log": {"dir": rltf.episode_log.dir},
        "feedback": {"guard": guard, **rltf.feedback.provider.options},
        "env": rltf.env.options,
    }
    for key, name, folder in reading.keys_in("rltf", blocks):
        is_folder = name in FOLDERS and isinstance(folder, str)
        trouble = _write_trouble(Path(folder)) if is_folder else None
        if trouble is not None:
            yield Finding(key, folder, f"cannot be written ({trouble})", "name another folder")


def _write_trouble(folder: Path) -> str | None:
    """Why nothing could be written there; the folder is created on first write."""
    # A folder that is not there yet will be made in the nearest one that is.
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            return None
    except OSError as error:
        return str(error.strerror)


FOLDERS = ("dir", "cache_dir", "inbox")
"""Keys of the `rltf:` block, at any depth, that name a folder to write to."""
