"""What a judge said, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from rltf_verl.texts import printable
from rltf_verl.tools.report.terminal.console import show_table


def show_trials(trials: Sequence[Mapping[str, Any]], console: Console | None = None) -> None:
    """Each trial in full: prompt, raw reply, feedback, verdict, seconds, tokens, cost."""
    out = console or Console()
    for trial in trials:
        out.rule(Text(f"problem {trial['index']}"))
        for part, style in (("prompt", "dim"), ("raw", ""), ("feedback", "cyan"), ("error", "red")):
            if trial[part]:
                out.print(Text(f"— {part} —", "bold"))
                out.print(Text(printable(trial[part]), style), soft_wrap=True)
        leak = f"GIVES THE ANSWER AWAY ({trial['leak']})" if trial["leak"] else "no leak found"
        leak = "no feedback" if trial["error"] else leak
        noted = f", noted: {', '.join(trial['noted'])}" if trial["noted"] else ""
        prompt_tokens, reply_tokens = trial["tokens"]
        spent = (
            f"{trial['seconds']:.2f} s · {prompt_tokens} + {reply_tokens} tokens · cost"
            f" {trial['cost']:.6f}"
        )
        style = "red" if trial["leak"] or trial["error"] else "green"
        out.print(Text(f"{leak}{noted} · {spent}", style), soft_wrap=True)


def show_bench(metrics: Mapping[str, float], console: Console | None = None) -> None:
    """The numbers of a benchmark, as a table."""
    show_table(
        [("metric", "value"), *((name, f"{value:.4g}") for name, value in metrics.items())], console
    )
