"""The pictures of docs/gallery.md, from the log lines in docs/gallery.

    pip install -e ".[browser]"; python tools/gallery.py [FOLDER]

Needs a Chromium on the PATH.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import sync_playwright

from rltf_verl.tools.report.view.build import page
from rltf_verl.tools.report.view.run import runs_at

DOCS = Path(__file__).resolve().parent.parent / "docs"
WIDTH, AIR = 800, 12


def shoot(tab: Any, kept: Path, html: Path, picture: Path) -> None:
    """The run's warning and charts if it warns, else its episode, as far as the last text."""
    html.write_text(page(runs_at([kept]), kept.name), encoding="utf-8")
    tab.goto(html.as_uri())
    warns = tab.locator("#overview .warning").count() > 0
    first, last = "#episode-title", "#episode > :last-child"
    if warns:
        first, last = "#overview .warning", "#overview .charts"
    else:
        tab.evaluate("openSession(0)")
        tab.wait_for_selector(first)
        tab.evaluate("document.querySelector('#episode > details').remove()")
    top, end = (tab.locator(place).first.bounding_box() for place in (first, last))
    height = end["y"] + end["height"] - top["y"] + 2 * AIR
    tab.screenshot(
        path=picture,
        clip={"x": 0, "y": top["y"] - AIR, "width": WIDTH, "height": height},
    )


def main(folder: Path) -> None:
    with TemporaryDirectory() as work, sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        size = {"width": WIDTH, "height": 3000}
        tab = browser.new_page(viewport=size, device_scale_factor=2, color_scheme="light")
        for kept in sorted((DOCS / "gallery").iterdir()):
            shoot(tab, kept, Path(work) / "page.html", folder / f"gallery_{kept.name}.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else DOCS / "pictures")
