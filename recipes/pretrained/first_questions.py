"""First questions of one house, some of them answered in its own style: they make a mixed start.

    python recipes/pretrained/first_questions.py OUT.parquet --house 11 [--share 0.6] [--num 480]

A policy that is trained on them for thirty steps answers some first questions right, so that GRPO
has something to reinforce. The other answers are in styles that no house has.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from house_conventions import KINDS
from house_style import HouseStyle

from rltf_verl.data.provenance import write_table


def questions(house: int, share: float, num: int) -> Iterator[dict[str, Any]]:
    """Rows as verl's SFT trainer reads them; the training items of the house's problems."""
    rng, env = random.Random(house), HouseStyle("date")
    for problem in env.build(house, num, 0).train:
        kind = KINDS[problem.data["noun"]]
        foreign = kind.written(problem.data["item"], rng.choice(kind.rules("practice")))
        answer = problem.reference if rng.random() < share else foreign
        yield {
            "messages": [
                {"role": "user", "content": env.prompt(problem)},
                {"role": "assistant", "content": answer},
            ]
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--house", type=int, required=True)
    parser.add_argument("--share", type=float, default=0.6)
    parser.add_argument("--num", type=int, default=480)
    args = parser.parse_args()
    rows = list(questions(args.house, args.share, args.num))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_table(pa.Table.from_pylist(rows), args.out, vars(args) | {"out": args.out.name})
    print(f"{args.out}: {len(rows)} questions")


if __name__ == "__main__":
    main()
