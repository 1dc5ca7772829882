"""`rltf eval`: how good a policy is at first and after feedback; `rltf results`: the same of an
episode log.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rltf_verl.tools.cli.common import (
    Log,
    Overwrite,
    RunConfig,
    episodes_of,
    refuse_existing,
    settings_of,
    tell,
)

Options = Annotated[
    list[str],
    typer.Argument(
        metavar="KEY=VALUE...",
        help=(
            "endpoint.KEY and limits.KEY of the policy's endpoint; env.KEY, episode.KEY,"
            " feedback.KEY, reward.KEY, seed as in a run's block rltf."
        ),
    ),
]
Out = Annotated[Path, typer.Option(help="Folder for the episodes, results.json and results.png.")]
MaxPromptChars = Annotated[
    int | None,
    typer.Option(
        min=1, help="Longest prompt, in characters of its JSON; the endpoint's limit if not given."
    ),
]


def evaluate(
    file: Annotated[
        Path, typer.Argument(metavar="DATA.parquet", help="Dataset that `rltf data` wrote.")
    ],
    options: Options,
    out: Out,
    samples: Annotated[
        int, typer.Option("-n", "--samples", min=1, help="Episodes per problem.")
    ] = 1,
    rounds: Annotated[
        int, typer.Option(min=0, help="Rounds of feedback; one answer more is given.")
    ] = 1,
    config: RunConfig = None,
    problems: Annotated[
        int | None, typer.Option(min=1, help="Only the first rows of the dataset.")
    ] = None,
    step: Annotated[
        int, typer.Option(min=0, help="Sampling seeds of a run's validation at this step.")
    ] = 0,
    max_prompt_chars: MaxPromptChars = None,
) -> None:
    """Evaluate an OpenAI-compatible endpoint with the episodes of training; continue where an
    earlier call ended.

    E.g. rltf eval data/test.parquet endpoint.base_url=http://127.0.0.1:8000/v1
    endpoint.model=Qwen/Qwen3-4B-Instruct-2507 feedback.provider=policy -n 4 --rounds 3
    --out outputs/eval
    """
    from rltf_verl.runlog.episodes import by_source
    from rltf_verl.tools.evaluate.play import EvaluationFolder
    from rltf_verl.tools.evaluate.settings import evaluation, questions_of

    overrides = settings_of(options)
    questions, env = questions_of(file, problems, overrides, config)
    settings = evaluation(
        overrides, rounds, env, config=config, step=step, prompt_budget=max_prompt_chars
    )
    folder = EvaluationFolder(out, settings, questions, samples)
    folder.play()
    episodes = folder.episodes()
    if episodes:
        facts = {"evaluation": settings.facts(), "samples": samples}
        _report(by_source(episodes), facts, out)
    folder.require_results(episodes)


def results(
    log: Log,
    out: Annotated[Path, typer.Option(help="Folder for results.json and results.png.")],
    step: Annotated[
        int | None, typer.Option(help="Step of the validation; the last one if not given.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Print and draw the numbers of `rltf eval` for a validation of a training run."""
    from rltf_verl.runlog.episodes import by_source

    refuse_existing([out / "results.json", out / "results.png"], overwrite)
    held_out = [record for record in episodes_of(log, step) if record["split"] == "val"]
    if not held_out:
        raise ValueError(
            f"{log}: no validation episodes{'' if step is None else f' of step {step}'} in it"
        )
    last = max(record["step"] for record in held_out)
    apart = by_source(record for record in held_out if record["step"] == last)
    named = {
        f"step {last}, {source}" if len(apart) > 1 else f"step {last}": episodes
        for source, episodes in apart.items()
    }
    _report(named, {"log": log.name, "step": last}, out)


def _report(apart: dict[str, list[Any]], facts: dict[str, Any], out: Path) -> None:
    """Tables on the terminal, results.json and results.png in the folder."""
    from rltf_verl.tools.report.evaluation.results import evaluate as evaluated
    from rltf_verl.tools.report.evaluation.show import notes, plot, tables
    from rltf_verl.tools.report.terminal.console import show_table

    results = {name: evaluated(episodes) for name, episodes in apart.items()}
    for name, result in results.items():
        typer.echo(f"{name}: {'. '.join(notes(result))}")
        for lines in tables(result):
            show_table(lines)
    out.mkdir(parents=True, exist_ok=True)
    numbers = {name: asdict(result) for name, result in results.items()}
    written = {**facts, "results": numbers}
    (out / "results.json").write_text(
        json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    try:
        plot(results, out / "results.png")
    except ValueError as error:
        tell(error)
    typer.echo(f"written to {out}")
