"""`rltf feedback check`: what is wrong with a feedback function."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rltf_verl.tools.cli.common import settings_of


def check(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[FILE.py:FUNCTION] DATA.parquet [KEY=VALUE]...",
            help=(
                "A reward function and rows in verl's form, or any rows with env.<key>,"
                " feedback.<key>, reward.<key> as in a run's block rltf; data.max_prompt_length of"
                " the run to come."
            ),
        ),
    ],
    num: Annotated[
        int, typer.Option("-n", "--num", min=1, help="Rows at which attempts are made up.")
    ] = 8,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON on stdout instead of lines.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option(help="A run's config.yaml: its sizes and block rltf.")
    ] = None,
) -> None:
    """Say what is wrong with a feedback function before a run: calls it on attempts made from the
    rows, twice each. Needs no GPU and asks no model. Exit code 1 if something is wrong.

    E.g. rltf feedback check ./reward.py:compute_score data/train.parquet
    """
    from rltf_verl.envs.dry_run import DryRun
    from rltf_verl.tools.evaluate.check import checked_feedback
    from rltf_verl.tools.feedback.verdicts import findings_of
    from rltf_verl.tools.report.terminal.console import show_feedback

    given = [word for word in words if "=" not in word]
    files = [Path(word) for word in given if ":" not in word]
    if len(files) != 1:
        raise ValueError("rltf feedback check: name one dataset; `rltf probe` reads a run's log")
    functions = [f"env.function={word}" for word in given if ":" in word]
    overrides = settings_of([*functions, *(word for word in words if "=" in word)])
    if "function" in overrides.get("env", {}):
        overrides["env"].setdefault("name", "reward_function")
    if not as_json:
        typer.echo(f"feedback at the first {num} rows of {files[0]}")
    time = DryRun(tell=partial(typer.echo, err=True))
    seen = checked_feedback(overrides, files[0], num, config, time)
    findings = findings_of(seen)
    if as_json:
        made = {"checked": list(map(asdict, findings))}
        typer.echo(json.dumps(made, indent=1, ensure_ascii=False))
    else:
        show_feedback(findings, len(seen.attempts))
    raise typer.Exit(int(any(finding.level == "error" for finding in findings)))
