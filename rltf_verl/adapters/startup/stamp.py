"""The stamp of a checkpoint: the settings that make a run another experiment. A checkpoint of
another method is not resumed silently.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import math
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import pyarrow.parquet as pq
from omegaconf import DictConfig, OmegaConf

from rltf_verl.config import ConfigError, RLTFConfig
from rltf_verl.data.provenance import read_provenance
from rltf_verl.data.schema import corrections_in, files_of
from rltf_verl.findings import Finding, finding_of
from rltf_verl.jsonl import write_whole
from rltf_verl.redaction import cleaned, hidden, secrets_here
from rltf_verl.runlog.files import LATEST, STAMP

logger = logging.getLogger(__name__)

VERL_KEYS = (
    "actor_rollout_ref.actor.policy_loss.loss_mode",
    "actor_rollout_ref.model.lora.rank",
    "actor_rollout_ref.model.lora_rank",
    "actor_rollout_ref.model.path",
    "actor_rollout_ref.rollout.n",
    "data.max_prompt_length",
    "data.max_response_length",
    "data.seed",
    "data.train_batch_size",
)
"""Settings of verl that decide what is trained. Number of steps, logging and validation may
change.
"""

OPTIMISER = tuple(f"actor_rollout_ref.actor.optim.{key}" for key in ("lr", "weight_decay", "betas"))
"""Settings that verl's FSDP engines read from the checkpoint, whatever the config says."""

MAY_CHANGE = frozenset(
    {
        "acknowledge_leaks",
        "api_key_env",
        "base_url",
        "cache_dir",
        "episode_log",
        "keep_best",
        "limits",
        "max_parallel",
        "num_workers",
        "price",
        "python",
        "stop_after",
        "stop_when_solved_val",
        "timeout_s",
        "url",
        "val_feedback_every",
    }
)
"""Keys of the `rltf:` block, at any depth, that decide where and how fast a run works, not what it
trains.
"""

_NAME = re.compile(r"(?:best_)?global_step_(\d+)")

IDS = "data.corrections"
"""Key of the ids of the corrections in the training files, of which one may have to be taken out
again. A resumed run has the same files (`check_resume`), so the list is whole.
"""
NUM_SHOWN = 5
LONGEST_COMMAND = 100_000
"""Characters of the command in `config.yaml`."""


def experiment_stamp(config: DictConfig, rltf: RLTFConfig) -> dict[str, Any]:
    """Dotted key -> value, as JSON knows it, of everything that decides what the run trains;
    without secrets.
    """
    stamp = dict(_flat("rltf", dataclasses.asdict(rltf)))
    stamp |= {key: OmegaConf.select(config, key) for key in (*VERL_KEYS, *OPTIMISER)}
    stamp["data.train_files"] = [_content(Path(path)) for path in files_of(config.data.train_files)]
    # By JSON and back, as the stamp that it is compared with: a tuple is a list there.
    plain = hidden(json.loads(json.dumps(stamp, default=str)))
    return dict(cleaned(plain, secrets_here()))


def check_resume(config: DictConfig, rltf: RLTFConfig) -> Iterator[Finding]:
    """A checkpoint to resume that is not whole, or belongs to another experiment. A validation
    alone may differ.
    """
    try:
        folder = resumed_folder(config)
    except ConfigError as error:
        yield finding_of(error)
        return
    if folder is not None and not config.trainer.val_only:
        yield from _check_stamp(config, rltf, folder)


def _check_stamp(config: DictConfig, rltf: RLTFConfig, folder: Path) -> Iterator[Finding]:
    key, path = "trainer.default_local_dir", folder / STAMP
    try:
        old = hidden(json.loads(path.read_text("utf-8")))
        if not isinstance(old, dict):
            raise ValueError("not a JSON object")
    except FileNotFoundError:
        why = f"{folder} has no {STAMP}: nothing shows that it belongs to this experiment"
        yield Finding("", None, why, "", "warning")
        return
    except (OSError, ValueError) as error:
        why, fix = f"{path} cannot be read ({error})", "restore it, or delete it to resume anyway"
        yield Finding(key, config.trainer.default_local_dir, why, fix)
        return
    new = experiment_stamp(config, rltf)
    trouble = _differences(old, new)
    if trouble:
        more = f"; and {len(trouble) - NUM_SHOWN} more" if len(trouble) > NUM_SHOWN else ""
        yield Finding(
            key,
            config.trainer.default_local_dir,
            f"{folder.name} is of another experiment ({'; '.join(trouble[:NUM_SHOWN])}{more})",
            "set another trainer.experiment_name, or trainer.resume_mode=disable to start"
            f" again, or delete {path} to resume all the same",
        )
    yield from _check_optimiser(config, old, new)


