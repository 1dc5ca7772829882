"""The written page in a real browser: light and dark, desktop and phone, few and 10 000 episodes,
hostile text, keyboard, several runs, and what episodes train token by token.
"""

import random
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rltf_verl.runlog.rows import write_rows
from rltf_verl.tools.report.view.build import page
from rltf_verl.tools.report.view.limits import MOST_TOKENS
from rltf_verl.tools.report.view.run import runs_at
from tests.e2e.view.tab import SIZES, Tab, as_shown
from tests.support.log_records import HINT, HOSTILE, LEAKY, line, row, turn, write
from tests.support.run_files import step as trained
from tests.support.run_files import write_metrics

pytestmark = pytest.mark.e2e

TEXTS = [text[:3000] for text in HOSTILE]
"""Hostile texts that are short enough not to be folded."""
HOSTILE_TOKENS = [text[:900] for text in HOSTILE]
LONG = " ".join(map(str, range(4000)))
TOKENS = ["So", " 6", " ·", " 7", "\n", "\n", "\t", "=", " 42", "", "."]
MANY = 10_000

TREE, WITHHELD, MEANS, FOLDED, TWO_ROWS, CONTEXT, ODD, TOO_LONG, HOSTILE_TEXT = range(9)
"""Episodes by position; hostile ones from the last on."""
EPISODES = [
    (turn("1"), turn("42", parent=0, stop="solved"), turn("2", parent=0, stop="horizon")),
    (turn("1", None, withheld=LEAKY, stop="feedback_unavailable", error="the guard"),),
    line("42", "1"),
    (turn("1", text=LONG), turn("42", parent=0, text=f"{LONG} end", stop="solved")),
    (turn("1"), turn("42", parent=0, stop="solved", prompt="<b>Try</b> again: so 1")),
    *[line("1", "42")] * 3,
    *(
        (
            turn("1", type(HINT)(text, "judge", leak=text, original=text), text=text),
            turn("42", parent=0, text=f"{text}!", stop="solved"),
        )
        for text in TEXTS
    ),
]
NUM = len(EPISODES) + 2
"""With one of validation, and one of step 2."""
NAN = float("nan")
ROWS = {
    MEANS: [{"parts": row(role, 1, 0.0, "a")["parts"]} for role in ("attempt", "imitate")],
    TWO_ROWS: [row("attempt", 0, -0.5, *TOKENS), row("distill", 1, 0.25, *TOKENS, masked=(1, 4))],
    CONTEXT: [row("attempt", 0, 1.0, *TOKENS, context=(3, 4))],
    ODD: [row("attempt", 0, NAN, "a")],
    TOO_LONG: [row("attempt", 0, 1.0, *(f" {k}" for k in range(30_000)))],
    HOSTILE_TEXT: [row("attempt", 0, 1.0, *HOSTILE_TOKENS)],
}
ROWS[ODD][0]["parts"][0]["role"] = "gain"  # of a user-defined objective
ROWS[ODD][0]["tokens"] |= {"role": [5], "gap": [NAN], "log_prob": [-float("inf")]}


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
    rows = [{"step": 1, "uid": f"u1-{k}", "session_id": 0, "rows": r} for k, r in ROWS.items()]
    write_rows(log, 1, rows)
    write(log, [line("1", "42")], validate=True)
    write(log, [line("42", stop="solved")], step=2)
    losses = [(k, trained() | {"actor/loss": -0.1 * k}) for k in (1, 2)]
    write_metrics(folder / "sd" / "metrics.jsonl", losses)
    other = write(folder / "grpo" / "episodes", [line("1"), line("2")])
    return written(folder / "page.html", log, other)


@pytest.fixture
def tab(open_tab, address: str) -> Callable[..., Tab]:
    return partial(open_tab, address)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_it_fits(tab, size: str, scheme: str) -> None:
    one = tab(scheme, size)
    background = one.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) < 200) == (scheme == "dark")
    for place in ("overview", "list", TREE, FOLDED, HOSTILE_TEXT):
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


