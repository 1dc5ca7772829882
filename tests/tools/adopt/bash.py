"""Bash as the referee: the words and the environment with which it starts a program."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

PRINTER = """#!/bin/sh
printf '%s\\0' "$@" > "$PRINTED.words"
env -0 > "$PRINTED.env"
"""
Started = tuple[list[str], dict[str, str]]


def started(script: Path, environ: Mapping[str, str]) -> Started | None:
    """Words and environment with which bash last started `python3` or `python`; None if it started
    neither.
    """
    programs = script.parent / "bin"
    programs.mkdir(exist_ok=True)
    for name in ("python3", "python"):
        (programs / name).write_text(PRINTER, "utf-8")
        (programs / name).chmod(0o755)
    words = Path(f"{script}.words")
    words.unlink(missing_ok=True)
    known = {"PATH": f"{programs}:{os.environ['PATH']}", "PRINTED": str(script)}
    command, stdin = ["bash", str(script)], subprocess.DEVNULL
    subprocess.run(
        command, env={**environ, **known}, cwd=script.parent, capture_output=True, stdin=stdin
    )
    if not words.exists():
        return None
    pairs = (pair.partition("=") for pair in _items(Path(f"{script}.env")))
    return _items(words), {name: value for name, _, value in pairs if name not in {*known, "_"}}


def _items(path: Path) -> list[str]:
    return path.read_text("utf-8").split("\0")[:-1]
