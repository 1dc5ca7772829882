"""The pictures of docs/viewer.md, from the runs of `rltf view --example`.

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
from rltf_verl.tools.report.view.run import EXAMPLE, runs_at

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
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
    """The picture of a run's warning, or else one of each of its episodes, which has a file."""
    html.write_text(page(runs_at([run]), run.name), encoding="utf-8")
    tab.goto(html.as_uri())
    tab.wait_for_selector("#loading", state="hidden")
    if tab.locator("#overview .warning").count():
        _take(tab, "#overview", run.name)
        return
    for number, file in enumerate(sorted(run.iterdir())):
        tab.evaluate(f"openSession({number})")
        while not tab.evaluate(f"state.shown === addressOf({number})"):
            tab.wait_for_timeout(20)
        _take(tab, "#episode", file.name.split(".")[2])


def _take(tab: Any, part: str, name: str) -> None:
    tab.evaluate(REMOVE, BESIDES)
    tab.locator(part).screenshot(path=PICTURES / f"gallery_{name}.png")


def main() -> None:
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        tab = browser.new_page(viewport=SIZE, device_scale_factor=2)
        for run in EXAMPLE:
            draw(tab, run, Path(folder) / "page.html")
        browser.close()


if __name__ == "__main__":
    main()
