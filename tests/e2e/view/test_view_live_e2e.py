"""The live page in a real browser, of runs that grow, pack, resume and degenerate under it."""

import threading
from collections.abc import Iterator

import pytest

from rltf_verl.runlog.files import pack, set_aside_after
from rltf_verl.runlog.rows import write_rows
from rltf_verl.tools.report.live.run import LiveRuns, live_runs
from rltf_verl.tools.report.live.server import serving
from tests.e2e.view.tab import LiveTab
from tests.support.log_records import HINT, HOSTILE, line, row, turn, write
from tests.support.run_files import step as trained
from tests.support.run_files import write_metrics

pytestmark = pytest.mark.e2e

TEXTS = [text[:2000] for text in HOSTILE]


class Run:
    """A run's folder that somebody writes."""

    def __init__(self, folder) -> None:
        self.folder, self.log = folder, folder / "checkpoints" / "episodes"
        self.steps: list[tuple[int, dict]] = []

    def play(self, step: int, *episodes, **metrics: float) -> None:
        """Metrics first: a page that finds a log without them looks for them again 30 s later."""
        self.steps.append((step, trained() | {"actor/loss": -0.1 * step} | metrics))
        write_metrics(self.folder / "metrics.jsonl", self.steps)
        write(self.log, episodes, step=step)


@pytest.fixture
def opened(browser, tmp_path) -> Iterator:
    """A function: names of runs -> (the runs, a tab of their page)."""
    stop, tabs, pages = threading.Event(), [], []

    def make(*names: str) -> tuple[list[Run], LiveTab]:
        runs = [Run(tmp_path / name) for name in names]
        shown = LiveRuns(live_runs([run.folder for run in runs]), "a run")
        pages.append(serving(shown, "127.0.0.1", 0))
        address = pages[-1].__enter__().address

        def look() -> None:
            while not stop.wait(0.1):
                shown.refresh()

        threading.Thread(target=look, daemon=True).start()
        tabs.append(LiveTab(browser, address))
        return runs, tabs[-1]

    yield make
    stop.set()
    for one in tabs:
        one.context.close()
    for page in pages:
        page.__exit__(None, None, None)
    assert [complaint for one in tabs for complaint in one.complaints] == []


def test_it_waits_then_grows_and_what_is_open_stays_open(opened) -> None:
    (run,), tab = opened("sd")
    tab.until("document.getElementById('status').textContent.includes('Waiting')")
    run.play(1, line("1", "42"), line("42", "1"))
    tab.until("modules.state.state.index.step.length === 2")
    tab.show("session-1")
    said = "document.querySelector('#episode h2').textContent"
    before = tab.page.evaluate(said)
    run.play(2, line("42", "42"))
    write(run.log, [line("1"), line("1")], step=0, validate=True)  # before all others
    tab.until("modules.state.state.index.step.length === 5")
    tab.until("location.hash === '#session-3'")
    assert tab.page.evaluate(said) == before
    assert "4 of 5" not in tab.page.locator("#episode .bar").inner_text()  # the newest come first
    assert tab.page.locator("#problem li").count() == 1
    tab.show("session-2")
    assert tab.page.locator("#problem li").all_inner_texts() == ["step 1\n✗✓", "step 2\n✓✓"]
    tab.page.locator("#problem a").nth(1).click()
    tab.until("modules.state.state.shownId === 4")
    pack(run.log, 2)
    tab.until("modules.state.state.index.versions.length === 3")
    tab.show("session-3")
    assert tab.page.evaluate(said) == before
    labels = tab.page.locator("figcaption").all_inner_texts()
    assert any(label.startswith("Loss") for label in labels)
    assert tab.page.locator("#status").inner_text().startswith("● step 2")


