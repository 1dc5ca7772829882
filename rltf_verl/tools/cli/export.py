"""`rltf export`: a checkpoint as a model that transformers and vLLM load."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer


def export(
    checkpoint: Annotated[
        Path, typer.Argument(help="A run's folder (its latest checkpoint) or a global_step_N.")
    ],
    out: Annotated[Path, typer.Argument(help="Folder for the model; it must not exist.")],
) -> None:
    """Write a checkpoint as a Hugging Face folder: bfloat16 weights (LoRA merged), tokenizer and
    model card.

    E.g. rltf export checkpoints/rltf/rltf_sd models/my_model
    """
    from rltf_verl.redaction import secrets_here
    from rltf_verl.tools.export.card import card
    from rltf_verl.tools.export.checkpoint import find_checkpoint, save_weights

    if out.exists():
        raise ValueError(f"{out}: is there already; name another folder or delete it")
    found = find_checkpoint(checkpoint)
    typer.echo(f"{found.folder} -> {out}")
    unfinished = out.with_name(f"{out.name}.unfinished")  # whoever sees `out` sees all of it
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    try:
        save_weights(found, unfinished)
        text = card(str(out), found.step, found.settings(), found.folder.parent)
        # whoever publishes the folder publishes the settings
        (unfinished / "README.md").write_text(secrets_here().clean(text), "utf-8")
        unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    typer.echo(f"{size / 2**20:.0f} MiB, step {found.step}; how to use it: {out}/README.md")
