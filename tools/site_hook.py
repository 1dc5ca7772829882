"""Hook of mkdocs.yml: the site has the tree's own pages, without a copy of any.

`make docs` links the tree's folders into `build/pages`. A link of a page to code, which the site
does not show, becomes one to the repository.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(\]\()(?!https?:|#)([^)\s#]+)")


def on_files(files: Any, config: Any) -> None:
    """Keep pages and pictures."""
    for file in [*files]:
        if not file.src_uri.endswith((".md", ".png", ".css", ".js")):
            files.remove(file)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The page, whose links to what is not shown lead to the repository."""
    folder = posixpath.dirname(page.file.src_uri)

    def with_target(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[2]))
        known = files.get_file_from_path(path) or not (ROOT / path).exists()
        return match[0] if known else f"{match[1]}{config.repo_url}/blob/main/{path}"

    return LINK.sub(with_target, markdown)
