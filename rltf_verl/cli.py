"""`rltf …`: build data, hold our numbers against the released code, find out what is wrong, read episodes.

Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from rltf_verl.cli_compare import compare
from rltf_verl.cli_data import data
from rltf_verl.cli_env import env
from rltf_verl.cli_eval import evaluate, results
from rltf_verl.cli_log import log
from rltf_verl.cli_options import parse_options
from rltf_verl.cli_probe import probe
from rltf_verl.cli_seeds import seeds
from rltf_verl.cli_view import view


class _OneLineErrors(TyperGroup):
    """What a user can mend (ValueError, OSError) is one line on stderr, never a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (ValueError, OSError) as error:
            _fail(str(error), 1)


app = typer.Typer(
    cls=_OneLineErrors, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Reinforcement Learning from Text Feedback on verl.",
)  # fmt: skip
app.add_typer(data, name="data")
judge = typer.Typer(no_args_is_help=True, help="Feedback: what it costs, says and is worth.")
app.add_typer(judge, name="judge")
app.add_typer(env, name="env")
app.add_typer(log, name="log")
app.command("view")(view)
app.command("eval")(evaluate)
app.command()(results)
app.command()(compare)
app.command()(seeds)
app.command()(probe)


@app.command()
def parity(file: Annotated[Path, typer.Argument(help="JSON with meta, cases, rl_coef_schedule.")]) -> None:
    """Hold our rows, advantages and losses against numbers of the released code; exit 1 if any differs."""
    from rltf_verl.parity import run_parity
    from rltf_verl.report.console import show_parity

    try:
        report = run_parity(file)
    except OSError as error:
        _fail(f"{file}: {error.strerror or error}", 2)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        _fail(f"{file} is not a parity file: {type(error).__name__}: {error}", 2)
    if report.num_compared == 0:
        _fail(f"{file}: holds nothing to compare", 2)
    show_parity(report)
    raise typer.Exit(int(bool(report.differences)))


@app.command()
def doctor(
    overrides: Annotated[list[str] | None, typer.Argument(help="Hydra overrides, e.g. rltf/hardware=cpu.")] = None,
    config_name: Annotated[str, typer.Option(help="Config to check.")] = "rltf_sd",
    as_json: Annotated[bool, typer.Option("--json", help="A list of checks on stdout instead of a table.")] = False,
) -> None:
    """Check the installation, here and in a Ray worker, and say how to mend it; exit 1 if something is off.

    The worker is one of the cluster that RAY_ADDRESS names, else of a Ray that is started for this on one CPU.
    """
    from rltf_verl.adapters.doctor import examine
    from rltf_verl.report.console import show_checks

    checks = [asdict(check) for check in examine(config_name, overrides or [])]
    if as_json:
        typer.echo(json.dumps(checks, indent=1, ensure_ascii=False))
    else:
        show_checks(checks)
    raise typer.Exit(int(any(check["status"] == "failed" for check in checks)))


@app.command()
def presets(
    as_markdown: Annotated[bool, typer.Option("--markdown", help="As docs/methods.md holds it.")] = False,
) -> None:
    """List the presets for --config-name, with the objectives that each of them mixes."""
    from rltf_verl.adapters.presets import load_presets, markdown, preset_table
    from rltf_verl.report.console import show_table

    table = preset_table(load_presets())
    if as_markdown:
        typer.echo(markdown(table))
    else:
        show_table(table)


@judge.command("audit")
def judge_audit(
    folder: Annotated[Path, typer.Argument(metavar="LOG", help="Episode log, rltf.episode_log.dir of the run.")],
    step: Annotated[int | None, typer.Option(help="Training step; all steps if not given.")] = None,
) -> None:
    """Per provider: leaks, length, empty talk, and how often the next attempt changed and got better."""
    from rltf_verl.report.audit import audit, audit_table
    from rltf_verl.report.console import show_table

    show_table(audit_table(audit(episodes_of(folder, step))))


