"""`rltf view`: the sessions of a run as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rltf_verl.cli.common import episodes_of


def view(
    folder: Annotated[
        Path, typer.Argument(metavar="LOG", help="Folder of a run, or its episode log.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The page.")] = Path("view.html"),
    title: Annotated[
        str | None, typer.Option(help="Title of the page; the log's folder if not given.")
    ] = None,
) -> None:
    """Write the sessions of a run as one HTML page: curves, a list to filter, the conversations.
    Needs no network.
    """
    from rltf_verl.report.view.build import page

    records = episodes_of(folder, None)
    text = page(records, title or str(folder.resolve()))
    out.write_text(text, encoding="utf-8")
    typer.echo(f"{len(records)} sessions, {len(text) / 1e6:.1f} MB: {out}")
