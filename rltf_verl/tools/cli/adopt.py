"""`rltf adopt`: from a launch of verl to the same run with text feedback."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from rltf_verl.tools.cli.common import quiet


def adopt(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="run.sh [ARGS]...",
            help="A launch script with its arguments, or the launch itself.",
        ),
    ],
    method: Annotated[str, typer.Option(help="rltf/method, see `rltf methods`.")] = "sd",
    feedback: Annotated[
        str | None, typer.Option(help="rltf/feedback; what comes with the method if not given.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="New file; NAME_rltf.sh if not given."),
    ] = None,
) -> None:
    """Write your launch script of verl anew with text feedback, and why settings change.

    Bash runs your script and starts none of its programs but those that only read (`date`, `nproc`,
    `python -c` in `$(…)`): nothing is trained, installed, written or deleted.
    """
    environ = dict(os.environ)  # importing torch and Ray sets more
    out = out or Path(f"{Path(words[0]).stem}_rltf.sh")
    if out.exists():
        raise ValueError(f"{out}: exists; delete it, or name another file by -o")
    path = out.resolve()
    with quiet():
        text = _script(words, method, feedback, path, environ)
    path.write_text(f"{text}\n", "utf-8")
    typer.echo(f"wrote {out}; next: RUN='rltf plan' bash {shlex.quote(str(out))}")


def _script(
    words: list[str], method: str, feedback: str | None, out: Path, environ: dict[str, str]
) -> str:
    from rltf_verl.config import ConfigError
    from rltf_verl.tools.adopt.adoption import adopt as adopted
    from rltf_verl.tools.adopt.command import LONGEST, script_of, secrets_of
    from rltf_verl.tools.adopt.script import read_launch

    launch = read_launch(words, environ)
    os.chdir(launch.where)
    try:
        run = adopted(launch, method, feedback)
    except ConfigError as error:
        raise ConfigError(secrets_of(launch).quote(str(error), LONGEST)) from None
    here = str(Path.cwd())
    return script_of(run, here if str(out.parent) != here else "")
