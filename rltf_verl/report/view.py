"""The sessions of a run as one HTML page that needs no network.

What a model wrote reaches the page as data (base64 of gzipped JSON) and there as text nodes only; besides, the page's
content policy runs no script but ours. The list and the curves are in the index; the sessions are in blocks that the
page unpacks when it needs them.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Any

from rltf_verl.report import session
from rltf_verl.report.curves import curves, totals
from rltf_verl.report.session import Record

SCRIPTS = ("text.js", "data.js", "charts.js", "list.js", "episode.js", "main.js")
BLOCK = 2_000_000
"""Characters of JSON in a block, at least."""
SNIPPET = 100
FLAGS: dict[str, Callable[[Sequence[Record]], bool]] = {
    "right at first": lambda turns: bool(turns) and session.right(turns[0]),
    "fixed": session.fixed,
    "broken": session.broken,
    "unsolved": session.unsolved,
    "leaked": session.leaked,
    "withheld": session.withheld,
    "fall-back": session.fell_back,
    "errors": session.failed,
    "not graded": session.not_graded,
    "tree": lambda turns: len(session.lines(turns)) > 1,
}
"""What the list can be filtered by; bit k of a session's flags is the k-th."""


def page(records: Sequence[Record], title: str) -> str:
    """The page.

    Args:
        records: of an episode log (`episode_log.read_episodes`).
        title: what the page is called.
    """
    texts = [_json({key: value for key, value in record.items() if key != "task"}) for record in records]
    blocks = list(_blocks(texts))
    index = _index(records, title) | {"starts": [start for start, _ in blocks]}
    data = [("index", _json(index)), *((f"block-{i}", text) for i, (_, text) in enumerate(blocks))]
    script, style = "\n".join(map(_asset, SCRIPTS)), _asset("page.css")
    parts = {
        "title": html.escape(title),
        "policy": f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'",
        "style": style,
        "script": script,
        "data": "\n".join(f'<script type="text/plain" id="{name}">{_packed(text)}</script>' for name, text in data),
    }
    # One pass: what is put in is not looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _asset("page.html"))


def _index(records: Sequence[Record], title: str) -> dict[str, Any]:
    envs = sorted({record["env"] for record in records})
    return {
        "title": title,
        "envs": envs,
        "flags": list(FLAGS),
        "step": [record["step"] for record in records],
        "split": [record["split"] for record in records],
        "env": [envs.index(record["env"]) for record in records],
        "problem": [record["index"] for record in records],
        "session": [record["session_id"] for record in records],
        "verdicts": [session.verdicts(record["turns"]) for record in records],
        "set": [_flags(record["turns"]) for record in records],
        "words": [_words(record["turns"]) for record in records],
        "turns": [len(record["turns"]) for record in records],
        "snippet": [" ".join(record["question"].split())[:SNIPPET] for record in records],
        "curves": curves(records),
        "totals": totals(records),
    }


def _flags(turns: Sequence[Record]) -> int:
    return sum(1 << k for k, is_so in enumerate(FLAGS.values()) if is_so(turns))


def _words(turns: Sequence[Record]) -> int:
    return sum(len(turn["feedback"]["text"].split()) for turn in turns if turn["feedback"])


def _blocks(texts: Iterable[str]) -> Iterator[tuple[int, str]]:
    """(position of its first session, JSON list) of each block."""
    start, held, size = 0, [], 0
    for text in texts:
        held.append(text)
        size += len(text)
        if size >= BLOCK:
            yield start, f"[{','.join(held)}]"
            start, held, size = start + len(held), [], 0
    if held:
        yield start, f"[{','.join(held)}]"


def _json(value: Any) -> str:
    """Compact; ASCII, so that half a surrogate pair survives. A browser knows no NaN: such a number becomes a word."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode()


def _asset(name: str) -> str:
    return (files("rltf_verl.report") / "page" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
