"""`rltf compare`: training runs against each other, at equal steps, episodes, tokens, hours or
judge cost.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AXES = "step,rollouts,tokens,hours,cost"


Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]RUN...",
        help=(
            "Folder of a run, its episode log, or a file of metrics (of verl's file logger, or"
            " lines of a wandb history). Runs of one NAME are seeds of one arm; parts of one"
            " run are joined by commas."
        ),
    ),
]
MetricOption = Annotated[
    list[str] | None,
    typer.Option(
        help=(
            "first_turn (first-turn accuracy in validation, the default), a name of verl's"
            " metrics, or log/… of "
            "the episode log, e.g. log/val/turn_2/standing. Can be repeated."
        )
    ),
]


def compare(
    runs: Runs,
    out: Annotated[
        Path, typer.Option(help="Folder for compare.json, compare.md and the pictures.")
    ],
    x: Annotated[str, typer.Option("--x", help="Axes, joined by commas.")] = AXES,
    metric: MetricOption = None,
) -> None:
    """Compare runs: tables, pictures of mean and range over seeds, numbers at equal budgets.

    E.g. rltf compare grpo=outputs/grpo_1 grpo=outputs/grpo_2 'sd=outputs/sd_*' --out
    outputs/compare
    """
    from rltf_verl.tools.report.compare.comparison import compare as compared
    from rltf_verl.tools.report.compare.comparison import file_names
    from rltf_verl.tools.report.compare.draw import draw
    from rltf_verl.tools.report.compare.run import read_arms
    from rltf_verl.tools.report.compare.show import sections, write
    from rltf_verl.tools.report.terminal.console import show_table

    axes = [axis.strip() for axis in x.split(",")]
    comparison = compared(read_arms(runs), axes, metric or ["first_turn"])
    out.mkdir(parents=True, exist_ok=True)
    for title, tables, below in sections(comparison):
        typer.echo(f"\n{title}")
        for lines in tables:
            show_table(lines)
        typer.echo(below)
    for line in comparison.remarks:
        typer.echo(line)
    write(out, comparison)
    for panel, name in zip(comparison.panels, file_names(comparison.panels), strict=True):
        draw(panel, out / name)
    typer.echo(f"written to {out}")
