"""The written page in a real browser: light and dark, desktop and phone, few and 10 000 episodes,
hostile text, keyboard, several runs.
"""

import random
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from rltf_verl.tools.report.view.build import page
from rltf_verl.tools.report.view.run import runs_at
from tests.e2e.view.tab import SIZES, Tab, as_shown
from tests.support.log_records import HINT, HOSTILE, LEAKY, line, turn, write
from tests.support.run_files import step as trained
from tests.support.run_files import write_metrics

pytestmark = pytest.mark.e2e

TEXTS = [text[:3000] for text in HOSTILE]
"""Hostile texts that are short enough not to be folded."""
LONG = " ".join(map(str, range(4000)))
MANY = 10_000


def hostile(text: str) -> tuple:
    hint = type(HINT)(text, "judge", leak=text, original=text)
    return turn("1", hint, text=text), turn("42", parent=0, text=f"{text}!", stop="solved")


EPISODES = [
    (turn("1"), turn("42", parent=0, stop="solved"), turn("2", parent=0, stop="horizon")),
    (turn("1", None, withheld=LEAKY, stop="feedback_unavailable", error="the guard"),),
    line("42", "1"),
    (turn("1", text=LONG), turn("42", parent=0, text=f"{LONG} end", stop="solved")),
    *map(hostile, TEXTS),
]
"""At positions 0 to 3; the hostile ones from 4 on. Two more follow: validation, and step 2."""
NUM = len(EPISODES) + 2
DIFFERENCE = "difference"


