"""Write the generated parts of docs and YAML: `python tools/refresh.py` in the root."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from base_yaml import BASE, with_block
from reference import configuration
from troubleshooting import PAGE, with_tables

ENVIRONMENTS = Path("docs/environments.md")


def example(match: re.Match[str]) -> str:
    """The output of the command in the comment, between the comments."""
    ended = subprocess.run(shlex.split(match[1]), capture_output=True, text=True, check=True)
    return f"<!-- {match[1]} -->\n\n{ended.stdout.strip()}\n\n<!-- end -->"


if __name__ == "__main__":
    text = ENVIRONMENTS.read_text("utf-8")
    examples = r"<!-- (rltf env show [^\n]*) -->.*?<!-- end -->"
    ENVIRONMENTS.write_text(re.sub(examples, example, text, flags=re.DOTALL), "utf-8")
    Path("docs/configuration.md").write_text(configuration(), "utf-8")
    PAGE.write_text(with_tables(PAGE.read_text("utf-8")), "utf-8")
    BASE.write_text(with_block(BASE.read_text("utf-8")), "utf-8")
