"""`rltf plan`: what a run will do, before it starts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from rltf_verl.tools.cli.common import AsJson, ConfigDir, ConfigPath, echo_json, quiet, tell

MAIN = "verl.trainer.main_ppo"
PASSED_ON = {"ignore_unknown_options": True}
"""Setting of typer: a pasted command line has options of Python's."""


def plan(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="OVERRIDES...", help="As for python -m verl.trainer.main_ppo."),
    ] = None,
    config_name: Annotated[
        str, typer.Option("--config-name", "-cn", help="Primary config, as of Hydra.")
    ] = "rltf",
    config_path: ConfigPath = None,
    config_dir: ConfigDir = None,
    problems: Annotated[int, typer.Option(min=1, help="How many to show.")] = 3,
    attempt: Annotated[
        str | None, typer.Option(help="First answer to each; a wrong one is made up if not given.")
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Show long texts whole.")] = False,
    gpu_memory: Annotated[
        float | None, typer.Option(min=1, help="GB of a GPU of the run's machine, if not this one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a run will do: its prompts, grades, feedback and rows, its size, what it keeps, and
    what is wrong with it. Needs no GPU, starts no Ray, asks no model. Exit code 1 if the run would
    be refused.

    E.g. rltf plan --config-name=rltf rltf/method=sd actor_rollout_ref.model.path=…
    """
    with quiet():
        from rltf_verl.envs.dry_run import DryRun
        from rltf_verl.tools.compose.runs import compose_run
        from rltf_verl.tools.plan.build import make_plan
        from rltf_verl.tools.plan.inputs import inspect_run

        overrides = words or []
        if MAIN in overrides:  # a pasted command
            overrides = overrides[overrides.index(MAIN) + 1 :]
        config = compose_run(config_name, overrides, config_path, config_dir)
        inputs = inspect_run(config, DryRun(tell=tell), overrides, card=gpu_memory)
        made = make_plan(inputs, problems, attempt)
    if as_json:
        echo_json(asdict(made))
    else:
        from rltf_verl.tools.report.terminal.plan import show_plan

        show_plan(made, whole=whole)
    raise typer.Exit(int(bool(made.refusals)))
