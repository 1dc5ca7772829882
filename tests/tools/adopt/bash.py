"""Bash as the referee: the words and the environment with which it starts `python3`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

PRINTER = """#!/bin/sh
printf '%s\\0' "$@" > "$PRINTED.words"
env -0 > "$PRINTED.env"
"""


def printer(folder: Path, *names: str) -> Path:
    """A folder of programs that write their words and their environment to `$PRINTED.…`."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(PRINTER, "utf-8")
        (folder / name).chmod(0o755)
    return folder


def started(
    script: Path, programs: Path, environ: Mapping[str, str], *arguments: str
) -> tuple[list[str], dict[str, str]] | None:
    """Words and environment of the last such program that bash starts; None if it starts none."""
    words, variables = Path(f"{script}.words"), Path(f"{script}.env")
    words.unlink(missing_ok=True)
    path = f"{programs}:{environ.get('PATH', os.environ['PATH'])}"
    subprocess.run(
        ["bash", str(script), *arguments],
        env={**environ, "PATH": path, "PRINTED": str(script)},
        cwd=script.parent,
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if not words.exists():
        return None
    pairs = (pair.partition("=") for pair in _items(variables))
    return _items(words), {name: value for name, _, value in pairs}


def _items(path: Path) -> Sequence[str]:
    return path.read_text("utf-8").split("\0")[:-1]