def test_hostile_text_shows_as_text(tab) -> None:
    one = tab()
    for k, text in enumerate(TEXTS, HOSTILE_TEXT):
        given = as_shown(EPISODES[k][0].feedback.text)  # without most control characters
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
    one.show(FOLDED)
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
    one.show(TREE)
    assert one.texts("#episode h3")[:3] == [
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
    one.show(WITHHELD)
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
    assert "sd train 94.1 % (step 1)" in corrected.locator("output").text_content()
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
    found = one.page.evaluate("pairs => pairs.map(([a, b]) => difference(a, b))", pairs)
    for (before, after), edits in zip(pairs, found, strict=True):
        assert "".join(text for kind, text in edits if kind <= 0) == before
        assert "".join(text for kind, text in edits if kind >= 0) == after
        assert sum(len(text) for kind, text in edits if kind == 0) == lcs(before, after)
    long = " ".join(map(str, range(20_000)))
    number = "([a, b]) => difference(a, b).length"
    assert one.page.evaluate(number, [long, long.replace("7", "8 8")]) == 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_rows_and_the_text_of_their_tokens(tab, scheme: str, size: str) -> None:
    one = tab(scheme, size)
    one.show(TWO_ROWS)
    assert one.texts(".trained h4") == [
        "Row 1: first prompt → attempt 1",
        "Row 2: first prompt → attempt 2",
    ]
    assert one.texts(".role") == ["attempt", "distill"]
    first, second = one.texts(".trained .numbers")
    assert first.startswith("▼ less likely11 tokensadvantage −0.5masked 0.0 %")
    assert second.startswith("▲ more likely")
    assert "masked 18.2 %" in second
    assert one.texts(".tokens") == ["".join(TOKENS)] * 2
    assert [line for line in one.texts(".line") if line.startswith("trains")] == [
        "trains: row 1, attempt −0.5",
        "trains: row 2, distill +0.25",
    ]
    assert one.fits()
    details = one.page.locator(".turn details")
    assert not details.locator("pre").is_visible()
    details.locator("summary").click()
    assert details.locator("pre").inner_text() == "<b>Try</b> again: so 1"
    # Line ends, tabs and empty tokens have a colour to be seen by, too.
    seen = """[...document.querySelectorAll('.tokens .t')].every(node => {
        const {width, height} = node.getBoundingClientRect(), style = getComputedStyle(node);
        return width > 3 && height > 3 && (node.matches('.zero') ||
            style.backgroundColor !== getComputedStyle(document.body).backgroundColor)})"""
    assert one.page.evaluate(seen)


def test_colours_follow_the_chosen_number_and_have_a_legend(tab) -> None:
    one = tab()
    one.show(TWO_ROWS)
    levels = """[...document.querySelectorAll('.tokens')].map(box =>
        [...box.querySelectorAll('.t')].map(token => token.className))"""
    first, second = one.page.evaluate(levels)
    assert set(first) == {"t n4"}
    assert [k for k, name in enumerate(second) if name == "t zero masked"] == [1, 4]
    assert set(second) == {"t p2", "t zero masked"}
    legend = one.texts(".scale .t")
    assert legend[0] == "−0.38 to −0.5"
    assert {"0", "+0.38 to +0.5"} < set(legend)
    one.page.get_by_label("log\u2011prob gap").check()
    first, second = one.page.evaluate(levels)
    assert first[:5] == ["t s0", "t s1", "t s2", "t s2", "t s3"]  # 0, 0.25, 0.5, 0.75, 1 nats
    assert second[4] == "t s3 masked"
    log_prob = one.page.get_by_label("log\u2011prob", exact=True)
    log_prob.check()
    assert one.page.evaluate(levels)[0][:3] == ["t s2", "t s3", "t s4"]  # −0.5, −1.5, −2.5
    assert "beyond −5" in one.texts(".scale .t")
    one.show(CONTEXT)
    assert log_prob.is_checked()  # from episode to episode
    assert one.page.evaluate(levels)[0][3:5] == ["t context", "t context"]


def test_the_keyboard_among_tokens_speaks(tab) -> None:
    one = tab()
    one.show(CONTEXT)
    readout = one.page.locator(".readout")
    assert readout.get_attribute("role") == "status"
    one.page.locator("input[value=advantage]").focus()
    one.page.keyboard.press("Tab")
    numbers = "attempt · advantage +1 · log\u2011prob −0.5 · gap 0"
    assert readout.text_content() == f'token 1 of 11 · "So" · {numbers}'
    moves = {"Right": 2, "Left": 1, "End": 11, "Home": 1, "Down": 6, "Up": 1}
    for key, token in moves.items():
        one.page.keyboard.press(key if key in ("End", "Home") else f"Arrow{key}")
        assert readout.text_content().startswith(f"token {token} "), key
    one.page.locator(".tokens .t").nth(3).hover()
    assert readout.text_content() == 'token 4 of 11 · " 7" · context, trains nothing'
    one.page.keyboard.press("Escape")
    assert one.focused() == "rows"


def test_hostile_tokens_show_as_text(tab) -> None:
    one = tab()
    one.show(HOSTILE_TEXT)
    assert one.texts(".tokens .t") == [as_shown(text) for text in HOSTILE_TOKENS]
    one.page.locator(".tokens").focus()
    for _ in HOSTILE_TOKENS:
        one.page.keyboard.press("ArrowRight")
        assert len(one.page.locator(".readout").text_content()) < 300
    assert one.is_safe()
    assert one.fits()


def test_rows_without_tokens_episodes_without_rows_and_odd_numbers(tab) -> None:
    one = tab()
    one.show(MEANS)
    assert one.texts(".role") == ["attempt", "imitate"]
    assert "only means" in one.page.locator(".trains").inner_text()
    assert "◆ no change" in one.texts(".numbers")[0]
    assert one.page.locator(".tokens").count() == 0
    one.show(TREE)
    assert one.page.locator(".trains").count() == 0
    one.show(ODD)
    assert "advantage nan" in one.texts(".numbers")[0]
    assert one.texts(".role") == ["gain"]
    one.page.locator(".tokens .t").first.hover()
    numbers = "custom objective · advantage nan · log\u2011prob -inf · gap nan"
    assert one.texts(".readout")[0].endswith(numbers)


def test_a_long_row_without_its_middle(tab) -> None:
    one = tab()
    one.show(TOO_LONG)
    readout, tokens = one.page.locator(".readout"), one.page.locator(".tokens .t")
    assert tokens.count() == MOST_TOKENS
    (note,) = one.texts(".tokens .left-out")
    assert note.startswith(f"[… {30_000 - MOST_TOKENS} tokens are not on this page: rltf inspect")
    one.page.locator(".tokens").focus()
    one.page.keyboard.press("End")
    assert readout.text_content().startswith('token 30000 of 30000 · " 29999"')
    assert tokens.last.is_visible()
    half = MOST_TOKENS // 2
    tokens.nth(half - 1).click()
    assert readout.text_content().startswith(f'token {half} of 30000 · " {half - 1}"')
    one.page.mouse.move(1, 1)  # what scrolls under the pointer is read out too
    one.page.keyboard.press("ArrowRight")
    assert readout.text_content().startswith(f"token {30_001 - half} of 30000")


def test_the_list_by_what_is_trained(tab) -> None:
    one = tab()
    for value, number in (("trains distill", 1), ("tokens known", 5), ("", NUM)):
        one.filter("trains", value)
        assert one.count() == number
