"""The demo's table, picture and page, from verl's own metrics and the episode log."""

from __future__ import annotations

import base64
import html
from pathlib import Path
from typing import Any

import matplotlib as mpl
from rich.console import Console
from rich.table import Table

from rltf_verl.runlog.episodes import read_episodes

mpl.use("Agg")
from matplotlib import pyplot as plt

NAMES = {"grpo": "GRPO", "sd": "RLTF-SD"}
COLORS = {"grpo": "#D55E00", "sd": "#0072B2"}  # Okabe and Ito: told apart by the colour-blind
VAL = {
    1: "val-core/rltf/binary_matrix/acc/mean@1",
    2: "val-aux/rltf/binary_matrix/acc_turn_2/mean@1",
}

Metrics = dict[str, list[dict[str, Any]]]
Summary = dict[str, dict[str, float]]

PARAGRAPH = """\
What was just seen: both runs started from the same policy of 0.34 M parameters, which can apply
feedback but has never seen the task, and both played the same number of episodes: answer, be told
cell by cell what is wrong, answer again. GRPO rewards each turn against its siblings; all first
answers are wrong, so there is nothing to compare and the first turn learns nothing
({grpo_start:.0%} to {grpo_end:.0%}). RLTF-SD also trains the policy to give its second answer,
the one that had the feedback, to the first prompt, which has none: held-out first answers went
from {sd_start:.0%} to {sd_end:.0%}. That is more than copying the matrix, which is the right
answer to {copies:.0%} of these problems: on the others it went to {beyond:.0%}. This was the real
verl trainer, and no verl file was changed."""


def write_report(out: Path, summary: Summary, metrics: Metrics, console: Console) -> None:
    """Print the table and the paragraph; write report.png and report.html."""
    picture = out / "report.png"
    _plot(metrics, picture)
    episodes = read_episodes(out / "sd" / "checkpoints" / "episodes")
    text = _paragraph(summary, episodes)
    console.print(_table(summary))
    console.print(text, soft_wrap=False)
    page = out / "report.html"
    page.write_text(_page(summary, text, picture, _episode(episodes)), encoding="utf-8")
    console.print(
        f"[bold]Report:[/bold] {page}\n[bold]Picture:[/bold] {picture}\n"
        f"[bold]Numbers:[/bold] {out / 'summary.json'}"
    )


def _paragraph(summary: Summary, episodes: list[dict[str, Any]]) -> str:
    grpo, sd = summary["grpo"], summary["sd"]
    copies, beyond = _copying(episodes)
    return " ".join(PARAGRAPH.split()).format(
        grpo_start=grpo["acc_start"],
        grpo_end=grpo["acc_end"],
        sd_start=sd["acc_start"],
        sd_end=sd["acc_end"],
        copies=copies,
        beyond=beyond,
    )


def _copying(episodes: list[dict[str, Any]]) -> tuple[float, float]:
    """Share of held-out problems whose answer is the question itself; final first-turn accuracy on
    the others."""
    last = max(r["step"] for r in episodes if r["split"] == "val")
    held_out = [r for r in episodes if r["split"] == "val" and r["step"] == last]
    others = [r for r in held_out if r["question"] != r["reference"]]
    right = sum(r["turns"][0]["grade"]["correct"] for r in others)
    return 1 - len(others) / len(held_out), right / len(others)


def _cells(summary: Summary) -> list[list[str]]:
    return [
        [
            NAMES[m],
            f"{s['acc_start']:.2f}",
            f"{s['acc_end']:.2f}",
            f"{s['rollouts']:.0f}",
            f"{s['seconds']:.0f}",
        ]
        for m, s in summary.items()
    ]


HEADINGS = ["method", "first answer right, before", "after", "training episodes", "seconds"]


def _table(summary: Summary) -> Table:
    table = Table(title="First-turn accuracy on 100 held-out problems, without feedback")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for row in _cells(summary):
        table.add_row(*row)
    return table


def _plot(metrics: Metrics, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7.5, 4.2), dpi=150)
    for method, records in metrics.items():
        for turn, key in VAL.items():
            points = [(r["step"], r["data"][key]) for r in records if key in r["data"]]
            style = (
                {"ls": "-", "marker": "o"}
                if turn == 1
                else {"ls": ":", "marker": ".", "alpha": 0.7}
            )
            answer = "first answer (no" if turn == 1 else "second answer (after"
            label = f"{NAMES[method]}, {answer} feedback)"
            axes.plot(*zip(*points, strict=True), color=COLORS[method], label=label, **style)
    axes.set(xlabel="training step", ylabel="accuracy on held-out problems", ylim=(-0.03, 1.03))
    axes.set_title("Text feedback moved into the first answer: 3x3 binary matrix")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8, loc="center left")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def _episode(episodes: list[dict[str, Any]]) -> str:
    """One episode in which the feedback fixed the answer, as preformatted text."""
    for record in episodes:
        turns = record["turns"]
        if (
            record["split"] == "train"
            and len(turns) == 2
            and turns[1]["grade"]["correct"]
            and not turns[0]["grade"]["correct"]
        ):
            return (
                f"first answer   {turns[0]['text']!r}\n"
                f"feedback       {turns[0]['feedback']['text']}\n"
                f"second answer  {turns[1]['text']!r}\n"
                f"right answer   {record['reference']!r}"
            )
    return "(no episode was fixed by its feedback)"


def _page(summary: Summary, text: str, picture: Path, episode: str) -> str:
    image = base64.b64encode(picture.read_bytes()).decode()
    head = "".join(f"<th>{html.escape(h)}</th>" for h in HEADINGS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>"
        for row in _cells(summary)
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>RLTF-SD against GRPO</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.55 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto;
  padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; margin: 1rem 0; }}
th, td {{ padding: .4rem .6rem; text-align: right; border-bottom: 1px solid #8885; }}
th:first-child, td:first-child {{ text-align: left; }}
img {{ max-width: 100%; background: #fff; border-radius: 6px; }}
pre {{ overflow-x: auto; padding: .8rem; background: #8882; border-radius: 6px; }}
</style></head><body>
<h1>RLTF-SD against GRPO</h1>
<p>{html.escape(text)}</p>
<table><caption>First-turn accuracy on 100 held-out problems, without feedback</caption>
<tr>{head}</tr>{rows}</table>
<img alt="Held-out accuracy of first and second answers over training, for GRPO and RLTF-SD"
  src="data:image/png;base64,{image}">
<h2>An episode of the first step</h2>
<p>The feedback marks every cell: <code>=0</code> is right,
<code>&lt;2</code> is too small and should be 2,
<code>&gt;1</code> is too large and should be 1.</p>
<pre>{html.escape(episode)}</pre>
</body></html>
"""
