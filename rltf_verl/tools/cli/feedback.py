"""`rltf feedback …`: what is wrong with feedback, and what a judge says and costs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from rltf_verl.tools.cli.check import check
from rltf_verl.tools.cli.common import settings_of

if TYPE_CHECKING:
    from rltf_verl.feedback.base import FeedbackRequest
    from rltf_verl.feedback.judge_provider import JudgeProvider

feedback = typer.Typer(
    no_args_is_help=True, help="Feedback: what is wrong with it, what a judge says and costs."
)


feedback.command("check")(check)


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
    from rltf_verl.envs import make_env
    from rltf_verl.envs.calls import attempt_of
    from rltf_verl.feedback import make_provider
    from rltf_verl.runlog.episodes import read_wrong_attempts
    from rltf_verl.runlog.files import log_folder
    from rltf_verl.tools.cli.judge_trial import wrong_attempts
    from rltf_verl.tools.data.questions import QuestionRow
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