@app.command()
def inspect(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Episode log, rltf.episode_log.dir of the run.")],
    step: Annotated[int | None, typer.Option(help="Training step; all steps if not given.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Sessions to print.")] = 3,
) -> None:
    """Print what was said in the sessions of a run."""
    from rltf_verl.report.console import show_episode

    found = episodes_of(folder, step)
    for record in found[:limit]:
        show_episode(record)
    typer.echo(f"{min(limit, len(found))} of {len(found)} sessions")


def episodes_of(folder: Path, step: int | None) -> list[dict[str, Any]]:
    """Sessions of an episode log."""
    from rltf_verl.report.episode_log import read_episodes

    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder; the run's config names it as rltf.episode_log.dir")
    found = [record for record in read_episodes(folder) if step is None or record["step"] == step]
    if not found:
        raise ValueError(f"{folder}: no sessions{'' if step is None else f' of step {step}'} in it")
    return found


@judge.command("try")
def judge_try(
    options: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="rltf.feedback.<key>, or env.<key>.")],
    env: Annotated[str, typer.Option(help="Environment of the problems.")] = "binary_matrix",
    log: Annotated[
        Path | None, typer.Option(help="Episode log with real attempts, instead of made-up wrong ones.")
    ] = None,
    num: Annotated[int, typer.Option(min=1, help="Problems.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the problems.")] = 0,
) -> None:
    """Ask a judge about a few wrong attempts: prompt, raw reply, feedback, time and cost; exit 1 if one fails.

    E.g. rltf judge try style=hint endpoint.base_url=http://127.0.0.1:8000/v1 endpoint.model=Qwen/Qwen3-8B
    """
    import asyncio

    from rltf_verl.feedback.judge_trial import try_judge
    from rltf_verl.report.judge import show_trials

    provider, requests = _judge_and_requests(options, env, log, num, seed)
    trials = [asdict(trial) for trial in asyncio.run(try_judge(provider, requests))]
    show_trials(trials)
    raise typer.Exit(int(any(trial["error"] for trial in trials)))


@judge.command("bench")
def judge_bench(
    options: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="rltf.feedback.<key>, or env.<key>.")],
    env: Annotated[str, typer.Option(help="Environment of the problems.")] = "binary_matrix",
    num: Annotated[int, typer.Option(min=1, help="Calls, all at once.")] = 256,
    seed: Annotated[int, typer.Option(help="Seed of the problems.")] = 0,
) -> None:
    """Measure the throughput of an endpoint under limits.max_concurrency and the other limits."""
    import asyncio

    from rltf_verl.feedback.judge_trial import bench_judge
    from rltf_verl.report.judge import show_bench

    provider, requests = _judge_and_requests(options, env, None, min(num, 32), seed)
    show_bench(asyncio.run(bench_judge(provider, requests, num)))


def _judge_and_requests(options: list[str], env: str, log: Path | None, num: int, seed: int) -> tuple[Any, Any]:
    from rltf_verl.envs import make_env
    from rltf_verl.feedback import make_provider
    from rltf_verl.feedback.judge_trial import request_about, wrong_attempts
    from rltf_verl.report.episode_log import read_wrong_attempts

    told = nested(parse_options(options))
    environment = make_env(env, **told.pop("env", {}))
    provider = make_provider("judge", **told)
    if log is None:
        return provider, wrong_attempts(environment, seed, num)
    attempts = read_wrong_attempts(log, num)
    for problem, *_ in attempts:
        if problem.env != env:
            raise ValueError(f"--env {env}: the log holds problems of {problem.env}; add --env {problem.env}")
    return provider, [request_about(environment, *attempt) for attempt in attempts]


def nested(options: dict[str, Any]) -> dict[str, Any]:
    """`{"a.b": 1}` -> `{"a": {"b": 1}}`."""
    blocks: dict[str, Any] = {}
    for key, value in options.items():
        *path, last = key.split(".")
        block = blocks
        for part in path:
            block = block.setdefault(part, {})
        block[last] = value
    return blocks


def _fail(message: str, code: int) -> NoReturn:
    typer.secho(f"rltf: {' '.join(message.split())}", fg=typer.colors.RED, err=True)
    raise typer.Exit(code)


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
