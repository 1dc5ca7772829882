"""The written page in a real browser: light and dark, desktop and phone, few and 10 000 episodes,
hostile text, keyboard, several runs, and what episodes train token by token.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rltf_verl.runlog.rows import write_rows
from rltf_verl.tools.report.view.build import page
from rltf_verl.tools.report.view.episodes import MOST_TOKENS
from rltf_verl.tools.report.view.run import runs_at
from rltf_verl.types import Feedback, Note
from tests.e2e.view.tab import SIZES, Tab, as_shown
from tests.support.log_records import HINT, HOSTILE, LEAKY, acted, acts, line, row, turn, write
from tests.support.run_files import step as trained
from tests.support.run_files import write_metrics

pytestmark = pytest.mark.e2e

TEXTS = [text[:3000] for text in HOSTILE]
"""Hostile texts that are short enough not to be folded."""
HOSTILE_TOKENS = [text[:900] for text in HOSTILE]
LONG = " ".join(map(str, range(4000)))
TOKENS = ["So", " 6", " ·", " 7", "\n", "\n", "\t", "=", " 42", "", "."]
MANY = 10_000

THREE, WITHHELD, MEANS, FOLDED, TWO_ROWS, CONTEXT, ODD, TOO_LONG, HOSTILE_TEXT = range(9)
"""Episodes by position; hostile ones from the last on."""
EPISODES = [
    line("1", "42", "2"),
    (turn("1", None, withheld=LEAKY, stop="feedback_unavailable", error="the guard"),),
    line("42", "1"),
    (turn("1", text=LONG), turn("42", text=f"{LONG} end", stop="solved")),
    (turn("1"), turn("42", stop="solved", prompt="<b>Try</b> again: so 1")),
    *[line("1", "42")] * 3,
    *(
        (
            turn("1", type(HINT)(text, "judge", leak=text, original=text), text=text),
            turn("42", text=f"{text}!", stop="solved"),
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
    path.write_text(page(runs_at(folders), "a run"), encoding="utf-8")
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
    view = tab(scheme, size)
    background = view.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) < 200) == (scheme == "dark")
    for place in ("overview", "list", THREE, FOLDED, HOSTILE_TEXT):
        view.show(place)
        assert view.fits(), place


def test_a_followed_page_reloads_and_disturbs_no_reader(open_tab, tmp_path: Path) -> None:
    log = write(tmp_path / "log", [line("1", "42")])
    for step in range(1, 6):
        write(log, [line("1", "42"), line("1", "2")], step=step)
    path = tmp_path / "page.html"

    def write_page(title: str, reload_s: int) -> None:
        path.write_text(page(runs_at([log]), title, reload_s), encoding="utf-8")

    expect = pytest.importorskip("playwright.sync_api").expect  # waits, also across a reload
    write_page("one", 5)
    tab = open_tab(path.as_uri()).page
    tab.evaluate("document.querySelector('main').scrollTop = 120")
    write_page("two", 5)  # the click below comes long before the next reload
    expect(tab).to_have_title("two", timeout=30_000)
    expect(tab.locator("main")).to_have_js_property("scrollTop", 120, timeout=30_000)
    tab.locator("#rows [role=option]").first.click()
    expect(tab).to_have_url(re.compile("#episode/"))
    write_page("three", 1)
    tab.wait_for_timeout(6000)
    assert tab.title() == "two"
    tab.locator("nav a").first.click()
    expect(tab).to_have_title("three", timeout=30_000)


def test_ten_thousand_episodes(open_tab, tmp_path: Path) -> None:
    usual, needle = (line("1"), turn("42", stop="solved", text="so 42, a Needle"))
    episodes = [usual, (usual[0], needle)] * (MANY // 2)
    view = open_tab(written(tmp_path / "page.html", write(tmp_path / "log", episodes)))
    assert view.count() == MANY
    view.filter("outcome", "fixed")
    view.filter("text", "NEEDLE")
    assert view.count() == MANY // 2
    assert view.page.locator(".row").count() < 40


def test_hostile_text_shows_as_text(tab) -> None:
    view = tab()
    for k, text in enumerate(TEXTS, HOSTILE_TEXT):
        given = as_shown(EPISODES[k][0].feedback.text)  # without most control characters
        view.show(k)
        question, _, attempt, feedback, before, after = view.texts("#episode pre:not(details pre)")
        assert question == HOSTILE[0]
        assert (attempt, feedback, before) == (as_shown(text), given, as_shown(text))
        assert after == as_shown(f"{text}!")
        facts = view.page.locator("#episode .feedback").inner_text()
        assert "leak: " in facts
        assert "instead of: " in facts
    assert view.is_safe()


def test_the_middle_of_a_long_answer_is_folded(tab) -> None:
    view = tab().show(FOLDED)
    for pre, text in ((2, LONG), (5, f"{LONG} end")):
        box = view.page.locator("#episode pre").nth(pre)
        assert len(box.text_content()) < 2100
        assert box.text_content().endswith(text[-900:])
        box.get_by_role("button").click()
        assert box.text_content() == text


def test_the_keyboard(tab) -> None:
    view = tab()
    keys = view.page.keyboard
    keys.press("/")
    assert view.focused() == "text"
    keys.type("j/k")  # in a field these are letters
    assert view.page.locator("#filters [name=text]").input_value() == "j/k"
    assert view.count() == 0
    view.clear(NUM)
    keys.press("Escape")
    assert view.focused() == "rows"
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
        keys.press(key)
    view.until("state.current === 1 && document.activeElement.id === 'episode-title'")
    for key, shown in (("j", 2), ("k", 1)):
        keys.press(key)
        view.until(f"state.current === {shown}")
    keys.press("Escape")
    view.until("document.activeElement.id === 'rows'")
    keys.press("End")
    row = view.page.locator(".row.active")
    assert row.text_content().startswith("✓")
    active = view.page.locator("#rows").get_attribute("aria-activedescendant")
    assert active == row.get_attribute("id")
    keys.press("Escape")
    view.until("document.body.dataset.view === 'overview'")  # the event of a new hash comes later


def test_order_and_filters_of_the_list(tab) -> None:
    view = tab().show("list")
    labels = "[...document.querySelectorAll('.row')].map(row => row.getAttribute('aria-label'))"
    for order, first in (("most turns", "wrong, right, wrong"), ("newest first", "right; step 2")):
        view.filter("sort", order)
        assert view.page.evaluate(labels)[0].startswith(first)
    chosen = {"split": "val", "from": "2", "event": "withheld", "trains": "trains distill"}
    for name, value in chosen.items():
        view.filter(name, value)
        assert view.count() == 1
        view.clear(NUM)


def test_attempts_are_side_by_side_with_the_difference_marked(tab) -> None:
    view = tab().show(THREE)
    assert view.page.locator("#episode .turns > li").count() == 3
    left, right = view.page.locator(".pair").first.locator("> div").all()
    assert "✗ wrong" in left.inner_text()
    assert "✓ right" in right.inner_text()
    assert left.locator("del").all_text_contents() == ["1"]
    assert right.locator("ins").all_text_contents() == ["42"]
    assert [box.locator("pre").text_content() for box in (left, right)] == ["so 1", "so 42"]
    assert left.bounding_box()["y"] == right.bounding_box()["y"]
    view.show(WITHHELD)
    assert "it is 42" in view.page.get_by_label("Withheld feedback").inner_text()
    assert "end: no feedback · the guard" in view.page.locator("#episode").inner_text()


@pytest.mark.parametrize("size", SIZES)
def test_a_trajectory_is_read_step_by_step(open_tab, tmp_path: Path, size: str) -> None:
    call = '<tool_call>{"name": "do", "arguments": {}}</tool_call>'
    looked = acts(f"I look. {call}", "a stair", what="look", often=2)
    notes = (Note("<b>Not</b> down.", 1), Note("Be quick."), Note("Never played.", 8))
    text = "Step 2: <b>Not</b> down.\nBe quick.\nStep 9: Never played."
    attempt = acted(
        "1",
        looked,
        acts(call, HOSTILE[0], "error", what=HOSTILE[1]),
        feedback=Feedback(text, "verifier", notes=notes),
        end="steps",
    )
    better = acted("42", looked, acts(call, "out!", what="up"), stop="solved", end="done")
    log = write(tmp_path / "log", [(attempt, better)])
    view = open_tab(written(tmp_path / "page.html", log), size=size).show(0)
    first, second = view.page.locator(".turn").all()
    assert "2 steps · ended: the limit of steps" in first.locator(".head").inner_text()
    assert first.locator(".step").nth(0).locator("pre").all_text_contents() == [
        "I look.",
        "look",
        "2",
        "a stair",
    ]
    down = first.locator(".step").nth(1)
    assert down.get_by_label("Note").inner_text() == "<b>Not</b> down."
    assert down.locator(".call").inner_text().split("\n") == ["do", "what", HOSTILE[1]]
    assert down.locator(".seen").inner_text().split("\n") == ["error", HOSTILE[0]]
    assert view.page.locator(".step aside").count() == 1
    note, done = (down.locator(name).bounding_box() for name in ("aside", ".done"))
    assert (note["y"] < done["y"] + 10) == (size == "desktop")  # next to it, or below
    rest = view.page.locator("section.feedback pre").inner_text()
    assert rest == "Be quick.\nStep 9: Never played."
    assert second.locator(".step h4").all_inner_texts() == ["step 1 as before", "step 2"]
    assert view.is_safe()
    assert view.fits()


def test_a_screen_reader_finds_its_way(tab) -> None:
    view = tab()
    for role in ("banner", "navigation", "main", "search", "listbox"):
        assert view.page.get_by_role(role).count() == 1, role
    option = view.page.locator("#rows [role=option]").first
    assert option.get_attribute("aria-setsize") == str(NUM)
    assert "right" in option.get_attribute("aria-label")
    assert view.page.locator("input:not([aria-label]), select:not([aria-label])").count() == 0
    assert "train: " in view.page.get_by_role("img").first.get_attribute("aria-label")
    view.page.get_by_text("The charts as a table").click()
    view.until("document.querySelectorAll('details tr').length > 3")


@pytest.mark.parametrize("size", SIZES)
def test_a_click_on_a_chart_lists_the_episodes_of_that_step(tab, size: str) -> None:
    view = tab(size=size)
    box = view.page.locator("figure svg").first.bounding_box()
    view.page.mouse.move(box["x"] + box["width"] - 15, box["y"] + 50)
    output = view.page.locator("figure output").first
    assert output.text_content() == "step 2: sd train 100.0 % of 1"
    view.page.mouse.down()
    view.page.mouse.up()
    assert view.count() == 1
    assert view.focused() == "rows"
    assert view.page.locator(".row").first.is_visible()


def test_charts_of_several_runs(tab) -> None:
    view = tab()
    broken = view.page.locator("figure", has_text="Broken")
    # Step 2 has no revision, so the last value is that of step 1.
    assert "sd train 11.1 % (step 1)" in broken.locator("output").text_content()
    assert "–" not in "".join(view.texts("figure output"))
    dots = view.page.locator("figure").first.locator("circle.train.run0").all()
    many, single = [float(dot.get_attribute("r")) for dot in dots]
    assert many > single
    assert {"sd train", "grpo train"} < set(view.texts("#overview > .legend span"))
    assert view.texts("#overview tbody td:first-child") == ["sd train", "sd val", "grpo train"]
    view.page.get_by_label("Run whose episodes are listed").select_option("grpo")
    assert view.count() == 2
    view.show(1)
    link = view.page.evaluate("location.hash")
    view.page.reload()
    view.until("state.current === 1")
    assert view.page.evaluate("location.hash") == link
    assert view.count() == 2


def test_an_evaluation_is_a_table(open_tab, tmp_path: Path) -> None:
    episodes = [line("1", "42"), line("42", stop="solved"), line("1", "1")]
    once = write(tmp_path / "once", episodes, step=0, validate=True)
    acting = write(tmp_path / "acting", [(acted("1", acts("No."), stop="horizon"),)], step=0)
    view = open_tab(written(tmp_path / "page.html", once, acting))
    assert view.page.locator("figure").count() == 0
    lines = [one.inner_text().split("\t") for one in view.page.locator("#overview tr").all()]
    assert lines[:3] == [
        ["", "once val", "acting train", ""],
        ["Episodes", "3", "1", ""],
        ["First answer right", "33.3 % of 3", "0.0 % of 1", "Attempts at turn 1."],
    ]
    assert ["Steps of an attempt", "–", "1 of 1", "Mean."] in lines
    assert view.fits()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_rows_and_the_text_of_their_tokens(tab, scheme: str, size: str) -> None:
    view = tab(scheme, size).show(TWO_ROWS)
    assert view.texts(".role") == ["attempt", "distill"]
    assert "masked 18.2 %" in view.texts(".trained .numbers")[1]
    assert view.texts(".tokens") == ["".join(TOKENS)] * 2
    assert [line for line in view.texts(".line") if line.startswith("trains")] == [
        "trains: row 1, attempt −0.5",
        "trains: row 2, distill +0.25",
    ]
    assert view.fits()
    details = view.page.locator(".turn details")
    assert not details.locator("pre").is_visible()
    details.locator("summary").click()
    assert details.locator("pre").inner_text() == "<b>Try</b> again: so 1"
    # Line ends, tabs and empty tokens have a colour to be seen by, too.
    seen = """[...document.querySelectorAll('.tokens .t')].every(node => {
        const {width, height} = node.getBoundingClientRect(), style = getComputedStyle(node);
        return width > 3 && height > 3 && (node.matches('.zero') ||
            style.backgroundColor !== getComputedStyle(document.body).backgroundColor)})"""
    assert view.page.evaluate(seen)


def test_colours_follow_the_chosen_number_and_have_a_legend(tab) -> None:
    view = tab().show(TWO_ROWS)
    levels = """[...document.querySelectorAll('.tokens')].map(box =>
        [...box.querySelectorAll('.t')].map(token => token.className))"""
    first, second = view.page.evaluate(levels)
    assert set(first) == {"t n4"}
    assert [k for k, name in enumerate(second) if name == "t zero masked"] == [1, 4]
    assert set(second) == {"t p2", "t zero masked"}
    assert "+0.38 to +0.5" in view.texts(".scale .t")
    view.page.get_by_label("log\u2011prob gap").check()
    first, second = view.page.evaluate(levels)
    assert first[:5] == ["t s0", "t s1", "t s2", "t s2", "t s3"]  # 0, 0.25, 0.5, 0.75, 1 nats
    assert second[4] == "t s3 masked"
    log_prob = view.page.get_by_label("log\u2011prob", exact=True)
    log_prob.check()
    assert view.page.evaluate(levels)[0][:3] == ["t s2", "t s3", "t s4"]  # −0.5, −1.5, −2.5
    assert "beyond −5" in view.texts(".scale .t")
    view.show(CONTEXT)
    assert log_prob.is_checked()  # from episode to episode
    assert view.page.evaluate(levels)[0][3:5] == ["t context", "t context"]


def test_the_keyboard_among_tokens_speaks(tab) -> None:
    view = tab().show(CONTEXT)
    readout = view.page.locator(".readout")
    assert readout.get_attribute("role") == "status"
    view.page.locator("input[value=advantage]").focus()
    view.page.keyboard.press("Tab")
    numbers = "attempt · advantage +1 · log\u2011prob −0.5 · gap 0"
    assert readout.text_content() == f'token 1 of 11 · "So" · {numbers}'
    moves = {"Right": 2, "Left": 1, "End": 11, "Home": 1, "Down": 6, "Up": 1}
    for key, token in moves.items():
        view.page.keyboard.press(key if key in ("End", "Home") else f"Arrow{key}")
        assert readout.text_content().startswith(f"token {token} "), key
    view.page.locator(".tokens .t").nth(3).hover()
    assert readout.text_content() == 'token 4 of 11 · " 7" · context, trains nothing'
    view.page.keyboard.press("Escape")
    assert view.focused() == "rows"


def test_hostile_tokens_show_as_text(tab) -> None:
    view = tab().show(HOSTILE_TEXT)
    assert view.texts(".tokens .t") == [as_shown(text) for text in HOSTILE_TOKENS]
    view.page.locator(".tokens").focus()
    for _ in HOSTILE_TOKENS:
        view.page.keyboard.press("ArrowRight")
        assert len(view.page.locator(".readout").text_content()) < 300
    assert view.is_safe()
    assert view.fits()


def test_rows_without_tokens_episodes_without_rows_and_odd_numbers(tab) -> None:
    view = tab().show(MEANS)
    assert view.texts(".role") == ["attempt", "imitate"]
    assert "only means" in view.page.locator(".trains").inner_text()
    assert "◆ no change" in view.texts(".numbers")[0]
    assert view.page.locator(".tokens").count() == 0
    view.show(THREE)
    assert view.page.locator(".trains").count() == 0
    view.show(ODD)
    assert "advantage nan" in view.texts(".numbers")[0]
    assert view.texts(".role") == ["gain"]
    view.page.locator(".tokens .t").first.hover()
    numbers = "custom objective · advantage nan · log\u2011prob -inf · gap nan"
    assert view.texts(".readout")[0].endswith(numbers)


def test_a_long_row_without_its_middle(tab) -> None:
    view = tab().show(TOO_LONG)
    readout, tokens = view.page.locator(".readout"), view.page.locator(".tokens .t")
    assert tokens.count() == MOST_TOKENS
    (note,) = view.texts(".tokens .left-out")
    assert note.startswith(f"[… {30_000 - MOST_TOKENS} tokens are not on this page: rltf inspect")
    view.page.locator(".tokens").focus()
    view.page.keyboard.press("End")
    assert readout.text_content().startswith('token 30000 of 30000 · " 29999"')
    assert tokens.last.is_visible()
    half = MOST_TOKENS // 2
    tokens.nth(half - 1).click()
    assert readout.text_content().startswith(f'token {half} of 30000 · " {half - 1}"')
    view.page.mouse.move(1, 1)  # what scrolls under the pointer is read out too
    view.page.keyboard.press("ArrowRight")
    assert readout.text_content().startswith(f"token {30_001 - half} of 30000")
