"""What episodes train, in a real browser: rows, tokens, their colours, the keyboard among them,
hostile token text.
"""

import pytest

from rltf_verl.runlog.rows import write_rows
from rltf_verl.tools.report.view.build import page
from rltf_verl.tools.report.view.limits import MOST_TOKENS
from rltf_verl.tools.report.view.run import runs_at
from tests.e2e.view.tab import SIZES, as_shown
from tests.support.log_records import HOSTILE, line, row, turn, write

pytestmark = pytest.mark.e2e

TOKENS = ["So", " 6", " ·", " 7", "\n", "\n", "\t", "=", " 42", "", "."]
TWO_ROWS, CONTEXT, MEANS, UNKNOWN, HOSTILE_TEXT, ODD, TOO_LONG = range(7)
"""Episodes by position."""


def odd_row() -> dict:
    """A role of a user-defined objective, and numbers that JSON has no form for."""
    nan = float("nan")
    odd = row("attempt", 0, nan, "a", "b")
    odd["parts"][0]["role"] = "gain"
    odd["tokens"] |= {"role": [5, 5], "gap": [nan, 1.0], "log_prob": [-float("inf"), -1.0]}
    return odd


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("tokens")
    revised = (turn("1"), turn("42", parent=0, stop="solved", prompt="<b>Try</b> again: so 1"))
    log = write(folder / "log", [revised, *([line("1", "42")] * 6)])
    rows = {
        TWO_ROWS: [
            row("attempt", 0, -0.5, *TOKENS),
            row("distill", 1, 0.25, *TOKENS, masked=(1, 4)),
        ],
        CONTEXT: [row("attempt", 0, 1.0, *TOKENS, context=(3, 4))],
        MEANS: [{"parts": row(role, 1, 0.0, "a")["parts"]} for role in ("attempt", "imitate")],
        HOSTILE_TEXT: [row("attempt", 0, 1.0, *HOSTILE)],
        ODD: [odd_row()],
        TOO_LONG: [row("attempt", 0, 1.0, *(f" {k}" for k in range(30_000)))],
    }
    lines = [{"step": 1, "uid": f"u1-{k}", "session_id": 0, "rows": r} for k, r in rows.items()]
    write_rows(log, 1, lines)
    runs = runs_at([log])
    runs[0].refresh()
    path = folder / "page.html"
    path.write_text(page(runs, "a run"), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def tab(open_tab, address):
    def make(episode: int, *options: str):
        one = open_tab(address, *options)
        show(one, episode)
        return one

    return make


def show(one, episode: int) -> None:
    one.show(episode)
    if episode not in (MEANS, UNKNOWN):
        one.until("document.querySelector('.scale') !== null")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_rows_and_the_text_of_their_tokens(tab, scheme: str, size: str) -> None:
    one = tab(TWO_ROWS, scheme, size)
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
    one = tab(TWO_ROWS)
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
    show(one, CONTEXT)
    assert log_prob.is_checked()  # from episode to episode
    assert one.page.evaluate(levels)[0][3:5] == ["t context", "t context"]


def test_the_keyboard_among_tokens_speaks(tab) -> None:
    one = tab(CONTEXT)
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
    one = tab(HOSTILE_TEXT)
    assert one.texts(".tokens .t") == [as_shown(text) for text in HOSTILE]
    one.page.locator(".tokens").focus()
    for _ in HOSTILE:
        one.page.keyboard.press("ArrowRight")
        assert len(one.page.locator(".readout").text_content()) < 300
    assert one.is_safe()
    assert one.fits()


def test_rows_without_tokens_episodes_without_rows_and_odd_numbers(tab) -> None:
    one = tab(MEANS)
    assert one.texts(".role") == ["attempt", "imitate"]
    assert "only means" in one.page.locator(".trains").inner_text()
    assert "◆ no change" in one.texts(".numbers")[0]
    assert one.page.locator(".tokens").count() == 0
    show(one, UNKNOWN)
    assert one.page.locator(".trains").count() == 0
    show(one, ODD)
    assert "advantage nan" in one.texts(".numbers")[0]
    assert one.texts(".role") == ["gain"]
    one.page.locator(".tokens .t").first.hover()
    numbers = "custom objective · advantage nan · log\u2011prob -inf · gap nan"
    assert one.texts(".readout")[0].endswith(numbers)


def test_a_long_row_without_its_middle(tab) -> None:
    one = tab(TOO_LONG)
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
    one = tab(UNKNOWN)
    for value, number in (("trains distill", 1), ("tokens known", 5), ("", 7)):
        one.filter("trains", value)
        assert one.count() == number
