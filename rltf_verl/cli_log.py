"""`rltf log …`: what the sessions of a run are good for afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

log = typer.Typer(no_args_is_help=True, help="Episode logs.")


@log.callback()
def _group() -> None:
    """Episode logs."""


@log.command("export")
def export(
    folder: Annotated[Path, typer.Argument(metavar="LOG", help="Episode log, rltf.episode_log_dir of the run.")],
    out: Annotated[Path, typer.Option(help="Parquet file for verl's SFT trainer (column `messages`).")],
    revise: Annotated[str, typer.Option(help="rltf.episode.revise of the run.")] = "dialogue_append",
    wrong_too: Annotated[
        bool, typer.Option("--wrong-too", help="Also dialogues that end with a wrong answer.")
    ] = False,
    step: Annotated[int | None, typer.Option(help="Training step; all steps if not given.")] = None,
) -> None:
    """Write the dialogues of a run as training data for supervised fine-tuning."""
    from rltf_verl.cli import episodes_of
    from rltf_verl.data.dialogues import dialogues, write_dialogues

    rows = list(dialogues(episodes_of(folder, step), revise, only_solved=not wrong_too))
    write_dialogues(rows, out, {"log": folder.name, "revise": revise, "only_solved": not wrong_too, "step": step})
    typer.echo(f"{len(rows)} dialogues: {out}")
