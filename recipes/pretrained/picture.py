"""First answers by training step, and a conversation before and after.

    python recipes/pretrained/picture.py OUT.png grpo=RUN sd=RUN

RUN is a run's folder. The conversations are those of the run named sd, else of the first one.
"""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

from rltf_verl.runlog.episodes import read_episodes

NAMES = {
    "grpo": "GRPO",
    "grpo_single": "GRPO, one turn",
    "sd": "RLTF-SD",
    "sd_fm": "RLTF-SD + FM",
    "fm": "RLTF-FM",
    "sft": "SFT on right answers",
}
COLORS = {
    "grpo": "#D55E00",
    "grpo_single": "#E69F00",
    "sd": "#0072B2",
    "sd_fm": "#56B4E9",
    "fm": "#CC79A7",
    "sft": "#009E73",
}  # Okabe and Ito: told apart by the colour-blind
HELD_OUT = re.compile(r"val-core/.*/acc/mean@1")
SECOND = re.compile(r"rltf/turn_2/standing")
RIGHT, WRONG = "#1A7F37", "#B42318"
Line = tuple[str, str, str]
"""Who speaks, what, and its colour."""


def held_out(run: Path) -> list[tuple[int, float]]:
    """(step, share of first answers that are right) of each validation.

    Raises:
        ValueError: the run has no validation.
    """
    points = _series(run, HELD_OUT)
    if not points:
        raise ValueError(f"{run}/metrics.jsonl: holds no validation")
    return points


def _series(run: Path, name: re.Pattern[str]) -> list[tuple[int, float]]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [
        (record["step"], value)
        for record in records
        for key, value in record["data"].items()
        if name.fullmatch(key)
    ]


def conversations(run: Path) -> dict[str, list[Line]]:
    """An episode of the first steps that the feedback fixed, and a held-out question that is
    answered right at the end, with its first answer before training.
    """
    episodes = read_episodes(run / "checkpoints" / "episodes")
    found: dict[str, list[Line]] = {}
    fixed = next((e for e in episodes if e["split"] == "train" and _is_fixed(e["turns"])), None)
    if fixed is not None:
        told = [*_answer(fixed["turns"][0]), *_answer(fixed["turns"][1])]
        found[f"Training, step {fixed['step']}"] = [("question", fixed["question"], "black"), *told]
    held = [e for e in episodes if e["split"] == "val"]
    first, last = (pick(e["step"] for e in held) for pick in (min, max))
    before = {e["question"]: e for e in held if e["step"] == first}
    for after in held:
        question = after["question"]
        if after["step"] == last > first and after["turns"][0]["grade"]["correct"]:
            lines = [("question", question, "black")]
            for episode in (before[question], after):
                lines += _answer(episode["turns"][0], f"step {episode['step']}")[:1]
            found["Held out, without feedback"] = lines
            break
    return found


def _is_fixed(turns: Sequence[Mapping[str, Any]]) -> bool:
    return [turn["grade"]["correct"] for turn in turns] == [False, True]


def _answer(turn: Mapping[str, Any], who: str = "answer") -> list[Line]:
    right = turn["grade"]["correct"]
    said = [(who, turn["text"].strip(), RIGHT if right else WRONG)]
    if turn.get("feedback") and not right:
        said.append(("feedback", turn["feedback"]["text"], "black"))
    return said


def draw(runs: Mapping[str, Path], out: Path) -> None:
    """Write the picture."""
    figure, (curves, words) = plt.subplots(1, 2, figsize=(10, 4.2), dpi=150, width_ratios=(1.15, 1))
    for name, folder in runs.items():
        color, label = COLORS.get(name), NAMES.get(name, name)
        if second := _series(folder, SECOND):
            curves.plot(*zip(*second, strict=True), color=color, ls=":", lw=1)
        points = zip(*held_out(folder), strict=True)
        curves.plot(*points, color=color, marker="o", label=label)
    curves.set(
        xlabel="training step (32 episodes each)",
        ylabel="first answers right, held out",
        ylim=(-0.03, 1.03),
        title="SmolLM2-135M learns how a house writes dates",
    )
    curves.xaxis.get_major_locator().set_params(integer=True)
    curves.grid(alpha=0.3)
    curves.plot([], [], color="grey", ls=":", lw=1, label="after feedback, in training")
    curves.legend(frameon=False, loc="center right")
    _write(words, conversations(runs.get("sd", next(iter(runs.values())))))
    figure.tight_layout()
    figure.savefig(out)
    plt.close(figure)


def _write(axes: Any, found: Mapping[str, Sequence[Line]]) -> None:
    axes.axis("off")
    y = 1.0
    for title, lines in found.items():
        axes.text(0, y, title, weight="bold", size=10, va="top")
        y -= 0.075
        for who, text, color in lines:
            mark = {RIGHT: "  \u2713", WRONG: "  \u2717"}.get(color, "")
            wrapped = textwrap.wrap(text + mark, 52) or [mark]
            axes.text(0.0, y, who, size=8, color="grey", va="top")
            shown = "\n".join(wrapped).replace("$", r"\$")
            weight = "bold" if mark else "normal"
            axes.text(0.17, y, shown, size=8.5, color=color, va="top", weight=weight)
            y -= 0.055 * len(wrapped) + 0.02
        y -= 0.06


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    args = parser.parse_args()
    runs: dict[str, Path] = {}
    for word in args.runs:
        name, equals, folder = word.partition("=")
        if not equals:
            parser.error(f"{word}: is written NAME=RUN")
        runs[name] = Path(folder)
    draw(runs, args.out)


if __name__ == "__main__":
    main()
