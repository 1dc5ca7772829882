"""Command line: exit 1 if any number differs from the release, 2 if the file cannot be read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rltf_verl.texts import counted, printable
from rltf_verl.tools.report.terminal.console import say
from tools.parity.report import Report
from tools.parity.run import run_parity


def main(
    file: Annotated[Path, typer.Argument(help="JSON file with the released numbers.")],
) -> None:
    """Compare this package's rows, advantages and losses with those of the released code."""
    try:
        report = run_parity(file)
    except OSError as error:
        _fail(f"{file}: {error.strerror or error}")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        _fail(f"{file} is not a parity file: {type(error).__name__}: {error}")
    if report.num_compared == 0:
        _fail(f"{file}: holds nothing to compare")
    show(report)
    raise typer.Exit(int(bool(report.differences)))


def show(report: Report) -> None:
    """Print the numbers of each case, every difference, and what was not compared."""
    out = Console()
    table = Table("case")
    for header in ("numbers", "differ", "fixed"):
        table.add_column(header, justify="right")
    for name, s in report.sections.items():
        numbers = (s.num_compared, s.num_different, s.num_mended)
        style = "red" if s.num_different else "green"
        table.add_row(Text(printable(name)), *(Text(str(n), style) for n in numbers))
    out.print(table)
    for line in report.differences:
        say(out, "DIFFERS ", line, "red")
    for reason, count in report.mended.items():
        say(out, f"{counted(count, 'difference')} on purpose: ", reason, "yellow")
    for what, count in report.not_covered.items():
        say(out, "not compared: ", f"{what} ({counted(count, 'time')})", "yellow")
    verdict = f"{len(report.differences)} of {report.num_compared} numbers differ"
    say(out, "", verdict, "red" if report.differences else "green")


def _fail(message: str) -> NoReturn:
    print(f"rltf: {' '.join(message.split())}", file=sys.stderr)
    raise typer.Exit(2)


if __name__ == "__main__":
    typer.run(main)
