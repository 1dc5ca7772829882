"""The policy of a run's checkpoint, and its weights as a Hugging Face folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltf_verl.runlog.about import read_about
from rltf_verl.runlog.files import LATEST, STAMP, only_folder
from rltf_verl.texts import one_line

if TYPE_CHECKING:
    import torch

BASE = "actor_rollout_ref.model.path"
"""Key of the model that a run started from."""
ADAPTER = "lora_adapter"
"""Folder where verl's merger puts a LoRA adapter, inside the folder of the base model."""

SHARDS = "model_world_size_*.pt"
"""File in which verl's FSDP trainer saves a rank's part."""
WHOLE, WEIGHTS = "huggingface", "*.safetensors"
"""Folder and files of the whole model that verl saves with `save_contents=[hf_model]`."""

BACKENDS = {"fsdp_config.json": "fsdp", "dist_ckpt": "megatron"}
"""Entry of a checkpoint's `actor` folder -> the trainer's backend."""


@dataclass(frozen=True)
class Checkpoint:
    """The policy of one step of a run."""

    folder: Path
    """`…/global_step_N`."""
    backend: str
    """`fsdp` or `megatron`, as verl's merger names them."""

    @property
    def step(self) -> int:
        """The step after which it was saved."""
        return int(self.folder.name.rpartition("_")[2])

    @property
    def actor(self) -> Path:
        """The shards."""
        return self.folder / "actor"

    def settings(self) -> dict[str, Any]:
        """The stamp of the run, by config key; empty for a run without this package."""
        return read_about(self.folder, STAMP)


def find_checkpoint(place: Path) -> Checkpoint:
    """The latest checkpoint of a run's folder, or the one that `place` is. A folder above a single
    run will do.

    Raises:
        ValueError: not found, not whole, or of several runs.
    """
    folder = (
        only_folder(place.resolve(), lambda below: (below / LATEST).is_file(), "runs")
        or place.resolve()
    )
    if (folder / LATEST).is_file():
        step = (folder / LATEST).read_text("utf-8").strip()
        if not step.isdecimal():  # `../elsewhere` leads out of the run
            raise ValueError(f"{folder / LATEST}: holds {step[:40]!r}; write the step's number")
        folder = folder / f"global_step_{step}"
    if not folder.name.rpartition("global_step_")[2].isdecimal():
        raise ValueError(
            f"{place}: no checkpoint of verl; name the run's folder (with {LATEST} in it or below"
            " it) or one of its global_step_N"
        )
    backends = [kind for name, kind in BACKENDS.items() if (folder / "actor" / name).exists()]
    if not backends:
        raise ValueError(
            f"{folder}/actor: neither {' nor '.join(BACKENDS)} in it, so not a whole checkpoint of"
            " verl's FSDP or Megatron trainer"
        )
    return Checkpoint(folder, backends[0])


def save_weights(checkpoint: Checkpoint, out: Path, *, trust_pickle: bool = False) -> None:
    """The policy as bfloat16 weights, config and tokenizer in `out`, which does not exist yet;
    LoRA is merged.

    Args:
        checkpoint: of a run.
        out: the folder.
        trust_pickle: load shards that may run code.

    Raises:
        ValueError: a shard holds more than tensors; verl's merger fails; the saved model is not
            whole; or a tensor is not finite.
    """
    from transformers.utils import logging

    # what it reports of weights is refused here
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    shards = sorted(checkpoint.actor.glob(SHARDS))
    if not shards and any((checkpoint.actor / WHOLE).glob(WEIGHTS)):
        _copy_whole(checkpoint.actor / WHOLE, out)
    else:
        if not trust_pickle:
            _require_tensors(checkpoint, shards)
        _merge_shards(checkpoint, out)
    _require_finite(checkpoint, out)


