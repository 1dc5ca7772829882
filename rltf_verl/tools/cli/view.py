"""`rltf view`: the episodes of runs as a page."""

from __future__ import annotations

import sys
import time
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

RELOAD_S = 10
"""Seconds between two looks at a run that is followed."""
MOST_WORK = 0.1
"""Share of a core that following may take: it reads the whole log each time."""


def view(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN...", help="Folders of runs, or their episode logs."),
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="HTML file to write.")] = Path(
        "view.html"
    ),
    example: Annotated[
        bool, typer.Option("--example", help="Recorded episodes that the package brings.")
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Write the page again while the runs train, until Ctrl-C; it reloads itself.",
        ),
    ] = False,
) -> None:
    """Write the episodes of one or more runs as one HTML page: charts, a list to filter, the
    conversations. Needs no network.
    """
    from rltf_verl.tools.report.view.run import EXAMPLE

    if example is bool(runs):
        raise ValueError("name the folders of runs, or --example")
    paths = runs or list(EXAMPLE)
    if follow:
        with suppress(KeyboardInterrupt):
            _follow(paths, out)
    typer.echo(f"{_write(paths, out, None)}: {out}")
    if example and sys.stdout.isatty():
        webbrowser.open(out.resolve().as_uri())


def _follow(paths: list[Path], out: Path) -> NoReturn:
    """Write the page again and again, and say once what there is to see."""
    from rltf_verl.tools.report.view.run import NoEpisodesError

    said = ""
    while True:
        start = time.process_time()
        try:
            _write(paths, out, RELOAD_S)
            line = f"{out.resolve().as_uri()} follows the run until Ctrl-C"
        except NoEpisodesError as error:
            line = f"{error} yet; waiting until Ctrl-C"
        if line != said:
            typer.echo(line)
        said = line
        time.sleep(max(RELOAD_S, (time.process_time() - start) / MOST_WORK))


def _write(paths: list[Path], out: Path, reload_s: int | None) -> str:
    """Write the page; its episodes and size in words."""
    from rltf_verl.texts import counted
    from rltf_verl.tools.report.view.build import page
    from rltf_verl.tools.report.view.run import runs_at

    read = runs_at(paths)
    text = page(read, ", ".join(run.name for run in read), reload_s)
    # A browser that reloads the page finds a whole one.
    part = out.with_name(f".{out.name}.part") if out.is_file() and not out.is_symlink() else out
    part.write_text(text, encoding="utf-8")
    part.replace(out)
    episodes = sum(step.stats.sessions for run in read for step in run.steps.values())
    return f"{counted(episodes, 'episode')}, {len(text) / 1e6:.1f} MB"
