"""`rltf data …`: make datasets, check them, look into them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rltf_verl.tools.cli.common import (
    EnvOptions,
    Overwrite,
    parse_options,
    refuse_existing,
    settings_of,
)

data = typer.Typer(no_args_is_help=True, help="Build, check and show datasets.")

JudgeOptions = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]...", help="A judge's endpoint.KEY, limits.KEY, price.KEY, cache_dir."
    ),
]
RuleOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.py:FUNCTION",
        help="function(question, answer, reply): True if the reply corrects the answer.",
    ),
]


@data.command("build")
def data_build(
    env: Annotated[str, typer.Argument(help="Environment, e.g. binary_matrix.")],
    options: EnvOptions = None,
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
    from rltf_verl.tools.data.build import build_parquet

    refuse_existing([out / "train.parquet", out / "test.parquet"], overwrite)
    built = build_parquet(env, out, seed, num_train, num_test, **parse_options(options or []))
    typer.echo(f"{counted(built.num_train, 'row')}: {built.train}")
    typer.echo(f"{counted(built.num_test, 'row')}: {built.test}")
    for note in built.notes:
        typer.echo(note)


@data.command("corrections")
def data_corrections(
    file: Annotated[
        Path, typer.Argument(help="Conversations: JSON or parquet, each with `messages`.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for train.parquet and test.parquet.")],
    options: JudgeOptions = None,
    rule: RuleOption = None,
    overwrite: Overwrite = False,
    show: Annotated[
        int, typer.Option(min=0, help="Print so many user turns of each kind, and why.")
    ] = 0,
    max_prompt_length: Annotated[
        int, typer.Option(min=1, help="data.max_prompt_length of the run: older messages go.")
    ] = 2048,
    without: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Leave a correction out, by its id.")
    ] = None,
) -> None:
    """Write the corrections that users gave in conversations as parquet files for verl. Labels of
    the file ("corrected": true) decide, then a judge, then the rule.

    E.g. rltf data corrections chats.jsonl --out data/mine endpoint.base_url=http://127.0.0.1:8000/v1
    endpoint.model=Qwen/Qwen3-4B-Instruct-2507
    """
    from rltf_verl.judge.gateway import Judge
    from rltf_verl.registry import load
    from rltf_verl.texts import counted
    from rltf_verl.tools.data.corrections import (
        FEWEST_HELD_OUT,
        find_corrections,
        summary_of,
        turns_to_show,
        write_corrections,
    )

    refuse_existing([out / "train.parquet", out / "test.parquet"], overwrite)
    options, without = options or [], without or []
    judge = Judge(settings_of(options), "") if options else None
    function = load("--rule", rule) if rule else None
    found = find_corrections(file, without, judge, max_prompt_length, function)
    for one in turns_to_show(found, show):
        typer.echo(one.shown(), err=one.fate == "refused")
    typer.echo(summary_of(found, max_prompt_length))
    words = [*options, *(f"--without={one}" for one in without)]
    words += [f"--max-prompt-length={max_prompt_length}", *([f"--rule={rule}"] if rule else ())]
    for split, num in write_corrections(found, file, out, words).items():
        typer.echo(f"{counted(num, 'row')}: {out / split}.parquet")
    if num < FEWEST_HELD_OUT:
        typer.echo(
            f"`rltf export --gate` cannot pass on {counted(num, 'test row')}: it wants"
            f" {FEWEST_HELD_OUT} held-out first questions; add conversations, or validate on"
            " another file"
        )


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
    from rltf_verl.data.questions import read_questions
    from rltf_verl.tools.report.terminal.console import show_problems

    questions = read_questions(file, num, takes_rows_of(file, AS_IT_IS, {}))
    show_problems(read_provenance(file), questions)
