"""Recall and false positives of the leak guard's rules:
`python benchmarks/leak_guard.py [--show] [--only ENV] [--folder DIR]`.

Reads labelled feedback texts of an author who had not seen the rules (`leak_texts/unseen`), or of
DIR, in the form of `leak_texts/files.py`. `--show` prints what the rules get wrong: who fixes rules
by these texts needs other texts to measure them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # also when started by its path

from benchmarks.leak_texts.files import Row, read_folder
from rltf_verl.envs.base import Env
from rltf_verl.feedback.guard.find import find_leaks

UNSEEN = Path(__file__).parent / "leak_texts" / "unseen"
HEADER = ("environment", "recall", "false positives", "ms/text", "recall by category")


@dataclass(frozen=True)
class Scores:
    """What the guard decided about one set of texts, by kind."""

    flagged: Counter[str]
    num: Counter[str]
    ms_per_text: float
    wrong: list[Row]


def measure(rows: Sequence[Row]) -> Scores:
    """Run the guard over labelled texts."""
    start = time.perf_counter()
    verdicts = [bool(find_leaks(row.env, row.problem, row.text, row.attempt)) for row in rows]
    seconds = time.perf_counter() - start
    judged = list(zip(rows, verdicts, strict=True))
    return Scores(
        flagged=Counter(row.kind for row, leak in judged if leak),
        num=Counter(row.kind for row in rows),
        ms_per_text=1000 * seconds / len(rows),
        wrong=[row for row, leak in judged if leak != (row.kind != "innocent")],
    )


def table_line(name: str, scores: Scores) -> list[str]:
    """One line of the table."""
    num, flagged = scores.num.copy(), scores.flagged.copy()
    rate = _share(flagged.pop("innocent", 0), num.pop("innocent", 0))
    kinds = ", ".join(f"{kind} {flagged[kind]}/{num[kind]}" for kind in sorted(num))
    return [name, _share(flagged.total(), num.total()), rate, f"{scores.ms_per_text:.2f}", kinds]


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} = {part / whole:.3f}" if whole else ""


def trouble(env: Env) -> str | None:
    """Why it cannot grade on this machine: `code` needs a sandbox."""
    return env.trouble()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="print every text judged wrongly")
    parser.add_argument("--only", default="", help="only environments whose name begins so")
    parser.add_argument("--folder", type=Path, default=UNSEEN, help="other texts")
    args = parser.parse_args()
    rows = [row for row in read_folder(args.folder) if row.env_name.startswith(args.only)]
    for name, env in {row.env_name: row.env for row in rows}.items():
        if cause := trouble(env):
            print(f"left out: {name}: {cause}", file=sys.stderr)
            rows = [row for row in rows if row.env_name != name]
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER))
    for name in (*dict.fromkeys(row.env_name for row in rows), "all"):
        scores = measure([row for row in rows if name in (row.env_name, "all")])
        print("| " + " | ".join(table_line(name, scores)) + " |", flush=True)
        for row in scores.wrong if args.show and name != "all" else ():
            print(
                f"  {row.kind}: {row.text!r}\n    reference {row.problem.reference!r}",
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()
