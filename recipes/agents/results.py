"""Collect the study's runs into results.jsonl beside this file, and print the table:

python recipes/agents/results.py outputs/agents
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results.jsonl"
STEPS = 8
RUN = re.compile(r"(\w+)_(\d+)_(\d+)")
"""Name of a run's folder: method, house, seed."""


def curve(metrics: Path) -> list[dict[str, Any]]:
    """Each validation: step, tokens sampled until then, share of first attempts that are right."""
    points, tokens = [], 0.0
    for line in metrics.read_text("utf-8").splitlines():
        record = json.loads(line)
        data = record["data"]
        tokens += data.get("rltf/session/tokens/total", 0)
        right = [v for k, v in data.items() if k.startswith("val-core/") and "/acc/" in k]
        if right:
            points.append({"step": record["step"], "tokens": round(tokens), "right": right[0]})
    return points


def collected(out: Path) -> list[dict[str, Any]]:
    """The lines of results.jsonl; a whole run in the folder takes the place of its line."""
    old = [json.loads(line) for line in RESULTS.open()] if RESULTS.exists() else []
    lines = {(line["method"], line["house"], line["seed"]): line for line in old}
    for metrics in sorted(out.glob("*/metrics.jsonl")):
        match = RUN.fullmatch(metrics.parent.name)
        points = curve(metrics) if match else []
        if match and points and points[-1]["step"] >= STEPS:
            key = method, house, seed = match[1], int(match[2]), int(match[3])
            lines[key] = {"method": method, "house": house, "seed": seed, "curve": points}
    return [lines[key] for key in sorted(lines)]


def main() -> None:
    """Markdown; a cell has the mean, then each seed."""
    lines = collected(Path(sys.argv[1]))
    RESULTS.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    print("| method | tokens sampled | before | half way | at the end |\n|---|---:|---|---|---|")
    for method, group in groupby(lines, key=lambda line: line["method"]):
        curves = [line["curve"] for line in group]
        tokens = statistics.mean(points[-1]["tokens"] for points in curves)
        cells = []
        for k in (0, len(curves[0]) // 2, -1):
            shares = [points[k]["right"] for points in curves]
            each = " ".join(f"{share:.2f}" for share in shares)
            cells.append(f"{statistics.mean(shares):.2f} ({each})")
        print(f"| {method} | {tokens / 1000:.0f} k | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
