"""How much each level of feedback speaks of the attempt that it is about, on a run's first answers.

    python recipes/pretrained/aims.py RUN/checkpoints/episodes --house 20

Every wrong first answer of the log is explained anew at each level, and measured against a
sibling's answer, since any two texts on one question share words (critiques aligned to the attempt:
arXiv 2606.11173).
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from house_style import HouseStyle

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.runlog.turns import Record, answer, group_of, wrong

LEVELS = ("location", "hint", "full")
_WORD = re.compile(r"\w+")


class FeedbackOverlap(NamedTuple):
    """Overlap of one feedback text with attempts, without the question's words."""

    own: float
    """Share of its words and pairs of words that its attempt has."""
    sibling: float
    """The same for a sibling's wrong attempt: the control."""


def aims_of(records: Iterable[Record]) -> list[FeedbackOverlap]:
    """As `aims`, of all groups."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        if record["turns"]:
            groups[group_of(record)].append(record)
    return [aim for group in groups.values() for aim in aims(group)]


def aims(group: Sequence[Record]) -> list[FeedbackOverlap]:
    """Of the feedback on each wrong first answer of a group that has a sibling with another one.

    Args:
        group: episodes at one problem in one step.
    """
    firsts = [record["turns"][0] for record in group]
    wrongs = [turn for turn in firsts if wrong(turn)]
    # what the question says is in every attempt, and aims at none
    question = _units(group[0]["question"]) if group else frozenset()
    measured = []
    for turn in wrongs:
        # the first one will do: the control needs any attempt but this one
        sibling = next((other for other in wrongs if answer(other) != answer(turn)), None)
        said = _units(turn["feedback"]["text"]) - question if turn["feedback"] else None
        if sibling is not None and said:
            own, other = (len(said & _units(t["text"])) / len(said) for t in (turn, sibling))
            measured.append(FeedbackOverlap(own, other))
    return measured


def _units(text: str) -> frozenset[str]:
    """Its words and pairs of words, in lower case."""
    words = _WORD.findall(text.lower())
    return frozenset([*words, *(f"{first} {second}" for first, second in pairwise(words))])


def main() -> None:
    """Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("episodes", type=Path)
    parser.add_argument("--family", default="date")
    parser.add_argument("--house", type=int, default=0)
    parser.add_argument("--num-train", type=int, default=512, help="as the data was built")
    args = parser.parse_args()
    env = HouseStyle(family=args.family)
    problems = {p.index: p for p in env.build(args.house, args.num_train, 0).train}
    records = [record for record in read_episodes(args.episodes) if record["split"] == "train"]
    print("| level | answers | of its own answer | of a sibling's |\n|---|---:|---:|---:|")
    for level in LEVELS:
        for record in records:
            problem, turn = problems[record["index"]], record["turns"][0]
            assert problem.reference == record["reference"], "another house's run"
            grade = env.grade(problem, turn["text"])
            turn["feedback"] = {"text": env.explain(problem, turn["text"], grade, level)}
        aims = aims_of(records)
        own, sibling = (fmean(getattr(aim, name) for aim in aims) for name in ("own", "sibling"))
        print(f"| `{level}` | {len(aims)} | {own:.3f} | {sibling:.3f} |")


if __name__ == "__main__":
    main()
