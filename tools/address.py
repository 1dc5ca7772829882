"""The repository's address on the pages: `REPOSITORY` of setup.py; `tools/refresh.py` writes it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SETUP = (ROOT / "setup.py").read_text("utf-8")
OWNER = re.search(r'^REPOSITORY = "https://github\.com/(.+)/rltf-verl"$', SETUP, re.M)[1]
SUFFIXES = {".md", ".ipynb", ".cff", ".yml", ".txt"}
ADDRESS = re.compile(r"(github(?:\.com|/stars)?/|//)[\w-]+((?:\.github\.io)?/rltf-verl\b)")
"""On GitHub, on Colab, of its stars, and of the site."""
FOLDERS = ("docs", "recipes", "benchmarks", "skills", "upstream", ".github")
PAGES = sorted(
    path
    for path in [*ROOT.glob("*"), *(p for name in FOLDERS for p in (ROOT / name).rglob("*"))]
    if path.suffix in SUFFIXES
)


def with_address(text: str) -> str:
    """The page with the address of setup.py in the place of any other."""
    return ADDRESS.sub(rf"\g<1>{OWNER}\2", text)
