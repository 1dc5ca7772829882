"""The viewer's page as one HTML file that needs no network.

A model's text reaches the page as data (base64 of gzipped JSON) and is shown as text nodes only;
the content policy of the page runs no other script than its own. The index holds the list and the
charts. The conversations of each step are a block, and the tokens of each episode are apart; the
page unpacks them when it needs them.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from rltf_verl.jsonl import plain
from rltf_verl.tools.report.view.episodes import conversation, has_tokens, tokens
from rltf_verl.tools.report.view.run import PageRun, StepOfSplit, page_index, tokens_name

PAGE = Path(str(files("rltf_verl.tools.report"))) / "page"
# import statements, which end at their `;`, and the word `export` before what a module declares
IMPORTS = re.compile(r"^import [^;]*;\n|^export (?=async |function |const )", re.M)

Part = tuple[str, str]
"""Name and JSON of a part of the page's data."""


def page(runs: Sequence[PageRun], title: str, reload_s: int | None = None) -> str:
    """The page of runs.

    Args:
        runs: in the page's order.
        title: of the page.
        reload_s: seconds after which the page reloads itself; None: it stays.
    """
    indexes = [run.index() for run in runs]
    parts = [("index", as_json(page_index(indexes, title, reload_s)))]
    for k, (run, index) in enumerate(zip(runs, indexes, strict=True)):
        for at, block in zip(run.steps, index["blocks"], strict=True):
            parts += [(f"{k}/{name}", text) for name, text in _parts(run, at, block)]
    return shell(title, parts)


def shell(title: str, parts: Iterable[Part]) -> str:
    """The page around its data."""
    # the hash in the policy is of the very text between the tags
    script = "\n".join(['"use strict";', *(IMPORTS.sub("", text) for text in _texts("js"))])
    style = "\n".join(_texts("css"))
    words = {
        "title": html.escape(title),
        "policy": f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'",
        "style": f"<style>{style}</style>",
        "script": f"<script>{script}</script>",
        "data": "\n".join(
            f'<script type="text/plain" id="{name}">{_packed(text)}</script>'
            for name, text in parts
        ),
    }
    # One pass: inserted text is not searched again.
    return re.sub(
        r"\{\{(\w+)\}\}", lambda match: words[match[1]], (PAGE / "page.html").read_text("utf-8")
    )


def as_json(value: Any) -> str:
    """Compact; ASCII, so that half a surrogate pair survives. JSON in a browser has no NaN: such a
    number becomes a word.
    """
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(plain(value), separators=(",", ":"))


def _parts(run: PageRun, at: StepOfSplit, block: str) -> Iterator[Part]:
    """The conversations of a step, and the tokens of each."""
    records = run.steps[at].records
    yield block, as_json([conversation(r, tokens_name(at, r)) for r in records])
    yield from ((tokens_name(at, r), as_json(tokens(r))) for r in records if has_tokens(r))


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode()


def _texts(suffix: str) -> list[str]:
    """The page's files of a kind; styles of the whole page come before those of a folder.

    The content policy names the hash of one script, which cannot import another. So the modules
    share one scope, and no two have the same name at the top level.
    """
    # shallow files first: a rule of a folder may override one of the page
    paths = sorted(PAGE.rglob(f"*.{suffix}"), key=lambda path: (len(path.parts), path))
    paths.sort(key=lambda path: path.stem == "main")  # the module that starts the page
    return [path.read_text("utf-8") for path in paths]


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
