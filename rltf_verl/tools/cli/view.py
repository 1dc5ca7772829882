"""`rltf view`: the episodes of runs as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def view(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or their episode logs.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="HTML file to write.")] = Path(
        "view.html"
    ),
    title: Annotated[
        str | None, typer.Option(help="Title of the page; the runs' names by default.")
    ] = None,
) -> None:
    """Write the episodes of one or more runs as one HTML page: charts, a list to filter, the
    conversations. Needs no network.

    While the runs train, write it again and reload it: watch -n 60 rltf view RUN
    """
    from rltf_verl.texts import counted
    from rltf_verl.tools.report.view.build import page
    from rltf_verl.tools.report.view.run import runs_at

    read = runs_at(runs)
    text = page(read, title or ", ".join(run.name for run in read))
    out.write_text(text, encoding="utf-8")
    episodes = sum(step.stats.sessions for run in read for step in run.steps.values())
    typer.echo(f"{counted(episodes, 'episode')}, {len(text) / 1e6:.1f} MB: {out}")
