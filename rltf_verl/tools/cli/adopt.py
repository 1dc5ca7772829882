"""`rltf adopt`: from a launch script of verl to the same run with text feedback."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from rltf_verl.tools.cli.common import quiet, words_as_text


def adopt(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="run.sh [KEY=VALUE]... | -- COMMAND",
            help="A launch script and further overrides, or the command itself behind `--`.",
        ),
    ],
    method: Annotated[str, typer.Option(help="rltf/method, see `rltf presets`.")] = "sd",
    feedback: Annotated[
        str | None, typer.Option(help="rltf/feedback; what comes with the method if not given.")
    ] = None,
    var: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Value of a variable that the script gets from a program."
        ),
    ] = None,
) -> None:
    """Print the command that adds text feedback to your verl run, and why settings change.

    The script is read, not run: assignments, arrays, if and case are followed, with the variables
    of this shell. What it prints is a script: `rltf adopt run.sh > run_rltf.sh`.
    """
    with quiet():
        typer.echo(_script(words, method, feedback, words_as_text(var or [])))


def _script(words: list[str], method: str, feedback: str | None, told: dict[str, str]) -> str:
    from rltf_verl.adapters.adopt.adoption import adopt as adopted
    from rltf_verl.adapters.adopt.launch import of_command, of_script
    from rltf_verl.adapters.adopt.script import Command
    from rltf_verl.adapters.adopt.text import script_of

    path = Path(words[0])
    if path.suffix == ".sh" or path.is_file():
        environ = {"PWD": str(Path.cwd()), **os.environ}
        launch = of_script(path, [], environ, told)
        return script_of(adopted(launch, method, feedback, words[1:]), str(path))
    command = of_command(Command(words, {}, "", 1))
    return script_of(adopted(command, method, feedback), "your command")
