"""`rltf eval`: how good a policy is at first and after feedback; `rltf results`: the same of an episode log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rltf_verl.cli_options import parse_options

Out = Annotated[Path, typer.Option(help="Folder for the sessions, results.json and results.png.")]
BootstrapSeed = Annotated[int, typer.Option(help="Seed of the confidence intervals.")]


def evaluate(
    file: Annotated[Path, typer.Argument(metavar="DATA.parquet", help="Dataset of ours, e.g. test.parquet.")],
    options: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE...",
            help="endpoint.<key> and limits.<key> of the policy's endpoint; env.<key>, episode.<key>, feedback.<key>, "
            "reward.<key>, seed as in a run's block rltf.",
        ),
    ],
    out: Out,
    samples: Annotated[int, typer.Option("-n", "--samples", min=1, help="Sessions per problem.")] = 1,
    rounds: Annotated[int, typer.Option(min=0, help="Rounds of feedback; one answer more is given.")] = 1,
    config: Annotated[Path | None, typer.Option(help="A run's config.yaml, whose block rltf counts here too.")] = None,
    problems: Annotated[int | None, typer.Option(min=1, help="Only the first rows of the dataset.")] = None,
    step: Annotated[int, typer.Option(min=0, help="Sampling seeds of a run's validation at this step.")] = 0,
    max_prompt_chars: Annotated[
        int | None,
        typer.Option(min=1, help="Longest prompt, in characters of its JSON; the endpoint's limit if not given."),
    ] = None,
    bootstrap_seed: BootstrapSeed = 0,
) -> None:
    """Evaluate an OpenAI-compatible endpoint with the sessions of training; go on where an earlier call ended.

    E.g. rltf eval data/test.parquet endpoint.base_url=http://127.0.0.1:8000/v1 endpoint.model=Qwen/Qwen3-8B
    feedback.provider=policy -n 4 --rounds 3 --out outputs/eval
    """
    from rltf_verl.cli import nested
    from rltf_verl.evaluate.folder import Folder
    from rltf_verl.evaluate.settings import evaluation

    questions, env = questions_of(file, problems)
    settings = evaluation(
        nested(parse_options(options)), rounds, env, config=config, step=step, prompt_budget=max_prompt_chars
    )
    folder = Folder(out, settings, questions, samples)
    failures = play(folder)
    sessions = folder.sessions()
    if sessions:
        _report(folder.by_source(sessions), {"evaluation": settings.facts(), "samples": samples}, out, bootstrap_seed)
    require_all(folder.num_sessions - len(sessions), failures)


def results(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="Episode log, rltf.episode_log.dir of the run.")],
    out: Out,
    step: Annotated[int | None, typer.Option(help="Step of the validation; the last one if not given.")] = None,
    bootstrap_seed: BootstrapSeed = 0,
) -> None:
    """Print and draw the numbers of `rltf eval` for a validation of a training run."""
    from rltf_verl.cli import episodes_of

    held_out = [record for record in episodes_of(log, step) if record["split"] == "val"]
    if not held_out:
        raise ValueError(f"{log}: no validation sessions{'' if step is None else f' of step {step}'} in it")
    last = max(record["step"] for record in held_out)
    sessions = [record for record in held_out if record["step"] == last]
    _report({f"step {last}": sessions}, {"log": log.name, "step": last}, out, bootstrap_seed)


def questions_of(file: Path, num: int | None) -> tuple[list[Any], dict[str, Any]]:
    """The first rows of a dataset, and the environment with the options that it was built with."""
    from rltf_verl.data.questions import read_questions
    from rltf_verl.data.schema import read_provenance

    questions = read_questions(file, num)
    made = read_provenance(file)
    env = questions[0].problem.env
    return questions, {**(made.get("options", {}) if made.get("env") == env else {}), "name": env}


def require_all(missing: int, failures: list[str]) -> None:
    """Raise ValueError if sessions have no result."""
    if missing:
        why = f", e.g. because {failures[0]}" if failures else ""
        raise ValueError(f"{missing} sessions have no result{why}. The same command asks for them again")


def play(folder: Any) -> list[str]:
    """Play what is missing, with a bar on stderr. Returns why sessions have no answer."""
    import asyncio

    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    known = folder.known()
    columns = (TextColumn("sessions"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
               TextColumn("first answers right {task.fields[right]}"))  # fmt: skip
    progress = Progress(*columns, console=Console(stderr=True))
    task = progress.add_task("", total=folder.num_sessions, completed=len(known), right="–")
    verdicts: list[bool] = []

    def ended(episode: Any) -> None:
        if episode is not None:
            verdicts.append(episode.turns[0].grade.correct)
        right = f"{sum(verdicts) / len(verdicts):.0%}" if verdicts else "–"
        progress.update(task, advance=1, right=right)

    player = folder.player(ended)
    with progress:
        asyncio.run(player.play(known))
    failures: list[str] = player.failures
    return failures


def _report(by_source: dict[str, list[Any]], facts: dict[str, Any], out: Path, seed: int) -> None:
    """Tables on the terminal, results.json and results.png in the folder."""
    import json
    from dataclasses import asdict

    from rltf_verl.report.console import show_table
    from rltf_verl.report.evaluation import evaluate as evaluated
    from rltf_verl.report.evaluation_show import notes, pass_table, plot, round_table, turn_table

    found = {name: evaluated(sessions, seed) for name, sessions in by_source.items()}
    for name, result in found.items():
        typer.echo(f"{name}: {'. '.join(notes(result))}")
        for table in (turn_table(result), round_table(result), pass_table(result)):
            if len(table) > 1:
                show_table(table)
    out.mkdir(parents=True, exist_ok=True)
    written = {**facts, "bootstrap_seed": seed, "results": {name: asdict(result) for name, result in found.items()}}
    (out / "results.json").write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    try:
        plot(found, out / "results.png")
    except ValueError as error:
        typer.echo(error, err=True)
    typer.echo(f"written to {out}")
