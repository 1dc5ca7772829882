"""`rltf feedback check`: what is wrong with feedback, and what it is worth to a base model."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rltf_verl.tools.cli.common import BootstrapSeed, episodes_of, settings_of

if TYPE_CHECKING:
    from rltf_verl.tools.report.probe.rules import Probe


def check(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[FILE.py:FUNCTION] [DATA.parquet] [KEY=VALUE]...",
            help=(
                "A reward function and rows in verl's form; or a run's own words (rltf/env=…"
                " rltf/feedback=… rltf.feedback.…) and its rows. endpoint.<key> and limits.<key> of"
                " a base model's endpoint, to see what the feedback is worth; episode.<key>,"
                " reward.<key>, seed as in a run's block rltf; data.train_batch_size,"
                " data.max_prompt_length, data.max_response_length, actor_rollout_ref.rollout.n of"
                " the run to come."
            ),
        ),
    ] = [],  # noqa: B006  typer copies it
    num: Annotated[
        int, typer.Option("-n", "--num", min=1, help="Rows at which attempts are made up.")
    ] = 8,
    log: Annotated[
        Path | None,
        typer.Option(help="Read the episodes of this run, eval or check; ask no model."),
    ] = None,
    step: Annotated[
        int | None, typer.Option(help="Of --log; its first training step if not given.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Keep episodes and probe.json here; continue from there.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON on stdout instead of lines and tables.")
    ] = False,
    problems: Annotated[int, typer.Option(min=1, help="Rows that a model plays.")] = 64,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds of feedback; the config's, else 1.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A run's config.yaml: its sizes and block rltf.")
    ] = None,
    log_probs: Annotated[
        int, typer.Option(min=0, help="Second answers to ask log-probs of; 0 asks for none.")
    ] = 64,
    max_prompt_chars: Annotated[
        int | None, typer.Option(min=1, help="Longest prompt, in characters of its JSON.")
    ] = None,
    bootstrap_seed: BootstrapSeed = 0,
) -> None:
    """Say what is wrong with a feedback function before a run: calls it on attempts made from the
    rows, twice each. Needs no GPU and asks no model. Exit code 1 if something is wrong.

    E.g. rltf feedback check ./reward.py:compute_score data/train.parquet

    With a base model's endpoint, or a run's log, also how many wrong answers it turns right, and
    whether training is worth it:

    rltf feedback check data/train.parquet endpoint.base_url=http://127.0.0.1:8000/v1
    endpoint.model=Qwen/Qwen3-4B-Instruct-2507 feedback.level=hint --out outputs/check
    """
    given = [word for word in words if "=" not in word]
    files = [Path(word) for word in given if ":" not in word]
    functions = [f"env.function={word}" for word in given if ":" in word]
    overrides = _settings([*functions, *(word for word in words if "=" in word)])
    if log is not None and not given:
        _report(_read(log, step, overrides, config, bootstrap_seed), out, as_json)
        return
    if log is not None or len(files) != 1:
        raise ValueError("rltf feedback check: give a dataset or --log, not both")
    if step is not None:
        raise ValueError(f"--step={step}: needs --log; drop it for a base model")
    if not as_json:
        typer.echo(f"feedback at the first {num} rows of {files[0]}")
    findings = _check_function(overrides, files[0], num, config, as_json)
    if "endpoint" not in overrides:
        if as_json:
            typer.echo(json.dumps({"checked": findings}, indent=1, ensure_ascii=False))
    else:
        from rltf_verl.tools.evaluate.probe import ProbeEpisodes

        with TemporaryDirectory(prefix="rltf-check-") as scratch:
            played = ProbeEpisodes(
                overrides,
                files[0],
                problems,
                out or Path(scratch) / "played",
                rounds=rounds,
                config=config,
                prompt_budget=max_prompt_chars,
            )
            if played.episodes:
                _warn_of_grader(played.episodes)
                _report(played.probe(log_probs, bootstrap_seed), out, as_json, findings)
            played.folder.require_results(played.episodes)
    raise typer.Exit(int(any(finding["level"] == "error" for finding in findings)))


def _settings(words: list[str]) -> dict[str, Any]:
    """The words as nested options, a run's groups (`rltf/env=…`) and a function's name too."""
    from rltf_verl.tools.evaluate.settings import with_group

    groups = [word for word in words if word.startswith(("rltf/env=", "rltf/feedback="))]
    overrides = settings_of([word for word in words if word not in groups])
    for word in groups:
        block, _, name = word.removeprefix("rltf/").partition("=")
        overrides[block] = with_group(block, name, overrides.get(block, {}))
    if "function" in overrides.get("env", {}):
        overrides["env"].setdefault("name", "reward_function")
    return overrides


def _check_function(
    overrides: dict[str, Any], file: Path, num: int, config: Path | None, as_json: bool
) -> list[dict[str, Any]]:
    """Faults of the feedback on made-up attempts."""
    from rltf_verl.envs.dry_run import DryRun
    from rltf_verl.tools.evaluate.probe import checked_feedback
    from rltf_verl.tools.feedback.verdicts import findings_of
    from rltf_verl.tools.report.terminal.console import show_feedback

    time = DryRun(tell=partial(typer.echo, err=True))
    seen = checked_feedback(overrides, file, num, config, time)
    if seen is None and "endpoint" not in overrides:
        raise ValueError(
            "rltf feedback check: asks no judge and plays no steps; read those of a run with --log"
            " RUN, or ask a judge with `rltf feedback try`"
        )
    findings = [] if seen is None else findings_of(seen)
    if seen is not None and not as_json:
        show_feedback(findings, len(seen.attempts))
    return [asdict(finding) for finding in findings]


def _read(
    folder: Path, step: int | None, overrides: dict[str, Any], config: Path | None, seed: int
) -> Probe:
    """The first step with training episodes, if a log has one."""
    from rltf_verl.runlog.files import log_folder
    from rltf_verl.tools.evaluate.probe import plan_of_log

    records = episodes_of(folder, step)
    records = [record for record in records if record["split"] == "train"] or records
    first = min(record["step"] for record in records)
    records = [record for record in records if record["step"] == first]
    _warn_of_grader(records)
    plan = plan_of_log(overrides, log_folder(folder), records, config)
    if not plan.limits_known:
        typer.echo(
            f"{folder} does not hold the run's limits, so the presets' are taken: set"
            " data.max_prompt_length and data.max_response_length, or --config",
            err=True,
        )
    return plan.probe(records, None, "a log holds no log-probs", seed)


def _warn_of_grader(episodes: list[Any]) -> None:
    from rltf_verl.runlog.turns import grader_trouble

    trouble, _ = grader_trouble(episodes)
    if trouble is not None:
        typer.echo(trouble, err=True)


def _report(
    probe: Probe, out: Path | None, as_json: bool, checked: list[dict[str, Any]] | None = None
) -> None:
    """On stdout, and probe.json in the folder."""
    from rltf_verl.tools.report.probe.show import as_json as in_json
    from rltf_verl.tools.report.probe.show import show

    made = {**in_json(probe), "checked": checked}
    text = json.dumps(made, indent=1, ensure_ascii=False)
    if as_json:
        typer.echo(text)
    else:
        show(probe)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "probe.json").write_text(f"{text}\n", encoding="utf-8")
        typer.echo(f"written to {out}", err=as_json)
