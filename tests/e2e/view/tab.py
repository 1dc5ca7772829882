"""A page of the viewer in a browser tab."""

import time
from pathlib import Path

SIZES = {"desktop": {"width": 1280, "height": 860}, "phone": {"width": 390, "height": 844}}


class Tab:
    """A page that was opened, and everything that it complained of."""

    def __init__(self, browser, path: Path, scheme: str, size: str) -> None:
        self._open(browser, path.as_uri(), "file://", scheme, size, offline=True)

    def _open(
        self, browser, address: str, root: str, scheme: str, size: str, *, offline: bool
    ) -> None:
        """`root`: what each request begins with."""
        self.context = browser.new_context(
            color_scheme=scheme, viewport=SIZES[size], offline=offline
        )
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "request", lambda r: r.url.startswith(root) or self.complaints.append(r.url[:100])
        )
        self.page.goto(address)
        self.until("performance.getEntriesByName('load').length > 0")

    def until(self, expression: str) -> None:
        """Not wait_for_function: it evaluates a string in the page, which the page's content policy
        refuses.
        """
        end = time.monotonic() + 30
        while not self.page.evaluate(expression):
            assert time.monotonic() < end, expression
            time.sleep(0.02)

    def times_plain(self, work: str, plain: str) -> float:
        """How many times as long `work` takes as `plain`, the quickest of five of each; both are
        JavaScript functions, which may be asynchronous.
        """
        return self.page.evaluate(
            f"""async () => {{
            const quickest = [Infinity, Infinity];
            for (let k = 0; k < 5; k++)
                for (const [i, run] of [{work}, {plain}].entries()) {{
                    const start = performance.now();
                    await run();
                    quickest[i] = Math.min(quickest[i], performance.now() - start);
                }}
            return quickest[0] / quickest[1]; }}"""
        )

    def show(self, place: str) -> None:
        self.page.evaluate("place => { location.hash = place }", place)
        if place.startswith("session-"):
            self.until(f"modules.state.state.shownId === {place[8:]}")

    def filter(self, name: str, value: str) -> None:
        field = self.page.locator(f"#filters [name={name}]")
        (
            field.select_option(value)
            if name in ("split", "outcome", "event", "trains", "env", "sort")
            else field.fill(value)
        )

    def count(self) -> int:
        self.until("/^\\d+ of/.test(document.getElementById('count').textContent)")
        return int(self.page.locator("#count").text_content().split()[0])


class LiveTab(Tab):
    """The same of a page from a server: it asks only there."""

    def __init__(self, browser, address: str, scheme: str = "light", size: str = "desktop") -> None:
        self._open(browser, address, address, scheme, size, offline=False)
