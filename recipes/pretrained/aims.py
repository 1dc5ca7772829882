"""How much each level of feedback speaks of the attempt that it is about, on a run's first answers.

    python recipes/pretrained/aims.py RUN/checkpoints/episodes --house 20

Every wrong first answer of the log is explained anew at each level (`tools/report/aim.py` has the
measure).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean

from house_style import HouseStyle

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.tools.report.aim import aims_of

LEVELS = ("location", "hint", "full")


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
