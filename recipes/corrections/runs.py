"""The runs of the table, resumable: three seeds, each with another company.

    python recipes/corrections/runs.py [--out outputs/corrections] [--hours 2]
    python recipes/corrections/runs.py --table     # writes the README's table

A finished run is a line of results.jsonl beside this file and is not made again; a second process
with the same folder takes the runs that the first one has not begun. The rate and the number of
steps are those of ../pretrained, chosen on other companies.
"""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from chats import Company
from english import corrects
from house_conventions import DATE
from house_style import read_entry
from training import COMMIT, Study, curve, make_runs, mean_and_each

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.tools.data.corrections import find_corrections

HERE = Path(__file__).resolve().parent
FIRST_HOUSE = 40
"""Seed 1 has the company after it."""
SEEDS = (1, 2, 3)
CONFIG = ("--config-dir", str(HERE / "config"), "--config-name", "corrections")
ARMS = {
    "corrections": (),
    "shuffled": ("--shuffled",),
    "no bad ones": ("--wrong=0", "--contradictory=0"),
}
"""Arm -> options of chats.py."""
KINDS = ("right", "wrong", "contradictory")
KEPT = ("corrections", "shuffled")
"""Arms whose last checkpoint of the first seed stays, for `rltf export`."""


Line = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One training run."""

    arm: str
    seed: int
    rate: float = 1e-4
    steps: int = 16

    @property
    def house(self) -> int:
        """Number of its company."""
        return FIRST_HOUSE + self.seed


def runs() -> Iterator[Run]:
    """Seeds are outermost: a study that is not whole has all arms."""
    for seed, arm in product(SEEDS, ARMS):
        yield Run(arm, seed)


def train(study: Study, run: Run, folder: Path) -> dict[str, Any]:
    """One run, and its line."""
    data = study.out / f"data_{folder.name}"
    model = study.model("date", "zero", run.house)
    study.call(
        [str(HERE / "corrections.sh"), "prepare", *ARMS[run.arm]],
        HOUSE=str(run.house),
        DATA=str(data),
        OUT=str(study.out),
    )
    words = [
        f"rltf.env.name={HERE / 'house_corrections.py'}:HouseCorrections",
        *(f"rltf.seed={run.seed}", f"data.seed={run.seed}"),
        f"data.train_files={data / 'train.parquet'}",
        f"data.val_files={data / 'held_out/test.parquet'}",
        f"actor_rollout_ref.actor.optim.lr={run.rate}",
        f"trainer.total_training_steps={run.steps}",
    ]
    if run.seed == SEEDS[0] and run.arm in KEPT:
        words.append(f"trainer.save_freq={run.steps}")
    seconds = study.train_with(folder, model, words, CONFIG)
    return {
        **asdict(run),
        "seconds": seconds,
        "commit": COMMIT,
        "importer": importer(data / "chats.jsonl"),
        "curve": [
            {**point, "answers": answers(run.house, folder, point["step"])}
            for point in curve(folder)
        ],
    }


def importer(chats: Path) -> dict[str, dict[str, int]]:
    """Kind of a user turn that follows an answer -> how many, and how many were taken for
    corrections.
    """
    kinds = {
        f"line {number}, turn {k}": kind
        for number, line in enumerate(chats.open(), 1)
        for k, kind in enumerate(json.loads(line)["turns"], 1)
    }
    turns = [one for one in find_corrections(chats, rule=corrects) if one.where in kinds]
    counts = Counter(kinds[one.where] for one in turns)
    taken = Counter(kinds[one.where] for one in turns if one.episode)
    return {kind: {"all": counts[kind], "taken": taken[kind]} for kind in sorted(counts)}


def answers(house: int, folder: Path, step: int) -> dict[str, int]:
    """How a step's first answers to held-out questions are written: as the company does (`right`),
    as the wrong corrections say, or in another way.
    """
    rules = {"right": Company(house).rule, "wrong corrections": Company(house).wrong_rule}
    found: Counter[str] = Counter()
    for episode in read_episodes(folder / "checkpoints" / "episodes"):
        if episode["split"] == "val" and episode["step"] == step:
            item, said = episode["task"]["item"], read_entry(episode["turns"][0]["text"])
            written = {DATE.written(item, rule): way for way, rule in rules.items()}
            found[written.get(said or "", "another way")] += 1
    return dict(found)


def table(lines: Sequence[Line]) -> Iterator[str]:
    """Markdown; a cell has the mean, then each seed."""
    yield "| corrections | before | half way | at the end | as the wrong corrections say |"
    yield "|---|---|---|---|---:|"
    of = {arm: [line for line in lines if line["arm"] == arm] for arm in ARMS}
    yield f"| no training | {cell(of['corrections'], 0)} | | | {astray(of['corrections'], 0)} |"
    for arm, made in of.items():
        if made:
            half = len(made[0]["curve"]) // 2
            shares = " | ".join(cell(made, point) for point in (0, half, -1))
            yield f"| {arm} | {shares} | {astray(made, -1)} |"


def cell(lines: Sequence[Line], point: int) -> str:
    """First answers that need no correction."""
    return mean_and_each([line["curve"][point]["accuracy"] for line in lines])


def astray(lines: Sequence[Line], point: int) -> str:
    """Mean share of first answers as the wrong corrections say."""
    counts = [line["curve"][point]["answers"] for line in lines]
    shares = [count.get("wrong corrections", 0) / sum(count.values()) for count in counts]
    return f"{fmean(shares):.2f}"


def importer_line(lines: Sequence[Line]) -> str:
    """How the importer did on the conversations of the first arm."""
    files = [line["importer"] for line in lines if line["arm"] == next(iter(ARMS))]
    counts = {
        kind: [sum(one.get(kind, {}).get(key, 0) for one in files) for key in ("taken", "all")]
        for kind in ("right", "wrong", "contradictory", "question", "thanks")
    }
    found, given = (sum(counts[kind][k] for kind in KINDS) for k in (0, 1))
    taken = sum(number for number, _ in counts.values())
    each = ", ".join(f"{counts[kind][0]} of {counts[kind][1]} {kind}" for kind in KINDS)
    return (
        f"In {400 * len(files)} conversations the importer took {each} corrections (recall"
        f" {found / given:.2f}) and {taken - found} turns that correct nothing (precision"
        f" {found / taken:.2f})."
    )


def report(lines: Sequence[Line]) -> str:
    """The table, and a line below it."""
    if not lines:
        return "No run yet."
    return "\n".join([*table(lines), "", textwrap.fill(importer_line(lines), 140)])


if __name__ == "__main__":
    make_runs(HERE / "results.jsonl", HERE / "README.md", __doc__, runs(), train, report)
