"""Does what feedback brings before training tell what training brings?

    python recipes/pretrained/law.py [--out outputs/study_lm] [--hours 2]

The same method (SD, right second answers) with feedback that helps more or less often, on policies
that a longer and a shorter warm-up has taught to follow it, in two families and houses. Each run is
a line of law.jsonl beside this file and is not made again. Δ is the share of wrong answers that
feedback rights in the first step. Prints what the runs with a Δ of at least ENOUGH gained, how far
off their mean is for runs that it leaves out, and what the others gained; study_report.py writes
the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import sqrt
from pathlib import Path
from statistics import mean
from typing import Any

from training import COMMIT, HERE, MOST_ROUNDS, Study, curve, first_step, lines_of, pivot

from rltf_verl.jsonl import append_lines

RESULTS = HERE / "law.jsonl"
Line = Mapping[str, Any]
ENOUGH = 0.3
"""Chosen on house 11."""
HOUSES = (11, 12)
WARM_UPS = (MOST_ROUNDS, 1)
"""Rounds of 80 supervised steps."""
LEVELS = {
    "location": ("rltf.feedback.level=location",),
    **{
        f"hint to {share:.0%}": (
            "rltf/feedback=own",
            f"rltf.feedback.provider={HERE / 'seldom.py'}:Seldom",
            f"+rltf.feedback.share={share}",
        )
        for share in (0.1, 0.3)
    },
    "hint": ("rltf.feedback.level=hint",),
    "full": ("rltf.feedback.level=full",),
}
"""Feedback -> overrides of the recipe's config."""
WORDS = (
    "trainer.total_training_steps=16",
    "rltf/method=sd",
    "rltf.distill.weight=1.0",
    "rltf.distill.baseline=rejection",
    "actor_rollout_ref.actor.optim.lr=1e-4",
    "actor_rollout_ref.actor.optim.lr_scheduler_type=constant",
    *("rltf.feedback.guard.action=none", "rltf.feedback.acknowledge_leaks=true"),  # `full` tells
)


@dataclass(frozen=True)
class Setting:
    """One run."""

    family: str
    rounds: int
    level: str
    house: int
    seed: int = 1


def settings() -> Iterator[Setting]:
    """Both warm-ups in one house, the longer one in another; `full` tells answers, and is there for
    the dates of one house only.
    """
    levels = [level for level in LEVELS if level != "full"]
    for rounds in WARM_UPS:
        yield Setting("date", rounds, "full", HOUSES[0])
    for house, family, rounds, level in product(HOUSES, ("date", "entries"), WARM_UPS, levels):
        if house == HOUSES[0] or rounds == max(WARM_UPS):
            yield Setting(family, rounds, level, house)


def train(study: Study, setting: Setting, folder: Path) -> dict[str, Any]:
    """One run, and its line of law.jsonl."""
    words = (*LEVELS[setting.level], *WORDS)
    model = study.policy(setting.family, setting.rounds)
    seconds = study.play(folder, model, setting.family, setting.house, setting.seed, words)
    before, after = first_step(folder)
    return {
        **asdict(setting),
        "seconds": seconds,
        "commit": COMMIT,
        "before": before,
        "after": after,
        "curve": [point["accuracy"] for point in curve(folder)],
    }


def left_out(lines: Sequence[Line], key: str) -> float:
    """Root mean square difference of gains from the mean of the lines with another value of the
    key.
    """
    errors = [
        gain(line) - mean(gain(other) for other in lines if other[key] != line[key])
        for line in lines
    ]
    return sqrt(mean(error**2 for error in errors))


def delta(line: Line) -> float:
    """Share of wrong first answers that feedback rights in the first step."""
    return float((line["after"] - line["before"]) / (1 - line["before"]))


def gain(line: Line) -> float:
    """Share of the wrong first answers on held-out problems that training rights."""
    first, *_, last = line["curve"]
    return float((last - first) / (1 - first))


def table(lines: Sequence[Line]) -> Iterator[str]:
    """A row for each feedback, in its cells Δ and gain of a run."""
    cells = {}
    for level, line in product(LEVELS, lines):
        if line["level"] == level:
            column = f"{line['family']}, house {line['house']}, {80 * line['rounds']} steps"
            cells[level, column] = [f"{delta(line):.2f}", f"{gain(line):.2f}"]
    return pivot("feedback: Δ, gain", cells)


def report(lines: Sequence[Line]) -> None:
    """Sentences for the page."""
    at_least = [line for line in lines if delta(line) >= ENOUGH]
    gains = [gain(line) for line in at_least]
    print(
        f"\nΔ of at least {ENOUGH}: gain {mean(gains):.2f}, {span(gains)}; root mean square error"
    )
    for key in ("family", "rounds", "level", "house"):
        print(f"* with the same {key} left out of the mean: {left_out(at_least, key):.2f}")
    for name, gains in (
        ("Δ below that", [gain(line) for line in lines if 0 < delta(line) < ENOUGH]),
        ("no Δ", [gain(line) for line in lines if delta(line) == 0]),
    ):
        print(f"\n{name}: {span(gains)}")


def span(gains: Sequence[float]) -> str:
    """The smallest and the largest."""
    return f"{min(gains):.2f} to {max(gains):.2f} in {len(gains)} runs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("outputs/study_lm"))
    parser.add_argument("--hours", type=float, default=1000.0, help="start no run after so long")
    args = parser.parse_args()
    study = Study(args.out)
    for setting, folder in study.missing(settings(), RESULTS, args.hours):
        line = train(study, setting, folder)
        append_lines(RESULTS, [line])
        print(f"{setting}: Δ {delta(line):.2f}, gain {gain(line):.2f}", flush=True)
    report(lines_of(RESULTS))


if __name__ == "__main__":
    main()
