"""`rltf log …`: what the episodes of a run are good for afterwards."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal

import typer

from rltf_verl.tools.cli.common import (
    AsJson,
    Log,
    Overwrite,
    Step,
    echo_json,
    episodes_of,
    refuse_existing,
)

Form = Annotated[
    Literal["dialogues", "answers", "preferences"],
    typer.Option(
        "--as",
        help=(
            "dialogues: whole conversations, for verl's SFT trainer. answers: first prompt and"
            " right answer, for "
            "verl's SFT trainer. preferences: first prompt, right and wrong answer."
        ),
    ),
]
Revise = Annotated[
    str | None,
    typer.Option(
        help=(
            "Dialogues: template of what follows an attempt, a name or ./mine.j2; that of the"
            " run if its context was append, else dialogue_append."
        )
    ),
]
Split = Annotated[
    Literal["train", "val"],
    typer.Option(
        help=(
            "Episodes of training, or of validation as `rltf eval` writes them. Do not train on"
            " problems that you test on."
        )
    ),
]
log = typer.Typer(no_args_is_help=True, help="Export and count the episodes of a run.")


@log.command("export")
def export(
    folder: Log,
    out: Annotated[Path, typer.Option(help="Parquet file to write.")],
    form: Form = "dialogues",
    revise: Revise = None,
    wrong_too: Annotated[
        bool, typer.Option("--wrong-too", help="Dialogues: also those that end wrong.")
    ] = False,
    step: Step = None,
    split: Split = "train",
    overwrite: Overwrite = False,
) -> None:
    """Write the episodes of a run as training data."""
    from rltf_verl.tools.data import exports

    refuse_existing([out], overwrite)
    records = episodes_of(folder, step)
    provenance = {"log": folder.name, "as": form, "step": step, "split": split}
    schema = exports.SCHEMA
    if form == "dialogues":
        template = revise or _template_of(folder)
        provenance |= {"revise": template, "only_solved": not wrong_too}
        rows = exports.dialogues(records, template, only_solved=not wrong_too, split=split)
    elif form == "answers":
        rows = exports.answers(records, split)
    else:
        rows, schema = exports.preferences(records, split), exports.PREFERENCES
    num = exports.export(list(rows), schema, out, provenance)
    typer.echo(f"{num} {form}: {out}")


def _template_of(folder: Path) -> str:
    """The one that fits a growing conversation."""
    from rltf_verl.runlog.about import read_about
    from rltf_verl.runlog.files import log_folder

    episode = read_about(log_folder(folder)).get("rltf", {}).get("episode", {})
    appended = episode.get("context") == "append" and episode.get("revise")
    return str(appended or "dialogue_append")


@log.command("stats")
def stats(
    folder: Log,
    every: Annotated[
        int | None, typer.Option(min=1, help="Steps per line; a fifth of them if not given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Every number of docs/metrics.md that the episodes give, per range of steps: how often answers
    were right, changed, got better or worse; feedback, ends.
    """
    from rltf_verl.runlog.about import MISSING, read_about
    from rltf_verl.runlog.files import log_folder
    from rltf_verl.tools.report.stats import by_steps
    from rltf_verl.tools.report.terminal.console import show_table, stats_table

    records = episodes_of(folder, None)
    steps = [record["step"] for record in records]
    # five ranges, the width rounded up
    ranges = by_steps(records, every or -(-(max(steps) - min(steps) + 1) // 5))
    if as_json:
        echo_json(list(map(asdict, ranges)))
        return
    # `by_steps` has the ranges of one split in a row
    for _, of_split in groupby(ranges, key=lambda each: each.split):
        show_table(stats_table(list(of_split)))
    missing = read_about(log_folder(folder)).get(MISSING)
    if missing:
        typer.echo(f"{missing} more episodes are missing here: the disk or max_gb refused them")
