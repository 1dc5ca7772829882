"""The pictures of docs/gallery.md, from the log lines in docs/gallery.

    pip install -e ".[browser]" && python tools/gallery.py

Needs a Chromium on the PATH.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import sync_playwright

from rltf_verl.tools.report.view.build import page
from rltf_verl.tools.report.view.run import runs_at

DOCS = Path(__file__).resolve().parent.parent / "docs"
SIZE = {"width": 800, "height": 1300}
BESIDES = "#episode > .bar, #episode > details, #overview > :not(.warning, .charts)"
"""What a picture leaves out. Of the charts, it keeps those of the whole run: the others are of the
kept episodes."""
REMOVE = """besides => {
  for (const one of document.querySelectorAll(besides)) one.remove();
  for (const one of document.querySelectorAll("figure"))
    if (!/^(Format|Tokens of first answers)/.test(one.textContent)) one.remove();
}"""


def draw(tab: Any, run: Path, html: Path) -> None:
    """The picture of a run: its warning, or else its episode."""
    html.write_text(page(runs_at([run]), run.name), encoding="utf-8")
    tab.goto(html.as_uri())
    tab.wait_for_selector("#loading", state="hidden")
    shown = "#overview"
    if not tab.locator("#overview .warning").count():
        shown = "#episode"
        tab.evaluate("openSession(0)")
        tab.wait_for_selector("#episode-title")
    tab.evaluate(REMOVE, BESIDES)
    tab.locator(shown).screenshot(path=DOCS / "pictures" / f"gallery_{run.name}.png")


def main() -> None:
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        tab = browser.new_page(viewport=SIZE, device_scale_factor=2)
        for run in sorted((DOCS / "gallery").iterdir()):
            draw(tab, run, Path(folder) / "page.html")
        browser.close()


if __name__ == "__main__":
    main()
