"""`rltf view`: the episodes of runs as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rltf_verl.tools.report.view.server import LivePage


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
    follow: Annotated[
        bool, typer.Option("--follow", help="Serve a page that follows the runs.")
    ] = False,
    host: Annotated[
        str, typer.Option(help="With --follow: the address to bind; 0.0.0.0 for all.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="With --follow: 0 takes a free one.")] = 0,
) -> None:
    """Write the episodes of one or more runs as one HTML page: charts, a list to filter, the
    conversations. Needs no network. With --follow, serve it to this machine's browser while the
    runs train.
    """
    from rltf_verl.texts import counted
    from rltf_verl.tools.report.view.build import page
    from rltf_verl.tools.report.view.run import runs_at

    read = runs_at(runs, followed=follow)
    title = title or ", ".join(run.name for run in read)
    if follow:
        from rltf_verl.tools.report.view.server import LivePage

        _follow(LivePage(read, title), host, port)
        return
    for run in read:
        run.refresh()
        if run.trouble:
            raise ValueError(run.trouble)
    text = page(read, title)
    out.write_text(text, encoding="utf-8")
    episodes = sum(step.stats.sessions for run in read for step in run.steps.values())
    typer.echo(f"{counted(episodes, 'episode')}, {len(text) / 1e6:.1f} MB: {out}")


def _follow(page: LivePage, host: str, port: int) -> None:
    """Serve until Ctrl-C."""
    from rltf_verl.tools.report.view.server import serving

    try:
        with serving(page, host, port) as (address, is_open):
            typer.echo(f"{address}\nCtrl-C ends it.")
            if is_open:
                typer.echo("Anyone who has this address and reaches this machine can read it.")
            page.follow()
    except KeyboardInterrupt:  # at any moment after the address was printed
        typer.echo("")
