"""`rltf …`: build data, hold our numbers against the released code, find out what is wrong, read episodes.

Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import ast
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup


class _OneLineErrors(TyperGroup):
    """What a user can mend (ValueError, OSError) is one line on stderr, never a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (ValueError, OSError) as error:
            _fail(str(error), 1)


app = typer.Typer(
    cls=_OneLineErrors, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Reinforcement Learning from Text Feedback on verl.",
)  # fmt: skip
data = typer.Typer(no_args_is_help=True, help="Datasets.")
app.add_typer(data, name="data")


@data.command("build")
def data_build(
    env: Annotated[str, typer.Argument(help="Environment, e.g. binary_matrix.")],
    options: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="rltf.env.<key>.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for train.parquet and test.parquet.")] = Path("data"),
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    num_train: Annotated[int, typer.Option(min=0, help="Rows of train.parquet.")] = 1000,
    num_test: Annotated[int, typer.Option(min=0, help="Rows of test.parquet.")] = 200,
) -> None:
    """Write the problems of an environment as parquet files for verl."""
    from rltf_verl.data.build import build_parquet

    paths = build_parquet(env, out, seed, num_train, num_test, **parse_options(options or []))
    typer.echo(f"{num_train} rows: {paths.train}\n{num_test} rows: {paths.test}")


@app.command()
def parity(file: Annotated[Path, typer.Argument(help="JSON with meta, cases, rl_coef_schedule.")]) -> None:
    """Hold our rows, advantages and losses against numbers of the released code; exit 1 if any differs."""
    from rltf_verl.parity import run_parity
    from rltf_verl.report.console import show_parity

    try:
        report = run_parity(file)
    except OSError as error:
        _fail(f"{file}: {error.strerror or error}", 2)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        _fail(f"{file} is not a parity file: {type(error).__name__}: {error}", 2)
    if report.num_compared == 0:
        _fail(f"{file}: holds nothing to compare", 2)
    show_parity(report)
    raise typer.Exit(int(bool(report.differences)))


@app.command()
def doctor(
    overrides: Annotated[list[str] | None, typer.Argument(help="Hydra overrides, e.g. rltf/hardware=cpu.")] = None,
    config_name: Annotated[str, typer.Option(help="Config to check.")] = "rltf_sd",
    as_json: Annotated[bool, typer.Option("--json", help="A list of checks on stdout instead of a table.")] = False,
) -> None:
    """Check the installation, here and in a Ray worker, and say how to mend it; exit 1 if something is off.

    The worker is one of the cluster that RAY_ADDRESS names, else of a Ray that is started for this on one CPU.
    """
    from rltf_verl.adapters.doctor import examine
    from rltf_verl.report.console import show_checks

    checks = [asdict(check) for check in examine(config_name, overrides or [])]
    if as_json:
        typer.echo(json.dumps(checks, indent=1, ensure_ascii=False))
    else:
        show_checks(checks)
    raise typer.Exit(int(any(check["status"] == "failed" for check in checks)))


@app.command()
def inspect(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Episode log, rltf.episode_log_dir of the run.")],
    step: Annotated[int | None, typer.Option(help="Training step; all steps if not given.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Sessions to print.")] = 3,
) -> None:
    """Print what was said in the sessions of a run."""
    from rltf_verl.report.console import show_episode
    from rltf_verl.report.episode_log import read_episodes

    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder; the run's config names it as rltf.episode_log_dir")
    found = [record for record in read_episodes(folder) if step is None or record["step"] == step]
    if not found:
        raise ValueError(f"{folder}: no sessions{'' if step is None else f' of step {step}'} in it")
    for record in found[:limit]:
        show_episode(record)
    typer.echo(f"{min(limit, len(found))} of {len(found)} sessions")


def parse_options(words: list[str]) -> dict[str, Any]:
    """`key=value` words, values as literals where they are ones (also `true`, `false`, `null`), else as text."""
    pairs = [word.partition("=") for word in words]
    for (key, separator, _), word in zip(pairs, words, strict=True):
        if not (separator and key.isidentifier()):
            raise ValueError(f"{word!r}: options of the environment are written key=value")
    return {key: _literal(value) for key, _, value in pairs}


def _literal(text: str) -> Any:
    words = {"true": True, "false": False, "null": None}
    try:
        return words[text] if text in words else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _fail(message: str, code: int) -> NoReturn:
    typer.secho(f"rltf: {' '.join(message.split())}", fg=typer.colors.RED, err=True)
    raise typer.Exit(code)


def main() -> None:
    """Entry point of the console script."""
    app()
