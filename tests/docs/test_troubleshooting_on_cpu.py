"""The headings of docs/troubleshooting.md are messages that the code has."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
FOREIGN = {"Could not load 'rltf_sd'"}
"""Messages of Hydra."""
MESSAGES = [
    heading for heading in re.findall(r"^### (.+)$", TEXT, re.MULTILINE) if heading not in FOREIGN
]


@cache
def said() -> list[str]:
    """All texts of the package, with `…` for what is filled in."""
    found = []
    for path in (ROOT / "rltf_verl").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.append(
                    "".join(p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
                )
            elif isinstance(node, ast.Dict):  # a table of refused settings, and what to do instead
                found += [
                    f"{key.value}=True: {fix.value}"
                    for key, fix in zip(node.keys, node.values, strict=True)
                    if isinstance(key, ast.Constant) and isinstance(fix, ast.Constant)
                ]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(re.sub(r"%[sdg]", "…", node.value))
    return found


@pytest.mark.parametrize("message", MESSAGES)
def test_a_heading_is_a_message(message: str) -> None:
    pieces = [re.escape(piece) for piece in message.split("…")]
    assert any(re.fullmatch(".*".join(pieces), text, re.DOTALL) for text in said())


def test_there_are_some() -> None:
    assert len(MESSAGES) > 9
