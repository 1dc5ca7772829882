"""`rltf env …`: look at an environment, and hold one of your own against the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rltf_verl.tools.cli.common import EnvOptions, parse_options

if TYPE_CHECKING:
    from rltf_verl.envs.base import Env

env = typer.Typer(no_args_is_help=True, help="List, check and show environments.")

Name = Annotated[str, typer.Argument(help="Environment: a name, module:Class, or ./file.py:Class.")]


def _make_env(name: str, options: list[str] | None) -> Env:
    from rltf_verl.envs import make_env

    return make_env(name, **parse_options(options or []))


@env.command("list")
def names() -> None:
    """List the environments for rltf/env, with a line on each, and those of installed packages."""
    from rltf_verl.registry import installed
    from rltf_verl.tools.compose.presets import titles
    from rltf_verl.tools.report.terminal.console import show_table

    others = {f"own rltf.env.name={name}": where for name, where in installed("rltf.env").items()}
    show_table([("rltf/env", "task"), *titles("env").items(), *others.items()])


@env.command("check")
def check(
    name: Name,
    options: EnvOptions = None,
    seed: Annotated[int, typer.Option(help="Seed of problems and texts.")] = 0,
    num: Annotated[int, typer.Option("-n", "--num", min=2, help="Problems to look at.")] = 50,
    hostile: Annotated[int, typer.Option(min=0, help="Hostile texts.")] = 1000,
) -> None:
    """Check an environment against its contract: grading, explaining, hostile texts; exit 1 if a
    promise is broken.
    """
    from rltf_verl.tools.contract import check_env
    from rltf_verl.tools.report.terminal.console import show_table

    verdicts = check_env(_make_env(name, options), seed, num, hostile)
    show_table([("promise", "kept"), *((v.promise, v.broken or v.kept) for v in verdicts)])
    raise typer.Exit(int(any(v.broken for v in verdicts)))


@env.command("show")
def show(
    name: Name,
    options: EnvOptions = None,
    seed: Annotated[int, typer.Option(help="Seed of the problem.")] = 0,
    wrong: Annotated[
        str | None, typer.Option(help="A wrong answer; another problem's reference if not given.")
    ] = None,
    revise: Annotated[
        str | None, typer.Option(help="rltf.episode.revise; the template that fits if not given.")
    ] = None,
) -> None:
    """Show, as Markdown, what the policy sees: a prompt, a wrong answer to it, the feedback at
    every level, the second prompt.
    """
    from rltf_verl.tools.report.terminal.environment import example

    typer.echo(example(_make_env(name, options), seed, wrong, revise))
