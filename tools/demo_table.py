"""The table of `make demo` in README.md and the recipe's page; `tools/refresh.py` writes it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "recipes" / "demo"
sys.path.insert(0, str(DEMO))  # a program's folder, not a package

from lm_table import HEADINGS, rows  # noqa: E402

RESULTS = DEMO / "demo.json"
PICTURE = ROOT / "docs" / "pictures" / "pretrained.png"
PAGES = (ROOT / "README.md", ROOT / "recipes" / "pretrained" / "README.md")
START, END = "<!-- demo: python tools/refresh.py -->\n", "\n<!-- end of demo -->"


def take(outputs: Path) -> None:
    """Make numbers and picture of a demo's folder those of the pages."""
    shutil.copy(outputs / "summary.json", RESULTS)
    shutil.copy(outputs / "report.png", PICTURE)


def with_demo(text: str) -> str:
    """The page with the table of demo.json between its marks."""
    table = markdown(json.loads(RESULTS.read_text("utf-8")))
    before, _, rest = text.partition(START)
    return f"{before}{START}\n{table}\n{END}{rest.partition(END)[2]}"


def markdown(demo: Mapping[str, Any]) -> str:
    """A demo's summary.json as a table, and where its numbers are from."""
    lines = [HEADINGS, ("---", *["---:"] * (len(HEADINGS) - 1)), *rows(demo["methods"])]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    made = [f"{demo['steps']} steps of 32 episodes", demo["precision"], demo["machine"]]
    return f"{table}\n\nOne run each: {', '.join(made)}, {demo['date']}."
