"""`rltf data …`: make datasets, wrap and check existing ones, look into them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rltf_verl.tools.cli.common import parse_options

data = typer.Typer(no_args_is_help=True, help="Build, wrap, check and show datasets.")

Options = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Options of the environment.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")]


@data.command("build")
def data_build(
    env: Annotated[str, typer.Argument(help="Environment, e.g. binary_matrix.")],
    options: Options = None,
    out: Annotated[Path, typer.Option(help="Folder for train.parquet and test.parquet.")] = Path(
        "data"
    ),
    overwrite: Overwrite = False,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    num_train: Annotated[
        int, typer.Option(min=0, help="Rows of train.parquet; of math, at most.")
    ] = 1000,
    num_test: Annotated[
        int, typer.Option(min=0, help="Rows of test.parquet; of math, problems per test set.")
    ] = 200,
) -> None:
    """Write the problems of an environment as parquet files for verl."""
    from rltf_verl.texts import counted
    from rltf_verl.tools.data.build import build_parquet, refuse_existing

    refuse_existing([out / "train.parquet", out / "test.parquet"], overwrite)
    built = build_parquet(env, out, seed, num_train, num_test, **parse_options(options or []))
    typer.echo(f"{counted(built.num_train, 'row')}: {built.train}")
    typer.echo(f"{counted(built.num_test, 'row')}: {built.test}")
    for note in built.notes:
        typer.echo(note)


@data.command("wrap")
def data_wrap(
    file: Annotated[Path, typer.Argument(help="Parquet, .json or .jsonl with verl's columns.")],
    env: Annotated[str, typer.Option(help="Environment that grades the answers, e.g. math.")],
    out: Annotated[Path, typer.Option(help="File to write.")],
    options: Options = None,
    overwrite: Overwrite = False,
) -> None:
    """Make an existing dataset of verl trainable with rltf: adds what is missing, changes nothing
    that is there.
    """
    from rltf_verl.texts import counted
    from rltf_verl.tools.data.build import refuse_existing
    from rltf_verl.tools.data.check import check_files
    from rltf_verl.tools.data.wrap import wrap_parquet

    refuse_existing([out], overwrite)
    num = wrap_parquet(file, env, out, **parse_options(options or []))
    typer.echo(f"{counted(num, 'row')}: {out}")
    for note in check_files([out]).notes:
        typer.echo(f"warning: {note}", err=True)


@data.command("check")
def data_check(
    files: Annotated[
        list[Path],
        typer.Argument(help="Parquet files that are used together, e.g. train and test."),
    ],
) -> None:
    """Look at every row: schema, repeated and shared questions; exit 1 if something must be fixed.
    `rltf plan` measures prompts.
    """
    from rltf_verl.tools.data.check import check_files
    from rltf_verl.tools.report.terminal.console import show_check

    report = check_files(files)
    show_check(report)
    raise typer.Exit(int(bool(report.errors)))


@data.command("show")
def data_show(
    file: Annotated[
        Path, typer.Argument(help="Dataset that `rltf data` wrote, or in verl's form.")
    ],
    num: Annotated[int, typer.Option("-n", "--num", min=0, help="Rows.")] = 3,
) -> None:
    """Print the first problems with their answers, and how the file was made."""
    from rltf_verl.data.made_for import AS_IT_IS, takes_rows_of
    from rltf_verl.data.provenance import read_provenance
    from rltf_verl.tools.data.questions import read_questions
    from rltf_verl.tools.report.terminal.console import show_problems

    questions = read_questions(file, num, takes_rows_of(file, AS_IT_IS, {}))
    show_problems(read_provenance(file), questions)