def _check_optimiser(
    config: DictConfig, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[Finding]:
    """Settings that the checkpoint's optimiser would override."""
    actor = config.actor_rollout_ref.actor
    # verl's `extra` holds the rate's scheduler.
    restored = {"optimizer", "extra"} & set(actor.checkpoint.load_contents)
    if not (restored and str(actor.strategy).startswith("fsdp")):
        return
    for key in OPTIMISER:
        if old.get(key, new[key]) != new[key]:
            yield Finding(
                key,
                new[key],
                f"the checkpoint's optimiser would continue with {old[key]}",
                "set it to that, or actor_rollout_ref.actor.checkpoint.load_contents=[model]"
                " for a new optimiser",
            )


def write_stamp(config: DictConfig, rltf: RLTFConfig, step: int) -> Path:
    """Into the folder of the checkpoint of `step`, which verl is about to fill; returns it. Files
    that an earlier process left there go: verl would write into them, and the best
    checkpoint may share them.
    """
    folder = Path(config.trainer.default_local_dir) / f"global_step_{step}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    stamp = experiment_stamp(config, rltf)
    # A file on another machine costs the ids, not the checkpoint.
    with contextlib.suppress(OSError, ValueError):
        found = [one for path in files_of(config.data.train_files) for one in corrections_in(path)]
        stamp |= {IDS: sorted({one["id"] for one in found})} if found else {}
    text = json.dumps(stamp, indent=1, sort_keys=True)
    write_whole(folder / STAMP, f"{text}\n".encode())
    return folder


@contextlib.contextmanager
def whole_checkpoint(config: DictConfig, step: int) -> Iterator[None]:
    """While a checkpoint is written: name the folder in the error if it cannot be.

    torch and Ray do not name it.
    """
    try:
        yield
    except Exception as error:
        folder = Path(config.trainer.default_local_dir).absolute()
        # the folder itself may be what could not be made
        there = next(place for place in (folder, *folder.parents) if place.exists())
        cause = (str(error).strip() or type(error).__name__).splitlines()[-1]
        raise RuntimeError(
            f"trainer.default_local_dir={folder}: the checkpoint of step {step} could not be"
            f" written ({cause.strip()}; free there: {shutil.disk_usage(there).free / 1e9:.2f} GB);"
            " free space there, or lower trainer.max_actor_ckpt_to_keep"
        ) from error


def resumed_folder(config: DictConfig) -> Path | None:
    """The checkpoint that the run resumes from; None to start from step 0.

    Raises:
        ConfigError: it is not whole, and no earlier one is there.
    """
    if config.trainer.resume_mode == "resume_path":
        folder = Path(str(config.trainer.resume_from_path)).absolute()
        if (broken := _broken(folder)) is not None:
            why, fix = f"{broken} is missing or cut off", "name another checkpoint"
            raise ConfigError(Finding("trainer.resume_from_path", str(folder), why, fix))
        return folder
    latest = Path(config.trainer.default_local_dir).absolute() / LATEST
    if config.trainer.resume_mode != "auto" or not latest.is_file():
        return None
    return _newest_whole(latest)


def _newest_whole(latest: Path) -> Path:
    """The checkpoint that verl's file names, else the newest whole one before it."""
    named = latest.read_bytes().decode("utf-8", "replace").strip()
    folder = latest.with_name(f"global_step_{named}")
    if named.isdecimal() and _broken(folder) is None:
        return folder
    last = int(named) if named.isdecimal() else math.inf
    why = f"{latest} names {named!r}, where no whole checkpoint is"
    for step, folder in checkpoints_in(latest.parent):
        # verl writes `data.pt` last
        if step <= last and (folder / "data.pt").is_file() and _broken(folder) is None:
            _warn(f"{why}; the run resumes from {folder}")
            return folder
    raise ConfigError(f"{why}, nor before; delete {latest} to start from step 0")


_warn = cache(logger.warning)  # each line once, for any caller


def _broken(checkpoint: Path) -> Path | None:
    """A file or folder that a checkpoint lacks, or that was cut off; None if it looks whole."""
    actor = checkpoint / "actor"
    if not actor.is_dir():
        return actor
    # torch writes zip archives, whose directory is at their end
    return next((path for path in checkpoint.rglob("*.pt") if not is_zipfile(path)), None)


def checkpoints_in(folder: Path) -> list[tuple[int, Path]]:
    """(step, folder) of each checkpoint, kept ones too, the latest first."""
    names = [(_NAME.fullmatch(path.name), path) for path in folder.glob("*global_step_*")]
    return sorted(((int(name[1]), path) for name, path in names if name), reverse=True)


def how_to_go_back(config: DictConfig, step: int) -> str:
    """To the last checkpoint up to a step, for a warning: the settings, or what is missing."""
    folder = Path(config.trainer.default_local_dir).absolute()
    for last, path in checkpoints_in(folder):
        # verl deletes the weights of old ones, and leaves the folder
        if last <= step and (path / "actor").is_dir():
            return (
                f"resume from step {last} (trainer.resume_mode=resume_path"
                f" trainer.resume_from_path={path})"
            )
    return "start again with trainer.save_freq (no checkpoint is that old)"


def finished(config: DictConfig) -> str | None:
    """The line of a run whose checkpoint, by verl's own rules, is of its last step; else None."""
    folder, trainer = resumed_folder(config), config.trainer
    if folder is None or trainer.val_only:
        return None
    step = int(folder.name.rpartition("_")[2])
    last = trainer.total_training_steps or _steps_of_data(config)
    if last is None or step < last:
        return None
    return f"done: step {step} of {last}; to go on, raise trainer.total_training_steps"


def _steps_of_data(config: DictConfig) -> int | None:
    """Steps of all epochs, if verl leaves out no row; None if a file is no parquet."""
    files = files_of(config.data.train_files)
    if not all(str(file).endswith(".parquet") for file in files):
        return None
    num_rows = sum(pq.read_metadata(file).num_rows for file in files)
    return int(num_rows // config.data.train_batch_size * config.trainer.total_epochs)


def write_config(config: DictConfig) -> None:
    """`config.yaml` into the folder of checkpoints: the command and the composed config, without
    secrets.
    """
    plain: Any = OmegaConf.to_container(config, resolve=True)
    command = f"cd {shlex.quote(str(Path.cwd()))} && {shlex.join(sys.orig_argv)}"
    (Path(config.trainer.default_local_dir) / "config.yaml").write_text(
        f"# {secrets_here().quote(command, LONGEST_COMMAND)}\n"
        + OmegaConf.to_yaml(OmegaConf.create(cleaned(hidden(plain), secrets_here()))),
        "utf-8",
    )


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The differences. A key that only one version of this package has does not count, except an
    option.
    """
    keys = sorted(
        key
        for key in old.keys() | new.keys()
        if key not in OPTIMISER and ((key in old and key in new) or ".options." in key)
    )
    return [
        f"{key}: {old.get(key)} there, {new.get(key)} here"
        for key in keys
        if old.get(key) != new.get(key)
    ]


def _flat(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield key, value
        return
    for name, inner in value.items():
        if name not in MAY_CHANGE:
            yield from _flat(f"{key}.{name}", inner)


def _content(path: Path) -> str | None:
    """Rows and digest of a file, wherever it lies; None where it cannot be read."""
    try:
        num_rows = pq.read_metadata(path).num_rows
        digest = read_provenance(path).get("content_sha256") or _digest(path)
    except (OSError, ValueError):
        return None
    return f"{num_rows} rows, sha256 {digest[:16]}"


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()
