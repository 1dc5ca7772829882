"""Three held-out conversations: what was recorded, and the policy's first answer before and after.

    python recipes/corrections/picture.py RUN docs/pictures/corrections.png

RUN is a run's folder (`runs/…` in the folder of runs.py). Two
conversations whose answers are right, and one whose answer is still wrong, where there is one.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

from rltf_verl.runlog.episodes import read_episodes

NUM = 3
WIDTH = 40
"""Characters of a line."""
RIGHT, WRONG, GREY, LINE = "#1A7F37", "#B42318", "#57606A", 0.052
USER, ASSISTANT = "#DDF4FF", "#F0F1F3"
Bubble = tuple[str, str, str, str]
"""Who speaks, what, the bubble's colour, the text's colour."""
Pair = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Episodes of a question before and after the training."""


def pairs_of(run: Path) -> list[Pair]:
    """Each held-out question.

    Raises:
        ValueError: the run has fewer than two validations.
    """
    folder = run / "checkpoints" / "episodes"
    held = [one for one in read_episodes(folder) if one["split"] == "val"]
    steps = sorted({one["step"] for one in held})
    if len(steps) < 2:
        raise ValueError(f"{folder}: holds no validation before and after training")
    before = {one["index"]: one for one in held if one["step"] == steps[0]}
    after = (one for one in held if one["step"] == steps[-1])
    return [(before[one["index"]], one) for one in after if one["index"] in before]


def chosen(pairs: Sequence[Pair]) -> list[Pair]:
    """Two that are right after the training, with other wordings of the question, and one that is
    still wrong.
    """
    right = {
        after["question"].split()[0]: (before, after) for before, after in pairs if _right(after)
    }
    wrong = [pair for pair in pairs if not _right(pair[1])]
    first, second, third, *_ = right.values()
    return [first, second, next(iter(wrong), third)]


def _right(episode: Mapping[str, Any]) -> bool:
    return bool(episode["turns"][0]["grade"]["correct"])


def bubbles(pair: Pair) -> list[Bubble]:
    """What was recorded, then two answers of the policy to the question alone."""
    before, after = pair
    task = after["task"]
    recorded = [
        ("user", task["question"], USER, "black"),
        ("assistant, recorded", task["attempt"], ASSISTANT, "black"),
        ("user", task["correction"], USER, "black"),
    ]
    answers = [
        (f"policy, {when} training", one["turns"][0]["text"].strip(), ASSISTANT, _colour(one))
        for when, one in (("before", before), ("after", after))
    ]
    return [*recorded, *answers]


def _colour(episode: Mapping[str, Any]) -> str:
    return RIGHT if _right(episode) else WRONG


def draw(pairs: Sequence[Pair], out: Path) -> None:
    """Write the picture."""
    figure, columns = plt.subplots(1, NUM, figsize=(11, 4.6), dpi=150)
    for axes, pair in zip(columns, pairs, strict=False):
        _write(axes, bubbles(pair))
    figure.suptitle("Held out: no training has this correction, and the policy never reads it")
    figure.tight_layout()
    figure.savefig(out)
    plt.close(figure)


def _write(axes: Any, conversation: Sequence[Bubble]) -> None:
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")
    y = 1.0
    for who, text, fill, colour in conversation:
        mark = {RIGHT: "  \u2713", WRONG: "  \u2717"}.get(colour, "")
        lines = textwrap.wrap(text + mark, WIDTH) or [mark]
        left = 0.02 if who != "user" else 0.1
        axes.text(left, y, who, size=7, color=GREY, va="top")
        axes.text(
            left,
            y - LINE,
            "\n".join(lines).replace("$", r"\$"),
            size=8.5,
            va="top",
            color=colour,
            weight="bold" if mark else "normal",
            bbox={"boxstyle": "round,pad=0.35", "facecolor": fill, "edgecolor": "none"},
        )
        y -= LINE * (len(lines) + 2.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    draw(chosen(pairs_of(args.run)), args.out)


if __name__ == "__main__":
    main()
