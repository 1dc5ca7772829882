"""`rltf probe`: what a base model's episodes predict about a training run."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rltf_verl.tools.cli.common import BootstrapSeed, episodes_of, settings_of

if TYPE_CHECKING:
    from rltf_verl.tools.report.probe.rules import Probe


def probe(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[DATA.parquet] KEY=VALUE...",
            help=(
                "Training problems, and keys: endpoint.<key>, limits.<key> of the base model's"
                " endpoint; env.<key>, "
                "episode.<key>, feedback.<key>, reward.<key>, seed as in a run's block rltf;"
                " data.train_batch_size, "
                "data.max_prompt_length, data.max_response_length, actor_rollout_ref.rollout.n of"
                " the run to come."
            ),
        ),
    ] = [],  # noqa: B006  typer copies it
    log: Annotated[
        Path | None,
        typer.Option(help="Read the episodes of this run, eval or probe folder; ask no model."),
    ] = None,
    step: Annotated[
        int | None, typer.Option(help="Of --log; its first training step if not given.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Keep episodes and probe.json here; continue from there.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON on stdout instead of tables.")
    ] = False,
    problems: Annotated[int, typer.Option(min=1, help="Rows of the dataset.")] = 64,
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
    """Play some episodes as training will, and say whether training is worth it, with which preset
    and feedback.

    E.g. rltf probe data/train.parquet endpoint.base_url=http://127.0.0.1:8000/v1
    endpoint.model=Qwen/Qwen3-4B-Instruct-2507 feedback.provider=verifier feedback.level=hint
    actor_rollout_ref.rollout.n=8 --out outputs/probe
    """
    file = Path(words[0]) if words and "=" not in words[0] else None
    overrides = settings_of(words[1:] if file else words)
    if file is None and log is not None:
        _report(_read(log, step, overrides, config, bootstrap_seed), out, as_json)
        return
    if file is None or log is not None:
        raise ValueError("rltf probe: give a dataset or --log, not both")
    if step is not None:
        raise ValueError(f"--step={step}: needs --log; drop it for a base model")
    from rltf_verl.tools.evaluate.probe import Played

    with TemporaryDirectory(prefix="rltf-probe-") as scratch:
        played = Played(
            overrides,
            file,
            problems,
            out or Path(scratch),
            rounds=rounds,
            config=config,
            prompt_budget=max_prompt_chars,
        )
        if played.episodes:
            _warn_of_grader(played.episodes)
            _report(played.probe(log_probs, bootstrap_seed), out, as_json)
        played.folder.require_results(played.episodes)


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


def _report(probe: Probe, out: Path | None, as_json: bool) -> None:
    """On stdout, and probe.json in the folder."""
    from rltf_verl.tools.report.probe.show import as_json as in_json
    from rltf_verl.tools.report.probe.show import show

    text = json.dumps(in_json(probe), indent=1, ensure_ascii=False)
    if as_json:
        typer.echo(text)
    else:
        show(probe)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "probe.json").write_text(f"{text}\n", encoding="utf-8")
        typer.echo(f"written to {out}", err=as_json)
