"""`rltf feedback check`: what is wrong with a feedback function."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rltf_verl.tools.cli.common import AsJson, RunConfig, echo_json, settings_of, tell

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="[FILE.py:FUNCTION] DATA.parquet [KEY=VALUE]...",
        help=(
            "A reward function and rows in verl's form, or any rows with env.<key>,"
            " feedback.<key>, reward.<key> as in a run's block rltf; data.max_prompt_length of"
            " the run to come; endpoint.<key> and limits.<key> of a model to ask, too."
        ),
    ),
]


def check(
    words: Words,
    num: Annotated[
        int, typer.Option("-n", "--num", min=1, help="Rows at which attempts are made up.")
    ] = 8,
    as_json: AsJson = False,
    config: RunConfig = None,
    out: Annotated[Path, typer.Option(help="Folder for a model's episodes.")] = Path(
        "outputs/feedback_check"
    ),
) -> None:
    """Say what is wrong with a feedback function before a run: calls it on attempts made from the
    rows, twice each. Needs no GPU. Exit code 1 if something is wrong. Calls a model only with
    endpoint.<key>: `rltf probe` of its episodes, and of some with feedback on other problems.

    E.g. rltf feedback check ./reward.py:compute_score data/train.parquet
    """
    from rltf_verl.envs.dry_run import DryRun
    from rltf_verl.tools.evaluate.check import checked_feedback, feedback_probes
    from rltf_verl.tools.evaluate.settings import ENDPOINT_BLOCKS
    from rltf_verl.tools.feedback.verdicts import findings_of
    from rltf_verl.tools.report.probe import show
    from rltf_verl.tools.report.terminal.console import show_feedback

    file, overrides = _file_and_settings(words)
    if not as_json:
        typer.echo(f"feedback at the first {num} rows of {file}")
    seen = checked_feedback(overrides, file, num, config, DryRun(tell=tell))
    findings = findings_of(seen)
    if not as_json:
        show_feedback(findings, len(seen.attempts))
    made: dict[str, Any] = {"checked": list(map(asdict, findings))}
    if overrides.keys() & ENDPOINT_BLOCKS:
        for name, probe in feedback_probes(overrides, file, num, config, out, tell):
            made[name] = show.as_json(probe)
            if not as_json:
                typer.echo(f"\n{name}, {out}")
                show.show(probe)
    if as_json:
        echo_json(made)
    raise typer.Exit(int(any(finding.level == "error" for finding in findings)))


def _file_and_settings(words: list[str]) -> tuple[Path, dict[str, Any]]:
    """The dataset, and the settings with the function as `env.function`."""
    # a path may have a "=", but no key has a "/" before it
    given = [word for word in words if "=" not in word or "/" in word.partition("=")[0]]
    files = [Path(word) for word in given if ":" not in word]
    if len(files) != 1:
        raise ValueError("rltf feedback check: name one dataset; `rltf probe` reads a run's log")
    functions = [f"env.function={word}" for word in given if ":" in word]
    overrides = settings_of([*functions, *(word for word in words if word not in given)])
    if "function" in overrides.get("env", {}):
        overrides["env"].setdefault("name", "reward_function")
    return files[0], overrides
