"""Read reports from inside a sandbox as text that a hostile program may have written."""

from __future__ import annotations

import json
from typing import Any, get_args

from rltf_verl.envs.sandbox.base import Ending, Outcome

_ENDINGS: dict[str, Ending] = {ending: ending for ending in get_args(Ending)}
ENDED = "ended"
"""The test process exited by itself; the report holds its result."""
SILENT = Outcome("crash", message="the process ended before the program did")


def outcome_of(frame: bytes, entry: str | None) -> Outcome:
    """The outcome of a frame: `ending`, `message`, `output` (what was printed) and `report`, a JSON
    text.
    """
    fields = as_mapping(frame)
    output = _text(fields, "output")
    if fields.get("ending") == ENDED:
        return outcome_of_report(_text(fields, "report"), output, entry)
    ending = _ENDINGS.get(_text(fields, "ending"))
    return SILENT if ending is None else Outcome(ending, output, _text(fields, "message"))


def outcome_of_report(report: str, printed: str, entry: str | None) -> Outcome:
    """The outcome of a process that ended by itself, from its own report, which is empty if it left
    early.
    """
    fields = as_mapping(report)
    ending, line = _ENDINGS.get(_text(fields, "ending")), fields.get("line")
    if ending is None and entry is None:  # left by os._exit(0): what it printed counts
        return Outcome("ok", printed)
    if ending is None or (ending == "ok" and entry is not None and "value" not in fields):
        return SILENT
    output = printed if entry is None else _text(fields, "value")
    return Outcome(ending, output, _text(fields, "message"), line if type(line) is int else None)


def as_mapping(text: str | bytes) -> dict[str, Any]:
    """A JSON object; empty for any other text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""
