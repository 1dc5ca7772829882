"""The browser that shows the viewer."""

import os
import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.view.tab import Tab


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """One for a file of tests: while it is open, no other test of the process can use asyncio."""
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next((path for name in names if (path := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(names)} is on the PATH")
    # Root may not use the sandbox of the browser.
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    arguments = ["--no-sandbox"] if is_root else []
    with driver.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def open_tab(browser) -> Iterator[Callable[..., Tab]]:
    """A function: address, colour scheme and size -> a tab that may not complain of anything."""
    tabs = []

    def make(address: str, scheme: str = "light", size: str = "desktop") -> Tab:
        tabs.append(Tab(browser, address, scheme, size))
        return tabs[-1]

    yield make
    for tab in tabs:
        tab.context.close()
    assert [complaint for tab in tabs for complaint in tab.complaints] == []