def _merge_shards(checkpoint: Checkpoint, out: Path) -> None:
    """By verl's merger; LoRA is merged here.

    Raises:
        ValueError: the merger fails.
    """
    merger = [sys.executable, "-m", "verl.model_merger", "merge", "--backend", checkpoint.backend]
    done = subprocess.run(
        [*merger, "--local_dir", str(checkpoint.actor), "--target_dir", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 or not (out / "config.json").is_file():
        words = done.stderr.strip().splitlines() or ["it wrote nothing"]
        raise ValueError(f"{checkpoint.actor}: verl's model merger failed: {words[-1]}")
    if (out / ADAPTER).is_dir():
        _merge_adapter(out)


def _require_tensors(checkpoint: Checkpoint, shards: Sequence[Path]) -> None:
    """verl's merger unpickles a shard, which runs whatever code it names. A load of tensors only
    comes first; it maps the file, and does not read the weights.

    Raises:
        ValueError: a shard holds more, or its kind cannot be checked.
    """
    fix = "add --trust-pickle if you trained it, or trust who did"
    if checkpoint.backend != "fsdp":
        raise ValueError(f"{checkpoint.actor}: Megatron's files can run code when loaded; {fix}")
    import torch
    import torch.distributed.tensor  # allows DTensor, which FSDP saves

    try:
        for shard in shards:
            torch.load(shard, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # torch, pickle and zipfile raise many kinds
        why = one_line(str(error), 160)
        raise ValueError(f"{shard}: holds more than tensors ({why}); {fix}") from None


def _copy_whole(saved: Path, out: Path) -> None:
    """A run that saves `hf_model` only has no shards to merge."""
    import torch
    from transformers import AutoTokenizer

    load_model(saved, torch.bfloat16, str(saved)).save_pretrained(out)
    AutoTokenizer.from_pretrained(saved).save_pretrained(out)


def load_model(path: str | Path, dtype: torch.dtype, name: str) -> Any:
    """The model in a folder, which a refusal calls `name`.

    Raises:
        ValueError: the model is missing, a file is damaged, or the tensors are not the model's.
    """
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            path, dtype=dtype, output_loading_info=True
        )
    except (OSError, RuntimeError, SafetensorError) as error:
        raise ValueError(f"{name}: not a whole model ({one_line(str(error), 160)})") from None
    model, info = loaded
    if strange := [*info["missing_keys"], *info["unexpected_keys"]]:
        raise ValueError(f"{name}: not a whole model, e.g. {sorted(strange)[0]}")
    return model


def _merge_adapter(out: Path) -> None:
    """W + alpha/r · B A, computed in float32: in bfloat16 small updates would be rounded away one
    by one.

    Raises:
        ValueError: the adapter's scale is not known, with which it would have no effect.
    """
    import torch
    from peft import PeftModel

    adapter = out / ADAPTER
    if not json.loads((adapter / "adapter_config.json").read_text("utf-8"))["lora_alpha"]:
        raise ValueError(
            f"{adapter}: the checkpoint has no lora_train_meta.json with lora_alpha, and without"
            " it the adapter would change nothing"
        )
    base = load_model(out, torch.float32, str(adapter))
    merged = PeftModel.from_pretrained(base, str(adapter)).merge_and_unload()
    merged.to(torch.bfloat16).save_pretrained(out)
    shutil.rmtree(adapter)


def _require_finite(checkpoint: Checkpoint, out: Path) -> None:
    """Read every tensor that was written.

    Raises:
        ValueError: a tensor is not finite, or all are missing.
    """
    from safetensors import safe_open

    found = False
    for file in sorted(out.glob(WEIGHTS)):
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118  # it is no dict
                found = True
                if not tensors.get_tensor(name).isfinite().all():
                    raise ValueError(
                        f"not exported: {name} of {checkpoint.actor} is not finite in bfloat16;"
                        " take an earlier checkpoint"
                    )
    if not found:
        raise ValueError(f"not exported: {checkpoint.actor} has no weights")