def test_a_resumed_run_takes_back_what_it_plays_again(opened) -> None:
    (run,), tab = opened("sd")
    for step in (1, 2, 3):
        run.play(step, line("1"))
    tab.until("modules.state.state.index?.step.length === 3")
    tab.show("session-2")
    set_aside_after(run.log, 1)
    tab.until("modules.state.state.index.step.length === 1")
    run.steps = run.steps[:1]
    run.play(2, line("42"))
    tab.until("modules.state.state.index.verdicts.join() === '✗,✓'")
    tab.show("session-1")
    assert "✓ right" in tab.page.locator("#episode .turn").inner_text()


def test_hostile_texts_show_as_text(opened) -> None:
    (run,), tab = opened("sd")
    hint = [type(HINT)(text, "judge", leak=text, original=text) for text in TEXTS]
    episodes = [
        (turn("1", own, text=text), turn("42", parent=0, text=text))
        for own, text in zip(hint, TEXTS, strict=True)
    ]
    write(run.log, episodes, question=TEXTS[0], env=TEXTS[1])
    rows = [row("attempt", 0, 1.0, TEXTS[0])]
    write_rows(run.log, 1, [{"step": 1, "uid": "u1-0", "session_id": 0, "rows": rows}])
    tab.until(f"modules.state.state.index?.step.length === {len(TEXTS)}")
    for k in range(len(TEXTS)):
        tab.show(f"session-{k}")
    tab.show("session-0")
    tab.until("document.querySelectorAll('.tokens .t').length > 0")
    assert tab.page.evaluate("window.hacked") is None
    assert tab.page.locator("main :is(script, img, b)").count() == 0
    tab.filter("text", "漢字")
    assert tab.count() == 1
    write(run.log, [line("漢字")], step=2)
    tab.until("modules.state.state.listed.length === 2")


def test_a_run_that_degenerates_is_marked_until_it_is_over(opened) -> None:
    (run,), tab = opened("sd")
    for step in range(1, 13):
        run.play(step, line("1"), **{"rltf/turn_1/truncated": 0.9})
    warning = tab.page.locator(".warning")
    tab.until("document.querySelectorAll('.warning').length === 1")
    assert "answers mostly cut off since step 10" in warning.inner_text()
    assert "⚠ answers mostly cut off" in tab.page.locator("#status").inner_text()
    assert tab.page.locator("figure rect.warned").count() > 2
    assert tab.page.locator(".legend rect.warned").count() == 1
    for step in range(13, 16):
        run.play(step, line("1"), **{"rltf/turn_1/truncated": 0.0})
    tab.until("document.querySelectorAll('.warning').length === 0")
    assert "answers mostly cut off: steps 10–15, over" in tab.page.locator("#overview").inner_text()


def test_two_runs_in_the_same_charts(opened) -> None:
    runs, tab = opened("grpo", "sd")
    for run, said in zip(runs, ("1", "42"), strict=True):
        for step in (1, 2):
            run.play(step, line(said))
    tab.until("document.querySelectorAll('figure path.run1').length > 1")
    legend = tab.page.locator("#overview > .legend").inner_text()
    assert "grpo train" in legend
    assert "sd train" in legend
    first = tab.page.locator("figure").first.inner_text()
    assert "grpo train 0.0 % · sd train 100.0 %" in first
    assert tab.page.evaluate("modules.state.state.index.verdicts") == ["✗", "✗"]
    tab.page.get_by_label("Run whose episodes are listed").select_option("sd")
    tab.until("modules.state.state.index.verdicts.join() === '✓,✓'")
    assert "grpo train" in tab.page.locator("#overview > .legend").inner_text().split("sd train")[0]


def test_a_server_that_ends_is_said(opened, browser, tmp_path) -> None:
    write(tmp_path / "log", [line("1")])
    shown = LiveRuns(live_runs([tmp_path / "log"]), "a run")
    shown.refresh()
    with serving(shown, "127.0.0.1", 0) as page:
        tab = LiveTab(browser, page.address)
        tab.until("modules.state.state.index?.step.length === 1")
    tab.until("document.getElementById('status').textContent.includes('does not answer')")
    assert tab.page.locator(".row").count() == 1
    tab.context.close()
