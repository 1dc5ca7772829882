"""What episodes train, in a real browser: rows, tokens, their colours, the keyboard among them,
hostile token text.
"""

import re

import pytest

from rltf_verl.tools.report.view.build import page as written_page
from rltf_verl.tools.report.view.limits import MOST_TOKENS
from tests.e2e.view.tab import SIZES, Tab
from tests.support.log_records import HOSTILE, line, records, row, turn, with_rows

pytestmark = pytest.mark.e2e

SAID = ["So", " 6", " ·", " 7", "\n", "\n", "\t", "=", " 42", "", "."]
LEFT_OUT = "[\0\x07\x1b\u2028\u2029\u202c\u202e\u2066]"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Episodes: 0 two rows, 1 with context, 2 without tokens, 3 nobody knows, 4 hostile, 5 long, 6
    odd numbers, 7 too long, 8 an objective of one's own.
    """
    folder = tmp_path_factory.mktemp("tokens")
    revised = (turn("1"), turn("42", parent=0, stop="solved", prompt="<b>Try</b> again: so 1"))
    found = records(folder / "log", [revised, *([line("1", "42")] * 8)])
    with_rows(
        found[0], row("attempt", 0, -0.5, *SAID), row("distill", 1, 0.25, *SAID, masked=(1, 4))
    )
    with_rows(found[1], row("attempt", 0, 1.0, *SAID, context=(3, 4)))
    with_rows(
        found[2], *({"parts": row(role, 1, 0.0, "a")["parts"]} for role in ("attempt", "imitate"))
    )
    with_rows(found[4], row("attempt", 0, 1.0, *HOSTILE))
    words = [("\n" if k % 23 == 22 else f" w{k}") for k in range(8000)]
    with_rows(
        found[5],
        row("attempt", 0, 1.0, *words),
        row("distill", 1, 1.0, *(f" {k}" for k in range(8000))),
    )
    odd = row("attempt", 0, "nan", "a", "b")
    odd["tokens"] |= {"gap": ["nan", 1.0], "log_prob": ["-inf", -1.0], "advantage": ["nan", "nan"]}
    with_rows(found[6], odd)
    with_rows(found[7], row("attempt", 0, 1.0, *(f" {k}" for k in range(30_000))))
    own = row("attempt", 0, 1.0, "a")
    own["parts"][0]["role"], own["tokens"]["role"] = "gain", [5]
    with_rows(found[8], own)
    found[8]["context"] = [{"role": "system", "content": "Be brief."}]
    found[8]["turns"][0]["reward"] = 5 / 9
    written = folder / "page.html"
    written.write_text(written_page(found, "a run"), encoding="utf-8")
    return written


@pytest.fixture
def tab(browser, path):
    opened = []

    def make(place: str, scheme: str = "light", size: str = "desktop") -> Tab:
        one = Tab(browser, path, scheme, size)
        opened.append(one)
        one.show(place)
        if place not in ("session-2", "session-3"):
            one.until("document.querySelector('.scale') !== null")
        return one

    yield make
    for one in opened:
        one.context.close()
        assert one.complaints == []


def texts(one: Tab, selector: str) -> list[str]:
    return one.page.locator(f"#episode {selector}").all_text_contents()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_rows_and_the_text_of_their_tokens(tab, scheme: str, size: str) -> None:
    one = tab("session-0", scheme, size)
    assert texts(one, ".trained h4") == [
        "Row 1: first prompt → attempt 1",
        "Row 2: first prompt → attempt 2",
    ]
    assert texts(one, ".role") == ["attempt", "distill"]
    told = texts(one, ".numbers")
    for number in (
        "▼ less likely",
        "11 tokens",
        "advantage −0.5",
        "masked 0.0 %",
        "log\u2011prob −0.5",
        "gap +0.25",
    ):
        assert number in told[0]
    assert "▲ more likely" in told[1]
    assert "masked 18.2 %" in told[1]
    assert texts(one, ".tokens") == ["".join(SAID)] * 2
    assert [line for line in texts(one, ".line") if line.startswith("trains")] == [
        "trains: row 1, attempt −0.5",
        "trains: row 2, distill +0.25",
    ]
    assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    seen = """[...document.querySelectorAll('.tokens .t')].every(node => {
        const {width, height} = node.getBoundingClientRect(), style = getComputedStyle(node);
        return width > 3 && height > 3 && style.backgroundImage === 'none' &&
            (node.matches('.zero') ||
            style.backgroundColor !== getComputedStyle(document.body).backgroundColor)})"""
    assert one.page.evaluate(seen), "line ends, tabs and empty tokens too have a colour to be seen"


def test_an_objective_of_ones_own_and_the_messages_before_the_question(tab) -> None:
    one = tab("session-8")
    assert texts(one, ".role") == ["gain"]
    assert texts(one, ".line")[1] == "trains: row 1, gain +1"
    one.page.locator(".tokens .t").hover()
    assert " · an objective of your own · advantage +1 · " in texts(one, ".readout")[0]
    assert texts(one, ".facts dt")[:2] == ["system", "question"]
    assert texts(one, ".facts dd")[0] == "Be brief."
    assert any(said.startswith("reward 0.556 · ") for said in texts(one, ".soft"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_on_every_colour(tab, scheme: str) -> None:
    """Contrast of at least 4.5 (WCAG 2 AA)."""
    one = tab("session-0", scheme)
    levels = [
        "zero",
        "context",
        *(f"{s}{k}" for s in "pn" for k in range(1, 5)),
        *(f"s{k}" for k in range(6)),
    ]
    found = one.page.evaluate(
        """levels => levels.map(level => {
            const node = modules.elements.el('span', {class: `t ${level}`}, 'a');
            document.querySelector('.tokens').append(node);
            const {color, backgroundColor} = getComputedStyle(node);
            const paper = getComputedStyle(document.body).backgroundColor;
            node.remove();
            return [color, backgroundColor === 'rgba(0, 0, 0, 0)' ? paper : backgroundColor]; })""",
        levels,
    )
    for level, (ink, paper) in zip(levels, found, strict=True):
        light, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, level


def luminance(colour: str) -> float:
    parts = [int(c) / 255 for c in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_colours_follow_the_chosen_number_and_have_a_legend(tab) -> None:
    one = tab("session-0")
    levels = (
        "[...document.querySelectorAll('.tokens')].map(box => [...box.querySelectorAll('.t')].map(t"
        " => t.className))"
    )
    first, second = one.page.evaluate(levels)
    assert set(first) == {"t n4"}
    assert [k for k, name in enumerate(second) if name == "t zero masked"] == [1, 4]
    assert set(second) == {"t p2", "t zero masked"}
    legend = texts(one, ".scale .t")
    assert legend[0] == "−0.38 to −0.5"
    assert {"0", "+0.38 to +0.5"} < set(legend)
    assert legend[-2].startswith("masked")
    one.page.get_by_label("log\u2011prob gap").check()
    first, second = one.page.evaluate(levels)
    assert first[:5] == ["t s0", "t s1", "t s2", "t s2", "t s3"]  # 0, 0.25, 0.5, 0.75, 1 nats
    assert second[4] == "t s3 masked"
    one.page.get_by_label("log\u2011prob", exact=True).check()
    assert one.page.evaluate(levels)[0][:3] == ["t s2", "t s3", "t s4"]  # −0.5, −1.5, −2.5
    assert "beyond −5" in texts(one, ".scale .t")
    one.show("session-1")
    one.until("document.querySelector('.scale') !== null")
    assert one.page.get_by_label(
        "log\u2011prob", exact=True
    ).is_checked()  # kept from episode to episode
    assert one.page.evaluate(levels)[0][3:5] == ["t context", "t context"]


def test_the_keyboard_among_tokens_speaks(tab) -> None:
    one = tab("session-1")
    told = one.page.locator(".readout")
    assert told.get_attribute("role") == "status"
    one.page.get_by_label("log\u2011prob", exact=True).focus()
    one.page.keyboard.press("Tab")
    assert (
        told.text_content()
        == 'token 1 of 11 · "So" · attempt · advantage +1 · log\u2011prob −0.5 · gap 0'
    )
    for key, said in [
        ("ArrowRight", "token 2 "),
        ("ArrowLeft", "token 1 "),
        ("ArrowLeft", "token 1 "),
        ("End", "token 11 "),
        ("Home", "token 1 "),
        ("ArrowDown", "token 6 "),
        ("ArrowDown", "token 7 "),
        ("ArrowUp", "token 6 "),
    ]:
        one.page.keyboard.press(key)
        assert told.text_content().startswith(said), key
    assert '"\\n"' in told.text_content()
    one.page.locator(".tokens .t").nth(3).hover()
    assert told.text_content() == 'token 4 of 11 · " 7" · context, trains nothing'
    one.page.keyboard.press("Escape")
    assert one.page.evaluate("document.activeElement.id") == "rows"


def test_hostile_tokens_show_as_text(tab) -> None:
    one = tab("session-4")
    shown = one.page.locator(".tokens .t").all_text_contents()
    assert shown == [re.sub(LEFT_OUT, lambda c: f"[U+{ord(c[0]):04X}]", text) for text in HOSTILE]
    one.page.locator(".tokens").focus()
    for _ in HOSTILE:
        one.page.keyboard.press("ArrowRight")
        assert len(one.page.locator(".readout").text_content()) < 300
    assert one.page.evaluate("window.hacked") is None
    assert one.page.locator("main :is(script, img, b)").count() == 0
    assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_rows_without_tokens_episodes_without_rows_and_odd_numbers(tab) -> None:
    one = tab("session-2")
    assert texts(one, ".role") == ["attempt", "imitate"]
    assert "only means" in one.page.locator(".trains").inner_text()
    assert "◆ no change" in texts(one, ".numbers")[0]
    assert one.page.locator(".tokens").count() == 0
    one.show("session-3")
    assert one.page.locator(".trains").count() == 0
    one.show("session-6")
    one.until("document.querySelector('.scale') !== null")
    assert "advantage nan" in texts(one, ".numbers")[0]
    one.page.locator(".tokens .t").first.hover()
    assert "log\u2011prob -inf · gap nan" in one.page.locator(".readout").text_content()


def test_long_rows_open_fast(tab) -> None:
    """Little slower than a plain list of as many tokens."""
    one = tab("session-2")
    ratio = one.times_plain(
        """async () => {
            location.hash = 'session-2';
            while (document.querySelector('.scale')) await new Promise(done => setTimeout(done, 1));
            location.hash = 'session-5';
            while (!document.querySelector('.scale')) await new Promise(d => setTimeout(d, 1));
            document.querySelector('.tokens').getBoundingClientRect(); }""",
        """() => {
            const list = document.createElement('pre');
            for (let k = 0; k < 16000; k++) {
                const token = document.createElement('span');
                token.textContent = ` w${k}`;
                token.title = String(k);
                list.append(token);
            }
            document.body.append(list);
            list.getBoundingClientRect();
            list.remove(); }""",
    )
    assert ratio < 20
    assert one.page.locator(".tokens .t").count() == 16_000
    one.page.locator(".tokens").first.focus()
    one.page.keyboard.press("End")
    assert one.page.locator(".readout").first.text_content().startswith("token 8000 of 8000")
    assert one.page.locator(".tokens .t").nth(7999).is_visible()


def test_a_row_that_is_too_long_shows_its_ends_and_how_much_is_left_out(tab) -> None:
    one = tab("session-7")
    assert one.page.locator(".tokens .t").count() == MOST_TOKENS
    (note,) = texts(one, ".tokens .left-out")
    assert note.startswith(f"[… {30_000 - MOST_TOKENS} tokens are not on this page: rltf inspect")
    one.page.locator(".tokens").focus()
    readout = one.page.locator(".readout")
    one.page.keyboard.press("End")
    assert readout.text_content().startswith('token 30000 of 30000 · " 29999"')
    half = MOST_TOKENS // 2
    one.page.locator(".tokens .t").nth(half - 1).click()
    assert readout.text_content().startswith(f'token {half} of 30000 · " {half - 1}"')
    one.page.mouse.move(1, 1)  # what scrolls under the pointer is read out too
    one.page.keyboard.press("ArrowRight")
    assert readout.text_content().startswith(
        f'token {30_000 - half + 1} of 30000 · " {30_000 - half}"'
    )


def test_the_list_by_what_is_trained(tab) -> None:
    one = tab("session-3")
    options = one.page.locator("#filters [name=trains] option").all_text_contents()
    assert options == [
        "whatever it trains",
        "tokens known (7)",
        "trains attempt (7)",
        "trains distill (2)",
        "trains imitate (1)",
    ]
    for value, number in (
        ("trains distill", 2),
        ("tokens known", 7),
        ("trains imitate", 1),
        ("", 9),
    ):
        one.filter("trains", value)
        assert one.count() == number


def test_the_message_of_a_revision_can_be_opened(tab) -> None:
    one = tab("session-0")
    details = one.page.locator(".turn details")
    assert details.count() == 1
    assert not details.locator("pre").is_visible()
    details.locator("summary").click()
    assert details.locator("pre").inner_text() == "<b>Try</b> again: so 1"
