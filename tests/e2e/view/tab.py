"""A page of the viewer in a browser tab."""

import time
from typing import Self

SIZES = {"desktop": {"width": 1280, "height": 860}, "phone": {"width": 390, "height": 844}}


class Tab:
    """An open page, and everything that it complained of."""

    def __init__(self, browser, address: str, scheme: str, size: str) -> None:
        is_file = address.startswith("file:")
        root = "file://" if is_file else address
        self.complaints: list[str] = []
        self.context = browser.new_context(
            color_scheme=scheme, viewport=SIZES[size], offline=is_file
        )
        self.page = self.context.new_page()
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

    def show(self, place: str | int) -> Self:
        """`overview`, `list`, or an episode by its position."""
        if isinstance(place, str):
            self.page.evaluate("place => { location.hash = place }", place)
            return self
        self.page.evaluate(f"openSession({place})")
        self.until(f"state.shown === addressOf({place})")
        tokens = "document.querySelector('.trains .scale') !== null"
        self.until(f"(state.index.trains[{place}] & 1) === 0 || {tokens}")
        return self

    def filter(self, name: str, value: str) -> None:
        field = self.page.locator(f"#filters [name={name}]")
        if field.evaluate("field => field.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)

    def count(self) -> int:
        """How many episodes the list has, once the texts are read."""
        self.until("/^\\d+ of/.test(document.getElementById('count').textContent)")
        return int(self.page.locator("#count").text_content().split()[0])

    def clear(self, number: int) -> None:
        """Take all filters away; `number`: of all episodes."""
        self.page.get_by_role("button", name="Clear").click()
        self.until(f"state.listed.length === {number}")

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_text_contents()

    def focused(self) -> str:
        """Id or name of the element that has the focus."""
        return self.page.evaluate("document.activeElement.id || document.activeElement.name")

    def is_safe(self) -> bool:
        """No text of a model became markup or a script."""
        return (
            self.page.evaluate("window.hacked") is None
            and self.page.locator("main :is(script, img, b)").count() == 0
        )

    def fits(self) -> bool:
        """Nothing is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def as_shown(text: str) -> str:
    """What the page shows of control characters."""
    hidden = "\0\x07\x1b\u2028\u2029\u202c\u202e\u2066"
    return "".join(f"[U+{ord(c):04X}]" if c in hidden else c for c in text)
