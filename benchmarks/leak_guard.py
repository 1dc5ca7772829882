"""Precision and recall of the leak guard: `python benchmarks/leak_guard.py [--show] [--seed 0]`.

Runs the guard's rules over the labelled feedback texts of `leak_texts.py`, for every wording of every environment that
there are texts for. `--show` prints what it gets wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # also when started by its path

from benchmarks.leak_texts import LEAKS, Labelled, labelled_texts
from rltf_verl.envs.binary_matrix import BinaryMatrix
from rltf_verl.feedback.guard import find_leaks

STYLES = ("official", "compact")
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


def measure(env: BinaryMatrix, texts: Sequence[Labelled]) -> Scores:
    """Run the guard over labelled texts."""
    start = time.perf_counter()
    verdicts = [bool(find_leaks(env, item.problem, item.text, item.attempt)) for item in texts]
    seconds = time.perf_counter() - start
    kinds = (*LEAKS, "innocent")
    judged = list(zip(texts, verdicts, strict=True))
    return Scores(
        flagged={kind: sum(leak for item, leak in judged if item.kind == kind) for kind in kinds},
        num={kind: sum(item.kind == kind for item in texts) for kind in kinds},
        ms_per_text=1000 * seconds / len(texts),
        wrong=[item for item, leak in judged if leak != (item.kind != "innocent")],
    )


def table_line(name: str, scores: Scores) -> list[str]:
    """One line of the table in docs/feedback_guard.md."""
    recalls = [f"{scores.share(kind):.3f}" for kind in LEAKS]
    num = sum(scores.num.values())
    rate = f"{scores.share('innocent'):.3f} of {scores.num['innocent']}"
    return [name, str(num), *recalls, f"{scores.precision:.3f}", rate, f"{scores.ms_per_text:.2f}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="print every text that is judged wrongly")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes another set")
    args = parser.parse_args()
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER))
    for style in STYLES:
        scores = measure(BinaryMatrix(style=style), list(labelled_texts(style, args.seed)))
        print("| " + " | ".join(table_line(f"binary_matrix, {style}", scores)) + " |")
        for item in scores.wrong if args.show else ():
            print(f"  {item.kind}: {item.text!r}\n    solution {item.problem.data['solution']}", file=sys.stderr)


if __name__ == "__main__":
    main()
