"""Precision and recall of the leak guard:
`python benchmarks/leak_guard.py [--show] [--seed 0] [--folder DIR]`.

Runs the guard's rules over the labelled feedback texts of `leak_texts/`, for every wording of every
environment that there are texts for. `--show` prints what it gets wrong, except of held-out
wordings: who reads these, fixes the rules by them. `--folder DIR` measures texts from files
instead, in the form of `leak_texts/files.py`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # also when started by its path

from benchmarks.leak_texts.common import LEAKS, Labelled
from benchmarks.leak_texts.files import read_folder
from benchmarks.leak_texts.hard import hard_rows
from benchmarks.leak_texts.sets import all_sets
from rltf_verl.envs.base import Env
from rltf_verl.envs.code import Code
from rltf_verl.feedback.guard import find_leaks

HEADER = ("environment", "texts", *LEAKS, "precision", "false positives", "ms/text")
FOLDER_HEADER = ("environment", "recall", "false positives", "ms/text", "recall by category")


@dataclass(frozen=True)
class Scores:
    """What the guard said of one set of texts."""

    flagged: Counter[str]
    num: Counter[str]
    ms_per_text: float
    wrong: list[Labelled]

    def share(self, kind: str) -> float:
        """Of the texts of a kind: how many were called a leak. For `innocent` the false-positive
        rate, else recall.
        """
        return self.flagged[kind] / self.num[kind]

    @property
    def precision(self) -> float:
        """Of the texts that were called a leak: how many are one."""
        return 1 - self.flagged["innocent"] / max(1, self.flagged.total())


def measure(texts: Sequence[tuple[Env, Labelled]]) -> Scores:
    """Run the guard over labelled texts."""
    start = time.perf_counter()
    verdicts = [bool(find_leaks(env, item.problem, item.text, item.attempt)) for env, item in texts]
    seconds = time.perf_counter() - start
    judged = [(item, leak) for (_, item), leak in zip(texts, verdicts, strict=True)]
    return Scores(
        flagged=Counter(item.kind for item, leak in judged if leak),
        num=Counter(item.kind for item, _ in judged),
        ms_per_text=1000 * seconds / len(texts),
        wrong=[item for item, leak in judged if leak != (item.kind != "innocent")],
    )


def table_line(name: str, scores: Scores) -> list[str]:
    """One line of the table in docs/feedback_guard.md."""
    recalls = [f"{scores.share(kind):.3f}" if scores.num[kind] else "" for kind in LEAKS]
    rate = f"{scores.share('innocent'):.3f} of {scores.num['innocent']}"
    return [
        name,
        str(scores.num.total()),
        *recalls,
        f"{scores.precision:.3f}",
        rate,
        f"{scores.ms_per_text:.2f}",
    ]


def folder_line(name: str, scores: Scores) -> list[str]:
    """One line of the table of texts from files."""
    num, flagged = scores.num.copy(), scores.flagged.copy()
    rate = _share(flagged.pop("innocent", 0), num.pop("innocent", 0))
    kinds = ", ".join(f"{kind} {flagged[kind]}/{num[kind]}" for kind in sorted(num))
    return [name, _share(flagged.total(), num.total()), rate, f"{scores.ms_per_text:.2f}", kinds]


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} = {part / whole:.3f}" if whole else ""


def _measured(args: argparse.Namespace) -> Iterator[tuple[list[str], Sequence[Labelled]]]:
    """A line of the table, and the texts that were judged wrongly and may be shown."""
    if args.folder is None and not args.hard:
        for texts in all_sets():
            if texts.name.startswith(args.only):
                scores = measure([(texts.env, item) for item in texts.texts(args.seed)])
                yield table_line(texts.name, scores), [] if texts.held_out else scores.wrong
        return
    some = hard_rows(args.seed) if args.hard else read_folder(args.folder)
    rows = [row for row in some if row.env_name.startswith(args.only)]
    envs = {row.env_name: row.env for row in rows}
    broken = {name: why for name, env in envs.items() if (why := trouble(env))}
    for name, why in broken.items():
        print(f"left out: {name}: {why}", file=sys.stderr)
    rows = [row for row in rows if row.env_name not in broken]
    for name in (*dict.fromkeys(row.env_name for row in rows), "all"):
        scores = measure([(row.env, row.item) for row in rows if name in (row.env_name, "all")])
        yield folder_line(name, scores), [] if name == "all" else scores.wrong


def trouble(env: Env) -> str | None:
    """Why it cannot grade on this machine: `code` needs a sandbox."""
    return env.trouble() if isinstance(env, Code) else None


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--show",
        action="store_true",
        help="print every text that is judged wrongly, unless held out",
    )
    parser.add_argument("--seed", type=int, default=0, help="another seed makes another set")
    parser.add_argument("--only", default="", help="only environments whose name begins so")
    parser.add_argument("--folder", type=Path, help="texts from files")
    parser.add_argument(
        "--hard", action="store_true", help="the hard wordings of leak_texts/hard.py"
    )
    args = parser.parse_args()
    header = HEADER if args.folder is None and not args.hard else FOLDER_HEADER
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for line, wrong in _measured(args):
        print("| " + " | ".join(line) + " |", flush=True)
        for item in wrong if args.show else ():
            print(
                f"  {item.kind}: {item.text!r}\n    reference {item.problem.reference!r}",
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()
