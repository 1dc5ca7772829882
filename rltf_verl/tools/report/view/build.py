"""The episodes of a run as one HTML page that needs no network.

What a model wrote reaches the page as data (base64 of gzipped JSON) and there as text nodes only;
besides, the page's content policy runs no script but ours. The list and the curves are in the
index; the episodes are in blocks, and the tokens of an episode apart, which the page unpacks when
it needs them.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from rltf_verl.runlog.turns import Record
from rltf_verl.tools.report.row_words import names, told
from rltf_verl.tools.report.view.bundle import bundle
from rltf_verl.tools.report.view.index import has_tokens, view_index
from rltf_verl.tools.report.view.limits import bounded_texts, bounded_tokens

ENTRY = "main"
"""The module that starts the page."""
STYLES = (
    "colours",
    "page",
    "list/list",
    "overview/overview",
    "session/session",
    "tokens/tokens",
)
"""In the order of the cascade."""
BLOCK = 2_000_000
"""Characters of JSON in a block, at least."""
UNSHOWN = ("prompt_ids", "response_ids", "log_probs")
"""What the log may hold of a turn (`rltf.episode_log.ids`) and the page has no use for."""


def page(
    records: Sequence[Record], title: str, history: Mapping[int, Mapping[str, float]] | None = None
) -> str:
    """The page.

    Args:
        records: of an episode log (`runlog.episodes.read_episodes`).
        title: what the page is called.
        history: metrics of the run by step, if it wrote some.
    """
    blocks = list(_blocks(as_json(conversation(record)) for record in records))
    index = view_index(records, title, history) | {"starts": [start for start, _ in blocks]}
    data = [
        ("index", as_json(index)),
        *((f"block-{i}", text) for i, (_, text) in enumerate(blocks)),
    ]
    data += [
        (f"tokens-{i}", as_json(tokens(record)))
        for i, record in enumerate(records)
        if has_tokens(record)
    ]
    return shell(title, data)


def shell(title: str, data: Iterable[tuple[str, str]], *, live: bool = False) -> str:
    """The page around its data.

    Args:
        title: what the page is called.
        data: (name, JSON) of each part.
        live: the page asks the server that it comes from for its data.
    """
    data = [("live", ""), *data] if live else data
    script = bundle(lambda name: _asset(f"{name}.js"), ENTRY)
    style = "\n".join(_asset(f"{name}.css") for name in STYLES)
    parts = {
        "title": html.escape(title),
        "policy": f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'"
        + ("; connect-src 'self'" if live else ""),
        "style": f"<style>{style}</style>",
        "script": f"<script>{script}</script>",
        "data": "\n".join(
            f'<script type="text/plain" id="{name}">{_packed(text)}</script>' for name, text in data
        ),
    }
    # One pass: what is put in is not looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _asset("page.html"))


def conversation(record: Record) -> dict[str, Any]:
    """An episode as the page's conversation needs it: without the environment's fields and without
    tokens.
    """
    turns = record["turns"]
    shown = {key: value for key, value in record.items() if key not in ("task", "rows")}
    shown["turns"] = [
        {key: value for key, value in turn.items() if key not in UNSHOWN} for turn in turns
    ]
    shown["names"] = names(turns)
    shown = bounded_texts(shown, record["step"])
    return shown | ({"rows": told(record["rows"], turns)} if "rows" in record else {})


def tokens(record: Record) -> list[Any]:
    """Per row the columns of its tokens, None where the log has none."""
    return bounded_tokens([row.get("tokens") for row in record["rows"]], record["step"])


def _blocks(texts: Iterable[str]) -> Iterator[tuple[int, str]]:
    """(position of its first episode, JSON list) of each block."""
    start, held, size = 0, [], 0
    for text in texts:
        held.append(text)
        size += len(text)
        if size >= BLOCK:
            yield start, f"[{','.join(held)}]"
            start, held, size = start + len(held), [], 0
    if held:
        yield start, f"[{','.join(held)}]"


def as_json(value: Any) -> str:
    """Compact; ASCII, so that half a surrogate pair survives. A browser knows no NaN: such a number
    becomes a word.
    """
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
    return (files("rltf_verl.tools.report") / "page" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
