"""`rltf probe`: what a base model's own episodes say about a training run, before it is paid
for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rltf_verl.tools.cli.common import (
    BootstrapSeed,
    episodes_of,
    play,
    questions_of,
    require_all,
    require_grades,
    settings_of,
)


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
    told = settings_of(words[1:] if file else words)
    if (file is None) == (log is None):
        raise ValueError("say either a dataset, DATA.parquet, or --log with a folder of episodes")
    if step is not None and log is None:
        raise ValueError(f"--step {step}: a step of --log; leave it out, a base model has none")
    if file is None:
        found, not_known = _read(log, step, told, config, bootstrap_seed)
        _report(found, not_known, out, as_json)
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="rltf-probe-") as scratch:
        played = _Played(
            told, file, problems, out or Path(scratch), rounds, config, max_prompt_chars
        )
        if played.episodes:
            _tell_grader_trouble(played.episodes)
            _report(*played.probe(log_probs, bootstrap_seed), out, as_json)
        require_all(played.missing, played.failures)
        require_grades(played.episodes)


class _Played:
    """Episodes that are played now, or were by an earlier call."""

    def __init__(
        self,
        told: Any,
        file: Path,
        problems: int,
        out: Path,
        rounds: int | None,
        config: Path | None,
        prompt_budget: int | None,
    ) -> None:
        from rltf_verl.tools.evaluate.folder import Folder
        from rltf_verl.tools.evaluate.probe_settings import plan_to_play

        self._questions, env = questions_of(file, problems, told, config)
        self._plan, self._evaluation = plan_to_play(told, rounds, env, config, prompt_budget)
        folder = Folder(out, self._evaluation, self._questions, self._plan.run.sessions)
        self.failures = play(folder)
        self.episodes = folder.episodes()
        self.missing = folder.num_episodes - len(self.episodes)

    def probe(self, most: int, seed: int) -> tuple[Any, str]:
        """What there is to say, and why distances are not known."""
        import asyncio

        from rltf_verl.tools.evaluate.log_probs import NotKnownError, scored_answers
        from rltf_verl.tools.report.probe.log_probs import gap_of

        gap, not_known = None, "--log-probs 0"
        try:
            if most:
                scored = scored_answers(self._evaluation, self.episodes, self._questions, most)
                gap = gap_of(*asyncio.run(scored), seed)
        except NotKnownError as error:
            not_known = str(error)
        return _probe(self._plan, self.episodes, gap, seed), not_known


def _read(log: Any, step: int | None, told: Any, config: Path | None, seed: int) -> tuple[Any, str]:
    """The same of a folder of episodes: of its first step with training episodes, if it has one."""
    from rltf_verl.runlog.files import log_folder
    from rltf_verl.tools.evaluate.probe_settings import plan_of_log

    log = log_folder(log)
    records = episodes_of(log, step)
    records = [record for record in records if record["split"] == "train"] or records
    first = min(record["step"] for record in records)
    records = [record for record in records if record["step"] == first]
    _tell_grader_trouble(records)
    plan = plan_of_log(told, log, records, config)
    if not plan.limits_known:
        typer.echo(
            f"{log} does not say the run's limits, so the presets' are taken: name"
            " data.max_prompt_length and data.max_response_length, or --config",
            err=True,
        )
    return _probe(plan, records, None, seed), "a log holds no log-probs"


def _tell_grader_trouble(episodes: list[Any]) -> None:
    from rltf_verl.runlog.turns import grader_trouble

    said, _ = grader_trouble(episodes)
    if said is not None:
        typer.echo(said, err=True)


def _probe(plan: Any, episodes: list[Any], gap: Any, seed: int) -> Any:
    from rltf_verl.tools.evaluate.probe_reader import reader
    from rltf_verl.tools.report.probe.finding import Probe
    from rltf_verl.tools.report.probe.judge import judge_load
    from rltf_verl.tools.report.probe.measures import measure

    terms = plan.terms
    load = None if terms is None else judge_load(episodes, plan.run, terms)
    found = measure(
        episodes, plan.run, reader(plan.env, plan.rltf.feedback.guard, plan.phrases), seed
    )
    return Probe(found, plan.run, plan.setting, load, gap)


def _report(found: Any, not_known: str, out: Path | None, as_json: bool) -> None:
    """On stdout, and probe.json in the folder."""
    import json

    from rltf_verl.tools.report.probe.advice import advise
    from rltf_verl.tools.report.probe.show import as_json as in_json
    from rltf_verl.tools.report.probe.show import show

    said = advise(found)
    text = json.dumps(in_json(found, *said, not_known), indent=1, ensure_ascii=False)
    if as_json:
        typer.echo(text)
    else:
        show(found, *said, not_known)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "probe.json").write_text(f"{text}\n", encoding="utf-8")
        typer.echo(f"written to {out}", err=as_json)
