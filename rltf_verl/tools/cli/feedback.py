"""`rltf feedback …`: what is wrong with feedback, and what a judge says and costs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from rltf_verl.tools.cli.common import AsJson, RunConfig, echo_json, settings_of, tell

if TYPE_CHECKING:
    from rltf_verl.feedback.base import FeedbackRequest
    from rltf_verl.feedback.judge_provider import JudgeProvider

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="[FILE.py:FUNCTION] DATA.parquet [KEY=VALUE]...",
        help=(
            "A reward function and rows in verl's form, or any rows with env.KEY,"
            " feedback.KEY, reward.KEY as in a run's block rltf; data.max_prompt_length of"
            " the run to come; endpoint.KEY and limits.KEY of a model to ask, too."
        ),
    ),
]

feedback = typer.Typer(
    no_args_is_help=True, help="Feedback: what is wrong with it, what a judge says and costs."
)


@feedback.command("check")
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
    endpoint.KEY: `rltf probe` of its episodes, and of some with feedback on other problems.

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
    raise typer.Exit(int(bool(findings)))


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


@feedback.command("try")
def judge_try(
    options: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE...", help="Keys of rltf.feedback (style=hint), or env.KEY."
        ),
    ],
    env: Annotated[str, typer.Option(help="Environment of the problems.")] = "binary_matrix",
    log: Annotated[
        Path | None,
        typer.Option(help="Episode log with real attempts, instead of made-up wrong ones."),
    ] = None,
    num: Annotated[int, typer.Option("-n", "--num", min=1, help="Problems.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the problems.")] = 0,
) -> None:
    """Ask a judge about a few wrong attempts: prompt, raw reply, feedback, time and cost; exit 1 if
    one fails.

    E.g. rltf feedback try style=hint endpoint.base_url=http://127.0.0.1:8000/v1
    endpoint.model=Qwen/Qwen3-4B-Instruct-2507
    """
    from rltf_verl.judge.runtime import run_to_end
    from rltf_verl.tools.cli.judge_trial import try_judge
    from rltf_verl.tools.report.terminal.console import show_trials

    provider, requests = _judge_and_requests(options, env, log, num, seed)
    trials = [asdict(trial) for trial in run_to_end(try_judge(provider, requests))]
    show_trials(trials)
    raise typer.Exit(int(any(trial["error"] for trial in trials)))


def _judge_and_requests(
    options: list[str], env: str, log: Path | None, num: int, seed: int
) -> tuple[JudgeProvider, list[FeedbackRequest]]:
    from rltf_verl.data.questions import QuestionRow
    from rltf_verl.envs import make_env
    from rltf_verl.envs.calls import attempt_of
    from rltf_verl.feedback import make_provider
    from rltf_verl.runlog.episodes import read_wrong_attempts
    from rltf_verl.runlog.files import log_folder
    from rltf_verl.tools.cli.judge_trial import wrong_attempts
    from rltf_verl.tools.feedback.attempts import request_about

    overrides = settings_of(options, env="--env {}")
    environment = make_env(env, **overrides.pop("env", {}))
    if environment.acts:
        raise ValueError(
            f"--env {env}: its attempts have steps, and only attempts of one answer are made up;"
            " let a model play some with `rltf eval --rounds 1`"
        )
    provider = cast("JudgeProvider", make_provider("judge", **overrides))
    if log is None:
        return provider, wrong_attempts(environment, seed, num)
    attempts = read_wrong_attempts(log_folder(log), num)
    for problem, *_ in attempts:
        if problem.env != environment.name:
            raise ValueError(
                f"--env {env}: the log holds problems of {problem.env}; add --env {problem.env}"
            )
    return provider, [
        request_about(
            environment,
            QuestionRow(problem, ({"role": "user", "content": question},)),
            attempt_of(environment, text),
            grade,
        )
        for problem, question, text, grade in attempts
    ]
