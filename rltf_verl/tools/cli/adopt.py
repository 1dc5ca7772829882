"""`rltf adopt`: from a launch of verl to the same run with text feedback."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rltf_verl.tools.cli.common import quiet

BEFORE_WORDS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Settings of the command: options after the first word belong to the launch."""


def adopt(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="python3 -m verl.trainer.main_ppo ...", help="The launch and its overrides."
        ),
    ],
    method: Annotated[str, typer.Option(help="rltf/method, see `rltf presets`.")] = "sd",
    feedback: Annotated[
        str | None, typer.Option(help="rltf/feedback; what comes with the method if not given.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="New file for the script; else stdout.")
    ] = None,
) -> None:
    """Print your verl run as a script that adds text feedback, and why settings change.

    Bash reads your script: write `${RUN:-}` before `python3 -m` in it, then
    RUN="rltf adopt -o run_rltf.sh" bash run.sh
    """
    if out is not None and out.exists():
        raise ValueError(f"{out}: exists; delete it or name another file")
    with quiet():
        text = _script(words, method, feedback, out)
    if out is None:
        typer.echo(text)
    else:
        out.write_text(f"{text}\n", "utf-8")
        typer.echo(f"wrote {out.resolve()}", err=True)


def _script(words: list[str], method: str, feedback: str | None, out: Path | None) -> str:
    from rltf_verl.config import ConfigError
    from rltf_verl.tools.adopt.adoption import adopt as adopted
    from rltf_verl.tools.adopt.command import (
        LONGEST,
        environment_at_start,
        environment_of_calling_script,
        of_words,
        script_of,
        secrets_of,
    )

    if words[0].endswith(".sh"):
        fix = (
            f'write ${{RUN:-}} before `python3 -m`, then RUN="rltf adopt -o NEW.sh" bash {words[0]}'
        )
        raise ConfigError(f"{words[0]}: only bash reads a script; {fix}")
    launch = of_words(words, environment_of_calling_script(), environment_at_start())
    try:
        run = adopted(launch, method, feedback)
    except ConfigError as error:
        raise ConfigError(secrets_of(launch).quote(str(error), LONGEST)) from None
    here = str(Path.cwd())
    folder = here if out is not None and str(out.resolve().parent) != here else ""
    return script_of(run, folder)
