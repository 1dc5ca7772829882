"""`rltf …`: build data, hold our numbers against the released code, find out what is wrong, read
episodes.

Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import gc
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rltf_verl.stuck import run_and_end
from rltf_verl.tools.cli.adopt import adopt
from rltf_verl.tools.cli.common import (
    AsJson,
    ConfigDir,
    ConfigPath,
    Log,
    Step,
    echo_json,
    episodes_of,
    tell,
)
from rltf_verl.tools.cli.compare import compare
from rltf_verl.tools.cli.data import data
from rltf_verl.tools.cli.env import env
from rltf_verl.tools.cli.evaluate import evaluate, results
from rltf_verl.tools.cli.export import export
from rltf_verl.tools.cli.feedback import feedback
from rltf_verl.tools.cli.log import log
from rltf_verl.tools.cli.plan import MAIN, PASSED_ON, plan
from rltf_verl.tools.cli.probe import probe
from rltf_verl.tools.cli.view import view

TRAIN = f"python -m {MAIN}"


class _OneLineErrors(TyperGroup):
    """Errors that a user can fix are one line on stderr, no traceback; after a command that ends
    well, stderr names the next one.
    """

    def invoke(self, ctx: Any) -> Any:
        from rltf_verl.registry import UserCodeError

        code = 0
        try:
            super().invoke(ctx)
        except typer.Exit as end:
            code = end.exit_code
        except BrokenPipeError:  # `| head` has ended; the exit prints nothing
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except (ValueError, OSError, UserCodeError) as error:
            line = f"rltf: {' '.join(str(error).split())}"
            typer.secho(line, fg=typer.colors.RED, err=True)
            raise typer.Exit(1) from None
        following = NEXT.get(ctx.invoked_subcommand)
        if following and not code:
            tell(f"next: {following}")
        raise typer.Exit(code)


app = typer.Typer(
    cls=_OneLineErrors,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # else lines of a docstring end where they do in the source
)


def _version(wanted: bool) -> None:
    from importlib.metadata import version

    if wanted:
        typer.echo(f"rltf-verl {version('rltf-verl')}, verl {version('verl')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_version, help="Versions of this package and verl."
        ),
    ] = False,
) -> None:
    """Reinforcement Learning from Text Feedback on verl, which trains:

    python -m verl.trainer.main_ppo --config-name=rltf_sd KEY=VALUE...
    """


def doctor(
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Hydra overrides, e.g. rltf/hardware=cpu.")
    ] = None,
    config_name: Annotated[
        str, typer.Option("--config-name", "-cn", help="Config to check.")
    ] = "rltf_sd",
    config_path: ConfigPath = None,
    config_dir: ConfigDir = None,
    as_json: AsJson = False,
) -> None:
    """Check the installation, here and in a Ray worker, and say how to fix it; exit 1 if something
    is off.

    The worker is one of the cluster that RAY_ADDRESS names, else of a Ray that is started for this
    on one CPU.
    """
    from rltf_verl.tools.doctor.doctor import examine
    from rltf_verl.tools.report.terminal.console import show_checks

    checks = [
        asdict(check) for check in examine(config_name, overrides or [], config_path, config_dir)
    ]
    if as_json:
        echo_json(checks)
    else:
        show_checks(checks)
    raise typer.Exit(int(any(check["status"] == "failed" for check in checks)))


def methods() -> None:
    """List the methods for rltf/method, with a line on each."""
    from rltf_verl.tools.compose.presets import titles
    from rltf_verl.tools.report.terminal.console import show_table

    show_table([("rltf/method", "method"), *titles("method").items()])


def inspect(
    folder: Log,
    step: Step = None,
    num: Annotated[int, typer.Option("-n", "--num", min=1, help="Episodes to print.")] = 3,
) -> None:
    """Print the newest episodes of a run: attempts, grades, feedback."""
    from rltf_verl.tools.report.terminal.console import show_episode

    episodes = episodes_of(folder, step)
    for record in episodes[-num:]:
        show_episode(record)
    typer.echo(f"{min(num, len(episodes))} of {len(episodes)} episodes")


def train(words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Name the command that trains."""
    raise ValueError(f"verl trains: {TRAIN} {shlex.join(words or ['--config-name=rltf_sd'])}")


COMMANDS = (
    ("Prepare", "doctor", doctor, "rltf data build ENVIRONMENT, or your own rows"),
    (
        "Prepare",
        "data",
        data,
        "rltf feedback check [FILE.py:FUNCTION] DATA.parquet, or rltf plan",
    ),
    ("Prepare", "env", env, "rltf data build ENVIRONMENT"),
    ("Prepare", "feedback", feedback, "rltf plan KEY=VALUE..."),
    ("Start", "methods", methods, "rltf adopt run.sh, or rltf plan rltf/method=NAME KEY=VALUE..."),
    ("Start", "adopt", adopt, ""),
    ("Start", "plan", plan, f"{TRAIN}, with the words of this plan"),
    ("Read", "view", view, "open the page in a browser, then rltf log stats RUN"),
    ("Read", "inspect", inspect, "rltf view RUN -o page.html"),
    ("Read", "log", log, "rltf view RUN -o page.html"),
    ("Measure", "probe", probe, "rltf plan KEY=VALUE..."),
    ("Measure", "eval", evaluate, "rltf probe OUT, before a run; rltf results RUN, after it"),
    ("Measure", "results", results, "rltf compare NAME=RUN..."),
    ("Measure", "compare", compare, "rltf export RUN MODEL"),
    ("Give", "export", export, ""),
)
"""Panel of the help, name, command, and what follows it; empty: it names that itself."""
NEXT = {name: following for _, name, _, following in COMMANDS}
for panel, name, command, _ in COMMANDS:
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name, rich_help_panel=panel)
    else:
        settings = PASSED_ON if command in (adopt, plan) else None
        app.command(name, rich_help_panel=panel, context_settings=settings)(command)
app.command(hidden=True, context_settings=PASSED_ON)(train)


def _refuse_exit(process: int, end: Callable[[int], None], status: int) -> None:
    """`os._exit` of a user's code, which would end a check as if it had passed."""
    if os.getpid() != process:  # a child of this process ends
        end(status)
    raise SystemExit(f"os._exit({status})")


def _run_command() -> None:
    end = os._exit
    vars(os)["_exit"] = partial(_refuse_exit, os.getpid(), end)
    try:
        app()
    finally:
        vars(os)["_exit"] = end


def main() -> None:
    """Entry point of the console script."""
    # By default imports of torch and verl set off hundreds of collections, and of 200 000 objects
    # still five: 0.3 s of CPU each time in `plan`.
    gc.set_threshold(1_000_000)
    run_and_end(_run_command)


if __name__ == "__main__":
    main()
