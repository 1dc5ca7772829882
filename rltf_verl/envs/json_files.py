"""A look at a user's JSON file before `datasets` reads it, which names no line and dies of deep
nesting.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MOST_DEPTH = 100


def check_json(path: Path) -> None:
    """Check a file of objects, one a line or all in one list.

    Raises:
        ValueError: it cannot be read; names the line (of a list: the entry) and what is wrong.
    """
    for where, record in _records(path):
        if not isinstance(record, dict):
            raise ValueError(f"{where} is no JSON object")
        if _deep(record, MOST_DEPTH):
            raise ValueError(f"{where} is nested more than {MOST_DEPTH} levels deep")


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    data = path.read_bytes()
    if path.suffix == ".json" and data.lstrip().startswith(b"["):
        listed = _parsed(data, str(path))
        yield from ((f"{path}, entry {k}", record) for k, record in enumerate(listed, 1))
        return
    for k, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line.strip():
            yield f"{path}, line {k}", _parsed(line, f"{path}, line {k}")


def _parsed(data: bytes, where: str) -> Any:
    try:
        return json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{where} is not UTF-8 (byte {error.start + 1})") from error
    except RecursionError as error:
        raise ValueError(f"{where} is nested more than {MOST_DEPTH} levels deep") from error
    except ValueError as error:
        raise ValueError(f"{where} is not JSON ({error})") from error


def _deep(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels == 0 or any(_deep(item, levels - 1) for item in inner)