def written(path: Path, *folders: Path) -> str:
    runs = runs_at(folders)
    for run in runs:
        run.refresh()
    path.write_text(page(runs, "a run"), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a run of `EPISODES`, and of a second run."""
    folder = tmp_path_factory.mktemp("page")
    log = write(folder / "sd" / "episodes", EPISODES, question=HOSTILE[0])
    write(log, [line("1", "42")], validate=True)
    write(log, [line("42", stop="solved")], step=2)
    losses = [(k, trained() | {"actor/loss": -0.1 * k}) for k in (1, 2)]
    write_metrics(folder / "sd" / "metrics.jsonl", losses)
    other = write(folder / "grpo" / "episodes", [line("1"), line("2")])
    return written(folder / "page.html", log, other)


@pytest.fixture
def tab(open_tab, address: str) -> Iterator[Callable[..., Tab]]:
    return partial(open_tab, address)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_it_fits(tab, size: str, scheme: str) -> None:
    one = tab(scheme, size)
    background = one.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) < 200) == (scheme == "dark")
    for place in ("overview", "list", 0, 3, 12):
        one.show(place)
        assert one.fits(), place


def test_ten_thousand_episodes(open_tab, tmp_path: Path) -> None:
    usual, needle = (line("1"), turn("42", parent=0, stop="solved", text="so 42, a Needle"))
    episodes = [usual, (usual[0], needle)] * (MANY // 2)
    one = open_tab(written(tmp_path / "page.html", write(tmp_path / "log", episodes)))
    assert one.count() == MANY
    one.filter("outcome", "fixed")
    one.filter("text", "NEEDLE")
    assert one.count() == MANY // 2
    assert one.page.locator(".row").count() < 40


def test_the_search_finds_what_is_there_and_nothing_else(tab) -> None:
    one, rng = tab(), random.Random(2)
    one.show("list")
    one.filter("text", "so")
    one.count()  # the texts are read
    texts = one.page.evaluate("state.texts.map(text => text.slice(0, 3000))")
    queries = ["\u00e9", "漢字", "\U0001f600", "  ", "``", "zz", "xxxxx", "so 42!", "nowhere"]
    for text in texts:
        for size in (1, 2, 3, 4, 5, 6, 12, 40):
            start = rng.randrange(max(1, len(text) - size))
            queries += [text[start : start + size], text[start : start + size][::-1]]
    wrong = """queries => queries.filter(query => {
        const grams = gramsOf(query);
        return state.texts.some(
            (text, id) => text.includes(query) !== holds(id, query, grams)); })"""
    assert one.page.evaluate(wrong, queries) == []


def test_hostile_text_shows_as_text(tab) -> None:
    one = tab()
    for k, text in enumerate(TEXTS, start=4):
        given = as_shown(hostile(text)[0].feedback.text)  # without most control characters
        one.show(k)
        question, _, attempt, feedback, before, after = one.texts("#episode pre:not(details pre)")
        assert question == HOSTILE[0]
        assert (attempt, feedback, before) == (as_shown(text), given, as_shown(text))
        assert after == as_shown(f"{text}!")
        facts = one.page.locator("#episode .feedback").inner_text()
        assert "leak: " in facts
        assert "instead of: " in facts
    assert one.is_safe()


def test_the_middle_of_a_long_answer_is_folded(tab) -> None:
    one = tab()
    one.show(3)
    for pre, text in ((2, LONG), (5, f"{LONG} end")):
        box = one.page.locator("#episode pre").nth(pre)
        assert len(box.text_content()) < 2100
        assert box.text_content().endswith(text[-900:])
        box.get_by_role("button").click()
        assert box.text_content() == text


def test_the_keyboard(tab) -> None:
    one = tab()
    keys = one.page.keyboard
    keys.press("/")
    assert one.focused() == "text"
    keys.type("j/k")  # in a field these are letters
    assert one.page.locator("#filters [name=text]").input_value() == "j/k"
    assert one.count() == 0
    one.clear(NUM)
    keys.press("Escape")
    assert one.focused() == "rows"
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
        keys.press(key)
    one.until("state.current === 1 && document.activeElement.id === 'episode-title'")
    for key, shown in (("j", 2), ("k", 1)):
        keys.press(key)
        one.until(f"state.current === {shown}")
    keys.press("Escape")
    one.until("document.activeElement.id === 'rows'")
    keys.press("End")
    row = one.page.locator(".row.active")
    assert row.text_content().startswith("✓")
    active = one.page.locator("#rows").get_attribute("aria-activedescendant")
    assert active == row.get_attribute("id")
    keys.press("Escape")
    one.until("document.body.dataset.view === 'overview'")  # the event of a new hash comes later


def test_order_and_filters_of_the_list(tab) -> None:
    one = tab()
    one.show("list")
    labels = "[...document.querySelectorAll('.row')].map(row => row.getAttribute('aria-label'))"
    for order, first in (("most turns", "wrong, branches:"), ("newest first", "right; step 2")):
        one.filter("sort", order)
        assert one.page.evaluate(labels)[0].startswith(first)
    for name, value in {"split": "val", "from": "2", "event": "withheld"}.items():
        one.filter(name, value)
        assert one.count() == 1
        one.clear(NUM)


def test_attempts_are_side_by_side_with_the_difference_marked(tab) -> None:
    one = tab()
    one.show(0)
    assert one.texts("#episode h3") == [
        "Attempt 1",
        "Attempt 2, branch 1 of 2",
        "Attempt 2, branch 2 of 2",
    ]
    assert one.page.locator("#episode ol ol > li").count() == 2
    pair = one.page.locator(".pair").first
    left, right = pair.locator("> div").all()
    assert "✗ wrong" in left.inner_text()
    assert "✓ right" in right.inner_text()
    assert left.locator("del").all_text_contents() == ["1"]
    assert right.locator("ins").all_text_contents() == ["42"]
    assert [box.locator("pre").text_content() for box in (left, right)] == ["so 1", "so 42"]
    assert left.bounding_box()["y"] == right.bounding_box()["y"]
    one.show(1)
    assert "it is 42" in one.page.get_by_label("Withheld feedback").inner_text()
    assert "end: feedback_unavailable · the guard" in one.page.locator("#episode").inner_text()


def test_a_screen_reader_finds_its_way(tab) -> None:
    one = tab()
    for role in ("banner", "navigation", "main", "search", "listbox"):
        assert one.page.get_by_role(role).count() == 1, role
    option = one.page.locator("#rows [role=option]").first
    assert option.get_attribute("aria-setsize") == str(NUM)
    assert "branches:" in option.get_attribute("aria-label")
    assert one.page.locator("input:not([aria-label]), select:not([aria-label])").count() == 0
    assert "train: " in one.page.get_by_role("img").first.get_attribute("aria-label")
    one.page.get_by_text("The charts as a table").click()
    one.until("document.querySelectorAll('details tr').length > 3")


@pytest.mark.parametrize("size", SIZES)
def test_a_click_on_a_chart_lists_the_episodes_of_that_step(tab, size: str) -> None:
    one = tab(size=size)
    box = one.page.locator("figure svg").first.bounding_box()
    one.page.mouse.move(box["x"] + box["width"] - 15, box["y"] + 50)
    output = one.page.locator("figure output").first
    assert output.text_content() == "step 2: sd train 100.0 % of 1"
    one.page.mouse.down()
    one.page.mouse.up()
    assert one.count() == 1
    assert one.focused() == "rows"
    assert one.page.locator(".row").first.is_visible()


def test_charts_of_several_runs(tab) -> None:
    one = tab()
    assert one.texts("#overview h3") == ["Answers", "Feedback", "Optimisation", "Speed"]
    corrected = one.page.locator("figure").nth(2)
    # Step 2 has no revision, so the last value is that of step 1.
    assert "sd train 92.3 % (step 1)" in corrected.locator("output").text_content()
    assert "–" not in "".join(one.texts("figure output"))
    dots = one.page.locator("figure").first.locator("circle.train.run0").all()
    many, single = [float(dot.get_attribute("r")) for dot in dots]
    assert many > single
    assert {"sd train", "grpo train"} < set(one.texts("#overview > .legend span"))
    assert one.texts("#overview tbody td:first-child") == ["sd train", "sd val", "grpo train"]
    one.page.get_by_label("Run whose episodes are listed").select_option("grpo")
    assert one.count() == 2
    one.show(1)
    link = one.page.evaluate("location.hash")
    one.page.reload()
    one.until("state.current === 1")
    assert one.page.evaluate("location.hash") == link
    assert one.count() == 2


def lcs(a: str, b: str) -> int:
    row = [0] * (len(b) + 1)
    for x in a:
        before = row[:]
        for j, y in enumerate(b):
            row[j + 1] = before[j] + 1 if x == y else max(row[j], before[j + 1])
    return row[-1]


def test_the_word_difference_is_right_and_shortest(tab) -> None:
    one, rng = tab(), random.Random(1)
    # Every word here is one character.
    pairs = [
        [" ".join(rng.choice("ab,\n é漢") for _ in range(rng.randrange(9))) for _ in range(2)]
        for _ in range(200)
    ]
    found = one.page.evaluate(f"pairs => pairs.map(([a, b]) => {DIFFERENCE}(a, b))", pairs)
    for (before, after), edits in zip(pairs, found, strict=True):
        assert "".join(text for kind, text in edits if kind <= 0) == before
        assert "".join(text for kind, text in edits if kind >= 0) == after
        assert sum(len(text) for kind, text in edits if kind == 0) == lcs(before, after)
    long = " ".join(map(str, range(20_000)))
    number = f"([a, b]) => {DIFFERENCE}(a, b).length"
    assert one.page.evaluate(number, [long, long.replace("7", "8 8")]) == 4
