"""The page that follows runs in a real browser, while they grow, pack, resume and degenerate."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rltf_verl.runlog.files import pack, set_aside_after
from rltf_verl.tools.report.view.run import runs_at
from rltf_verl.tools.report.view.server import LivePage, serving
from tests.support.log_records import line, write
from tests.support.run_files import step as trained
from tests.support.run_files import write_metrics

pytestmark = pytest.mark.e2e

VERDICTS = "state.index?.verdicts.join()"
CUT_OFF = {"rltf/turn_1/truncated": 0.9}


def play(run: Path, step: int, *episodes, metrics=()) -> None:
    """A step of training; `metrics`: of each step so far, if there are some."""
    if metrics:
        steps = enumerate((trained() | logged for logged in metrics), 1)
        write_metrics(run / "metrics.jsonl", list(steps))
    write(run / "episodes", episodes, step=step)


@pytest.fixture
def opened(open_tab) -> Iterator:
    """A function: folders of runs -> (a tab of their page, its server)."""
    stop = threading.Event()
    with ExitStack() as servers:

        def make(*runs: Path) -> tuple:
            page = LivePage(runs_at(runs, followed=True), "a run")

            def look() -> None:
                while not stop.wait(0.1):
                    page.refresh()

            threading.Thread(target=look, daemon=True).start()
            address, _ = servers.enter_context(serving(page, "127.0.0.1", 0))
            return open_tab(address), servers

        yield make
        stop.set()


def test_it_waits_then_grows_and_the_reader_stays_in_place(opened, tmp_path) -> None:
    tab, _ = opened(tmp_path / "sd")
    tab.until("document.getElementById('status').textContent.includes('Waiting')")
    play(tmp_path / "sd", 1, line("1", "42"), line("42", "1"))
    tab.until(f"{VERDICTS} === '✗✓,✓✗'")
    tab.show(1)
    reading = "[document.querySelector('#episode h2').textContent, location.hash].join()"
    before = tab.page.evaluate(reading)
    play(tmp_path / "sd", 2, line("42", "42"), metrics=[{"actor/loss": 1.0}])
    write(tmp_path / "sd" / "episodes", [line("1")], step=0, validate=True)  # before all others
    tab.until(f"{VERDICTS} === '✗,✗✓,✓✗,✓✓'")
    assert tab.page.evaluate(f"[state.current, {reading}].join()") == f"2,{before}"
    tab.show(1)
    assert tab.page.locator("#problem li").all_inner_texts() == ["step 1\n✗✓", "step 2\n✓✓"]
    pack(tmp_path / "sd" / "episodes", 2)
    tab.until("state.index.blocks.length === 3")
    tab.show(2)
    assert tab.page.evaluate(reading) == before
    assert any(label.startswith("Loss") for label in tab.texts("figcaption"))
    assert tab.page.locator("#status").inner_text().startswith("● step 2")


def test_a_resumed_run_replaces_what_it_plays_again(opened, tmp_path) -> None:
    for step in (1, 2, 3):
        play(tmp_path, step, line("1"))
    tab, _ = opened(tmp_path)
    tab.until(f"{VERDICTS} === '✗,✗,✗'")
    tab.show(2)
    set_aside_after(tmp_path / "episodes", 1)
    play(tmp_path, 2, line("42"))
    tab.until(f"{VERDICTS} === '✗,✓'")
    tab.show(1)
    assert "✓ right" in tab.page.locator("#episode .turn").inner_text()


def test_a_run_that_degenerates_is_marked_until_it_is_over(opened, tmp_path) -> None:
    play(tmp_path, 12, line("1"), metrics=[CUT_OFF] * 12)
    tab, _ = opened(tmp_path)
    tab.until("document.querySelectorAll('.warning').length === 1")
    assert "answers mostly cut off since step 10" in tab.page.locator(".warning").inner_text()
    assert "⚠ answers mostly cut off" in tab.page.locator("#status").inner_text()
    assert tab.page.locator("figure rect.warned").count() > 2
    play(tmp_path, 15, line("1"), metrics=[CUT_OFF] * 12 + [{"rltf/turn_1/truncated": 0.0}] * 3)
    tab.until("document.querySelectorAll('.warning').length === 0")
    assert "answers mostly cut off: steps 10–15, over" in tab.page.locator("#overview").inner_text()


def test_the_chosen_run_grows_and_a_server_that_ends_is_reported(browser, opened, tmp_path) -> None:
    runs = tmp_path / "grpo", tmp_path / "sd"
    for run, answer in zip(runs, ("1", "42"), strict=True):
        play(run, 1, line(answer))
    tab, servers = opened(*runs)
    tab.until(f"{VERDICTS} === '✗'")
    tab.page.get_by_label("Run whose episodes are listed").select_option("sd")
    play(runs[1], 2, line("1"))
    tab.until(f"{VERDICTS} === '✓,✗'")
    servers.close()
    tab.until("document.getElementById('status').textContent.includes('does not answer')")
    assert tab.page.locator(".row").count() == 2
    tab.complaints.clear()  # of requests that fail
