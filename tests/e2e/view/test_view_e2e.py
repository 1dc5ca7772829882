"""The viewer in a real browser: light and dark, desktop and phone, 10 and 10 000 episodes, hostile
text, keyboard.
"""

import copy
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rltf_verl.tools.report.view.build import page as written_page
from tests.e2e.view.tab import SIZES, Tab
from tests.support.log_records import HINT, HOSTILE, LEAKY, line, records, turn

pytestmark = pytest.mark.e2e


def episode(said: str) -> tuple:
    hint = type(HINT)(said, "judge", leak=said, original=said)
    return turn("1", hint, text=said), turn("42", parent=0, text=f"{said}!", stop="solved")


TEXTS = [text[:20_000] for text in HOSTILE]
"""Hostile texts that the page holds in full."""
EPISODES = [
    (turn("1"), turn("42", parent=0, stop="solved"), turn("2", parent=0, stop="horizon")),
    (turn("1", None, withheld=LEAKY, stop="feedback_unavailable", error="the guard"),),
    line("42", "1"),
    *map(episode, TEXTS),
]
"""At positions 0, 1, 2; the hostile ones from 3 on."""
DIFFERENCE = "modules['session/diff'].difference"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Number of ordinary episodes -> page."""
    folder = tmp_path_factory.mktemp("pages")
    few = records(folder / "log", EPISODES, question=HOSTILE[0])
    for record, text in zip(few[3:], TEXTS, strict=True):  # as logs of old versions have it
        record["turns"][0]["feedback"] |= {"text": text, "leak": text, "original": text}
    few += records(folder / "val", [line("1", "42")], validate=True)
    (model,) = records(folder / "model", [line("1", "42")])
    paths = {}
    for num in (10, 10_000):
        paths[num] = folder / f"{num}.html"
        paths[num].write_text(written_page(few + ordinary(num, model), "a run"), encoding="utf-8")
    return paths


def ordinary(num: int, model: dict) -> list[dict]:
    """Episodes of a kilobyte or two; one in a hundred says `needle`."""
    rng, made = random.Random(0), []
    for i in range(num):
        record = copy.deepcopy(model) | {"step": 2 + i // 48, "index": i, "uid": f"u{i}"}
        said = " ".join(str(rng.randrange(1000)) for _ in range(250))
        record["turns"][0]["text"] = said + (" Needle" if i % 100 == 7 else "")
        record["turns"][1]["text"] = said[:900] + " so 42"
        made.append(record)
    return made


@pytest.fixture
def tab(browser, pages) -> Iterator:
    opened = []

    def make(num: int = 10, scheme: str = "light", size: str = "desktop") -> Tab:
        opened.append(Tab(browser, pages[num], scheme, size))
        return opened[-1]

    yield make
    for one in opened:
        one.context.close()
        assert one.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("num", [10, 10_000])
def test_it_fits(tab, num: int, size: str, scheme: str) -> None:
    one = tab(num, scheme, size)
    background = one.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) < 200) == (scheme == "dark")
    for place in ("overview", "list", "session-0", "session-12"):
        one.show(place)
        assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
    one.show("list")
    assert one.count() == num + len(EPISODES) + 1
    one.filter("outcome", "fixed")
    assert one.count() == num + len(EPISODES) + 1 - 2
    one.filter("text", "NEEDLE")
    assert one.count() == (100 if num == 10_000 else 1)
    assert one.page.locator(".row").count() < 40


def test_a_filter_of_many_takes_little_more_than_reading_their_texts(tab) -> None:
    one = tab(10_000)
    one.filter("text", "needle")
    one.count()  # the texts are read
    ratio = one.times_plain(
        "() => modules['list/filters'].filter()",
        "() => modules.state.state.texts.filter((text) => text.includes('needle')).length",
    )
    assert ratio < 20


def test_the_search_finds_what_is_there_and_nothing_else(tab) -> None:
    one, rng = tab(), random.Random(2)
    one.show("list")
    one.filter("text", "so")
    one.count()  # the texts are read
    said = one.page.evaluate("modules.state.state.texts.map(text => text.slice(0, 3000))")
    queries = [
        "\u00e9",
        "\u6f22\u5b57",
        "\U0001f600",
        "  ",
        "``",
        "zz",
        "xxxxx",
        "so 42!",
        "nowhere to be found",
    ]
    for text in said:
        for size in (1, 2, 3, 4, 5, 6, 12, 40):
            start = rng.randrange(max(1, len(text) - size))
            queries += [text[start : start + size], text[start : start + size][::-1]]
    wrong = """queries => queries.filter(query => {
        const {gramsOf, holds} = modules['list/search'], grams = gramsOf(query);
        return modules.state.state.texts.some(
            (text, id) => text.includes(query) !== holds(id, query, grams)); })"""
    assert one.page.evaluate(wrong, queries) == []
    spared = """query => { const {gramsOf, holds} = modules['list/search'], grams = gramsOf(query);
        return modules.state.state.texts.filter((text, id) => !holds(id, query, grams)).length; }"""
    assert one.page.evaluate(spared, "qqzzqq") == len(said)


def test_hostile_text_shows_as_text(tab) -> None:
    one = tab()
    for k, text in enumerate(TEXTS, start=3):
        one.show(f"session-{k}")
        shown = one.page.evaluate(
            "[...document.querySelectorAll('#episode pre')].map(node => node.textContent)"
        )
        expected = re.sub(
            "[\0\x07\x1b\u2028\u2029\u202c\u202e\u2066]", lambda c: f"[U+{ord(c[0]):04X}]", text
        )
        assert shown[0] == HOSTILE[0]  # the question
        assert shown[2:4] == [expected, expected]  # attempt and feedback
        facts = one.page.locator("#episode .feedback").inner_text()
        assert "leak: " in facts
        assert "instead of: " in facts
    assert one.page.evaluate("window.hacked") is None
    assert one.page.locator("main :is(script, img, b)").count() == 0


def test_the_keyboard(tab) -> None:
    one = tab()
    focused = "document.activeElement.id || document.activeElement.name"
    keys = one.page.keyboard
    keys.press("/")
    assert one.page.evaluate(focused) == "text"
    keys.type("j/k")  # in a field these are letters
    assert one.page.locator("#filters [name=text]").input_value() == "j/k"
    assert one.count() == 0
    one.page.get_by_role("button", name="Clear").click()
    one.until(f"modules.state.state.listed.length === {10 + len(EPISODES) + 1}")
    keys.press("Escape")
    assert one.page.evaluate(focused) == "rows"
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
        keys.press(key)
    one.until("modules.state.state.shownId === 1")
    assert one.page.evaluate(focused) == "episode-title"
    keys.press("j")
    one.until("modules.state.state.shownId === 2")
    keys.press("k")
    one.until("modules.state.state.shownId === 1")
    keys.press("Escape")
    one.until(f"({focused}) === 'rows'")
    keys.press("End")
    assert one.page.locator(".row.active").text_content().startswith("✗✓")
    listbox, row = one.page.locator("#rows"), one.page.locator(".row.active")
    assert listbox.get_attribute("aria-activedescendant") == row.get_attribute("id")
    keys.press("Escape")
    one.until("document.body.dataset.view === 'overview'")  # the browser tells of a new hash later


def test_order_and_filters_of_the_list(tab) -> None:
    one = tab()
    one.show("list")
    labels = "[...document.querySelectorAll('.row')].map(row => row.getAttribute('aria-label'))"
    one.filter("sort", "most turns")
    assert one.page.evaluate(labels)[0].startswith("wrong, branches:")
    one.filter("sort", "newest first")
    assert "step 2, train, problem 9;" in one.page.evaluate(labels)[0]
    one.filter("sort", "as logged")
    one.filter("split", "val")
    assert one.count() == 1
    one.filter("split", "")
    one.filter("from", "2")
    assert one.count() == 10
    one.filter("from", "")
    one.filter("to", "1")
    assert one.count() == len(EPISODES) + 1
    one.filter("event", "withheld")
    assert one.count() == 1
    one.page.get_by_role("button", name="Clear").click()
    one.until(f"modules.state.state.listed.length === {10 + len(EPISODES) + 1}")


def test_a_tree_and_what_was_withheld(tab) -> None:
    one = tab()
    one.show("session-0")
    assert one.page.locator("#episode h3").all_text_contents() == [
        "Attempt 1",
        "Attempt 2, branch 1 of 2",
        "Attempt 2, branch 2 of 2",
    ]
    assert one.page.locator("#episode ol ol > li").count() == 2
    assert one.page.locator("#episode .turn").nth(1).locator("del, ins").all_text_contents() == [
        "1",
        "42",
    ]
    one.page.get_by_role("button", name="changes").first.click()
    assert one.page.locator("#episode .turn").nth(1).locator("pre").text_content() == "so 42"
    one.show("session-1")
    assert "it is 42" in one.page.get_by_label("Withheld feedback").inner_text()
    assert "end: feedback_unavailable · the guard" in one.page.locator("#episode").inner_text()


def test_a_screen_reader_finds_its_way(tab) -> None:
    one = tab()
    for role in ("banner", "navigation", "main", "search", "listbox"):
        assert one.page.get_by_role(role).count() == 1, role
    assert one.page.locator("#rows [role=option]").first.get_attribute("aria-setsize") == str(
        10 + len(EPISODES) + 1
    )
    assert "branches:" in one.page.locator("#rows [role=option]").first.get_attribute("aria-label")
    names = (
        "[...document.querySelectorAll('input, select')].filter(n =>"
        " !n.getAttribute('aria-label')).length"
    )
    assert one.page.evaluate(names) == 0
    assert "train: " in one.page.get_by_role("img").first.get_attribute("aria-label")
    one.page.get_by_text("The curves as a table").click()
    one.until("document.querySelectorAll('details tr').length > 3")


@pytest.mark.parametrize("size", SIZES)
def test_a_click_on_a_curve_lists_the_episodes_of_that_step(tab, size: str) -> None:
    one = tab(size=size)
    box = one.page.locator("figure svg").first.bounding_box()
    one.page.mouse.move(box["x"] + box["width"] - 15, box["y"] + 50)
    assert one.page.locator("figure output").first.text_content().startswith("step 2: train ")
    one.page.mouse.down()
    one.page.mouse.up()
    assert one.count() == 10
    assert one.page.evaluate("document.activeElement.id") == "rows"
    assert one.page.locator(".row").first.is_visible()


def lcs(a: list[str], b: list[str]) -> int:
    row = [0] * (len(b) + 1)
    for x in a:
        before = row[:]
        for j, y in enumerate(b):
            row[j + 1] = before[j] + 1 if x == y else max(row[j], before[j + 1])
    return row[-1]


def test_the_word_difference_is_right_and_shortest(tab) -> None:
    one, rng = tab(), random.Random(1)
    for _ in range(200):
        a, b = ([rng.choice("ab,\n é漢") for _ in range(rng.randrange(9))] for _ in range(2))
        before, after = " ".join(a), " ".join(b)
        edits = one.page.evaluate(f"([a, b]) => {DIFFERENCE}(a, b)", [before, after])
        assert "".join(text for kind, text in edits if kind <= 0) == before
        assert "".join(text for kind, text in edits if kind >= 0) == after
        kept = sum(
            len(text) for kind, text in edits if kind == 0
        )  # every word here is one character
        assert kept == lcs(list(before), list(after))
    long = " ".join(map(str, range(20_000)))
    assert (
        one.page.evaluate(
            f"([a, b]) => {DIFFERENCE}(a, b).length", [long, long.replace("7", "8 8")]
        )
        == 4
    )
