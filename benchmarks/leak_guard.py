"""Precision and recall of the leak guard: `python benchmarks/leak_guard.py [--show] [--seed 0]`.

Runs the guard's rules over the labelled feedback texts of `leak_texts/`, for every wording of every environment that
there are texts for. `--show` prints what it gets wrong, except of
held-out wordings: who reads these, mends the rules by them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # also when started by its path

from benchmarks.leak_texts.common import KINDS, LEAKS, Labelled
from benchmarks.leak_texts.sets import all_sets
from rltf_verl.envs.base import Env
from rltf_verl.feedback.guard import find_leaks

HEADER = ("environment", "texts", *LEAKS, "precision", "false positives", "ms/text")


@dataclass(frozen=True)
class Scores:
    """What the guard said of one set of texts."""

    flagged: dict[str, int]
    num: dict[str, int]
    ms_per_text: float
    wrong: list[Labelled]

    def share(self, kind: str) -> float:
        """Of the texts of a kind: how many were called a leak. For `innocent` the false-positive rate, else recall."""
        return self.flagged[kind] / self.num[kind]

    @property
    def precision(self) -> float:
        """Of the texts that were called a leak: how many are one."""
        return 1 - self.flagged["innocent"] / max(1, sum(self.flagged.values()))


def measure(env: Env, texts: Sequence[Labelled]) -> Scores:
    """Run the guard over labelled texts."""
    start = time.perf_counter()
    verdicts = [bool(find_leaks(env, item.problem, item.text, item.attempt)) for item in texts]
    seconds = time.perf_counter() - start
    judged = list(zip(texts, verdicts, strict=True))
    return Scores(
        flagged={kind: sum(leak for item, leak in judged if item.kind == kind) for kind in KINDS},
        num={kind: sum(item.kind == kind for item in texts) for kind in KINDS},
        ms_per_text=1000 * seconds / len(texts),
        wrong=[item for item, leak in judged if leak != (item.kind != "innocent")],
    )


def table_line(name: str, scores: Scores) -> list[str]:
    """One line of the table in docs/feedback_guard.md."""
    recalls = [f"{scores.share(kind):.3f}" if scores.num[kind] else "" for kind in LEAKS]
    num = sum(scores.num.values())
    rate = f"{scores.share('innocent'):.3f} of {scores.num['innocent']}"
    return [name, str(num), *recalls, f"{scores.precision:.3f}", rate, f"{scores.ms_per_text:.2f}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="print every text that is judged wrongly, unless held out")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes another set")
    parser.add_argument("--only", default="", help="only sets whose name begins so")
    args = parser.parse_args()
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER))
    for texts in all_sets():
        if not texts.name.startswith(args.only):
            continue
        scores = measure(texts.env, texts.texts(args.seed))
        print("| " + " | ".join(table_line(texts.name, scores)) + " |", flush=True)
        for item in scores.wrong if args.show and not texts.held_out else ():
            print(f"  {item.kind}: {item.text!r}\n    reference {item.problem.reference!r}", file=sys.stderr)


if __name__ == "__main__":
    main()
