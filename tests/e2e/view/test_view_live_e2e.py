"""The page that follows runs in a real browser, while they grow, pack, resume and degenerate."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from rltf_verl.runlog.files import pack, set_aside_after
from rltf_verl.runlog.rows import write_rows
from rltf_verl.tools.report.view.run import runs_at
from rltf_verl.tools.report.view.server import LivePage, serving
from tests.e2e.view.tab import Tab
from tests.support.log_records import HINT, HOSTILE, line, row, turn, write
from tests.support.run_files import step as trained
from tests.support.run_files import write_metrics

pytestmark = pytest.mark.e2e

TEXTS = [text[:2000] for text in HOSTILE]
VERDICTS = "state.index?.verdicts.join()"


class Run:
    """The folder of a run that trains."""

    def __init__(self, folder) -> None:
        self.folder, self.log = folder, folder / "checkpoints" / "episodes"
        self.steps: list[tuple[int, dict]] = []

    def play(self, step: int, *episodes, **metrics: float) -> None:
        self.steps.append((step, trained() | {"actor/loss": -0.1 * step} | metrics))
        write_metrics(self.folder / "metrics.jsonl", self.steps)
        write(self.log, episodes, step=step)


@pytest.fixture
def served() -> Iterator:
    """A function: folders of runs -> the address of their page; `close` ends the servers."""
    stop = threading.Event()
    with ExitStack() as servers:

        def make(*folders) -> str:
            page = LivePage(runs_at(folders, followed=True), "a run")

            def look() -> None:
                while not stop.wait(0.1):
                    page.refresh()

            threading.Thread(target=look, daemon=True).start()
            return servers.enter_context(serving(page, "127.0.0.1", 0))[0]

        make.close = servers.close
        yield make
        stop.set()


@pytest.fixture
def opened(open_tab, served, tmp_path):
    """A function: names of runs -> (the runs, a tab of their page)."""

    def make(*names: str) -> tuple[list[Run], Tab]:
        runs = [Run(tmp_path / name) for name in names]
        return runs, open_tab(served(*(run.folder for run in runs)))

    return make


def test_it_waits_then_grows_and_the_reader_stays_in_place(opened) -> None:
    (run,), tab = opened("sd")
    tab.until("document.getElementById('status').textContent.includes('Waiting')")
    run.play(1, line("1", "42"), line("42", "1"))
    tab.until(f"{VERDICTS} === '✗✓,✓✗'")
    tab.show(1)
    title = "document.querySelector('#episode h2').textContent"
    before, place = tab.page.evaluate(title), tab.page.evaluate("location.hash")
    run.play(2, line("42", "42"))
    write(run.log, [line("1"), line("1")], step=0, validate=True)  # before all others
    tab.until(f"{VERDICTS} === '✗,✗,✗✓,✓✗,✓✓'")
    assert tab.page.evaluate("state.current") == 3
    assert tab.page.evaluate(title) == before
    assert tab.page.evaluate("location.hash") == place
    tab.show(2)
    assert tab.page.locator("#problem li").all_inner_texts() == ["step 1\n✗✓", "step 2\n✓✓"]
    tab.page.locator("#problem a").nth(1).click()
    tab.until("state.current === 4")
    pack(run.log, 2)
    tab.until("state.index.blocks.length === 3")
    tab.show(3)
    assert tab.page.evaluate(title) == before
    assert any(label.startswith("Loss") for label in tab.texts("figcaption"))
    assert tab.page.locator("#status").inner_text().startswith("● step 2")


def test_a_resumed_run_replaces_what_it_plays_again(opened) -> None:
    (run,), tab = opened("sd")
    for step in (1, 2, 3):
        run.play(step, line("1"))
    tab.until(f"{VERDICTS} === '✗,✗,✗'")
    tab.show(2)
    set_aside_after(run.log, 1)
    tab.until(f"{VERDICTS} === '✗'")
    run.steps = run.steps[:1]
    run.play(2, line("42"))
    tab.until(f"{VERDICTS} === '✗,✓'")
    tab.show(1)
    assert "✓ right" in tab.page.locator("#episode .turn").inner_text()


def test_hostile_texts_show_as_text(opened) -> None:
    (run,), tab = opened("sd")
    episodes = []
    for text in TEXTS:
        hint = type(HINT)(text, "judge", leak=text, original=text)
        episodes.append((turn("1", hint, text=text), turn("42", parent=0, text=text)))
    write(run.log, episodes, question=TEXTS[0], env=TEXTS[1])
    rows = [row("attempt", 0, 1.0, TEXTS[0])]
    write_rows(run.log, 1, [{"step": 1, "uid": "u1-0", "session_id": 0, "rows": rows}])
    tab.until(f"state.index?.step.length === {len(TEXTS)}")
    for k in reversed(range(len(TEXTS))):
        tab.show(k)
    tab.until("document.querySelectorAll('.tokens .t').length > 0")
    assert tab.is_safe()
    tab.filter("text", "漢字")
    assert tab.count() == 1
    write(run.log, [line("漢字")], step=2)
    tab.until("state.listed.length === 2")


def test_a_run_that_degenerates_is_marked_until_it_is_over(opened) -> None:
    (run,), tab = opened("sd")
    for step in range(1, 13):
        run.play(step, line("1"), **{"rltf/turn_1/truncated": 0.9})
    tab.until("document.querySelectorAll('.warning').length === 1")
    assert "answers mostly cut off since step 10" in tab.page.locator(".warning").inner_text()
    assert "⚠ answers mostly cut off" in tab.page.locator("#status").inner_text()
    assert tab.page.locator("figure rect.warned").count() > 2
    assert tab.page.locator(".legend rect.warned").count() == 1
    for step in range(13, 16):
        run.play(step, line("1"), **{"rltf/turn_1/truncated": 0.0})
    tab.until("document.querySelectorAll('.warning').length === 0")
    assert "answers mostly cut off: steps 10–15, over" in tab.page.locator("#overview").inner_text()


def test_two_runs_in_the_same_charts(opened) -> None:
    runs, tab = opened("grpo", "sd")
    for run, answer in zip(runs, ("1", "42"), strict=True):
        for step in (1, 2):
            run.play(step, line(answer))
    tab.until("document.querySelectorAll('figure path.run1').length > 1")
    first = tab.page.locator("figure").first.inner_text()
    assert "grpo train 0.0 % · sd train 100.0 %" in first
    tab.until(f"{VERDICTS} === '✗,✗'")
    tab.page.get_by_label("Run whose episodes are listed").select_option("sd")
    tab.until(f"{VERDICTS} === '✓,✓'")
    runs[1].play(3, line("42"))
    tab.until(f"{VERDICTS} === '✓,✓,✓'")


def test_a_server_that_ends_is_reported(browser, served, tmp_path) -> None:
    write(tmp_path / "log", [line("1")])
    tab = Tab(browser, served(tmp_path / "log"), "light", "desktop")
    tab.until(f"{VERDICTS} === '✗'")
    served.close()
    tab.until("document.getElementById('status').textContent.includes('does not answer')")
    assert tab.page.locator(".row").count() == 1
    tab.context.close()
