"""`rltf export`: a checkpoint as a Hugging Face folder."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Annotated

import typer


def export(
    checkpoint_or_run: Annotated[
        Path,
        typer.Argument(
            metavar="CHECKPOINT", help="A run's folder (its latest checkpoint) or a global_step_N."
        ),
    ],
    out: Annotated[Path, typer.Argument(help="Folder for the model; it must not exist.")],
    trust_pickle: Annotated[
        bool,
        typer.Option("--trust-pickle", help="Load shards that hold more than tensors: runs code."),
    ] = False,
    gate: Annotated[
        bool,
        typer.Option(
            "--gate", help="Refuse unless first answers rose and public questions did not fall."
        ),
    ] = False,
    margin: Annotated[
        float | None,
        typer.Option(
            metavar="POINTS",
            min=0,
            help="Gate, and refuse where a loss of so many points is not excluded.",
        ),
    ] = None,
) -> None:
    """Write a checkpoint as a Hugging Face folder: bfloat16 weights (LoRA merged), tokenizer and
    model card.

    E.g. rltf export checkpoints/rltf/rltf_sd models/my_model
    """
    from rltf_verl.tools.export.card import write_model
    from rltf_verl.tools.export.checkpoint import find_checkpoint

    if out.exists():
        raise ValueError(f"{out}: exists; name another folder or delete it")
    checkpoint = find_checkpoint(checkpoint_or_run)
    typer.echo(f"{checkpoint.folder} -> {out}")
    passing = None
    if gate or margin is not None:
        from rltf_verl.tools.export.gate import Gate

        passing = Gate(checkpoint, inf if margin is None else margin, typer.echo)
    write_model(checkpoint, out, trust_pickle, passing)
    typer.echo(f"next: vllm serve {out}")
