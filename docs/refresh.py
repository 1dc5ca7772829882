"""Write what the docs say of the code anew, in the root of the repository: `python docs/refresh.py`."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from reference import configuration

ENVIRONMENTS = Path("docs/environments.md")


def example(found: re.Match[str]) -> str:
    """The output of the command in the comment, between the comments."""
    said = subprocess.run(shlex.split(found[1]), capture_output=True, text=True, check=True).stdout
    return f"<!-- {found[1]} -->\n\n{said.strip()}\n\n<!-- end -->"


if __name__ == "__main__":
    text = ENVIRONMENTS.read_text("utf-8")
    examples = r"<!-- (rltf env show [^\n]*) -->.*?<!-- end -->"
    ENVIRONMENTS.write_text(re.sub(examples, example, text, flags=re.DOTALL), "utf-8")
    Path("docs/configuration.md").write_text(configuration(), "utf-8")
