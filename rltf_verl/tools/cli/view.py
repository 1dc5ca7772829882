"""`rltf view`: the episodes of a run as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rltf_verl.tools.cli.common import episodes_of


def view(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folder of a run, or its episode log.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="HTML file to write.")] = Path(
        "view.html"
    ),
    title: Annotated[
        str | None, typer.Option(help="Title of the page; the run's folder if not given.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Serve a page that follows one or more runs.")
    ] = False,
    host: Annotated[
        str, typer.Option(help="With --follow: the address to bind; 0.0.0.0 for all.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="With --follow: 0 takes a free one.")] = 0,
) -> None:
    """Write the episodes of a run as one HTML page: curves, a list to filter, the conversations.
    Needs no network. With --follow, serve it to this machine's browser while the run trains.
    """
    if follow:
        _follow(runs, title, host, port)
        return
    if len(runs) > 1:
        raise ValueError(f"{len(runs)} runs: one page shows one run; add --follow, or name one")
    from rltf_verl.texts import counted
    from rltf_verl.tools.report.view.build import page
    from rltf_verl.tools.report.view.training import history_of

    records = episodes_of(runs[0], None)
    text = page(records, title or str(runs[0].resolve()), history_of(runs[0]))
    out.write_text(text, encoding="utf-8")
    typer.echo(f"{counted(len(records), 'episode')}, {len(text) / 1e6:.1f} MB: {out}")


def _follow(paths: list[Path], title: str | None, host: str, port: int) -> None:
    """Serve until Ctrl-C."""
    from rltf_verl.tools.report.live.run import LiveRuns, live_runs
    from rltf_verl.tools.report.live.server import serving

    runs = live_runs(paths)
    shown = LiveRuns(runs, title or ", ".join(run.name for run in runs))
    try:
        with serving(shown, host, port) as page:
            typer.echo(f"{page.address}\nCtrl-C ends it.")
            if page.is_open:
                typer.echo(
                    "Whoever reaches this machine and has this address can read the episodes."
                )
            page.follow()
    except KeyboardInterrupt:  # at any moment after the address was printed
        typer.echo("")
