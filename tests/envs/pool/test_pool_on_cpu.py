"""The worker pool: late, crashing and greedy calls cost one call, and no process stays behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rltf_verl.envs.pool.pool import CallFailed, Pool
from tests.support.sandboxes import alive
from tests.support.waiting import block_until

TASKS = "tests.support.pool_tasks"
PARENT = """
import sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from rltf_verl.envs.pool.pool import Pool
pool = Pool("tests.support.pool_tasks", 2)
with ThreadPoolExecutor(2) as threads:
    pids = list(threads.map(lambda _: pool.call("short_grace", deadline_s=20), range(2)))
call = lambda: pool.call("{function}", *{arguments}, deadline_s={deadline})
threading.Thread(target=call, daemon=True).start()
time.sleep(0.1)
print(*pids, flush=True)
time.sleep(60)
"""


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(TASKS, 2)
    yield made
    made.close()


def failure(pool: Pool, function: str, *arguments: object, deadline_s: float = 20.0) -> str:
    with pytest.raises(CallFailed) as caught:
        pool.call(function, *arguments, deadline_s=deadline_s)
    assert pool.call("echo", [function, None], deadline_s=20) == [function, None]  # it goes on
    return str(caught.value)


def until_gone(*pids: int) -> None:
    block_until(lambda: not any(alive(pid) for pid in pids))


def test_workers_start_when_needed_and_are_kept(pool: Pool) -> None:
    first = pool.call("pid", deadline_s=20)
    assert first != os.getpid()
    assert {pool.call("pid", deadline_s=20) for _ in range(5)} == {first}


@pytest.mark.parametrize("function", ["tower", "sleep"])
def test_a_late_call_is_ended_on_time(pool: Pool, function: str) -> None:
    before = pool.call("pid", deadline_s=20)
    told = failure(pool, function, *([60] if function == "sleep" else []), deadline_s=0.3)
    assert told == "no verdict within 0.3 s"
    until_gone(before)
    assert pool.call("pid", deadline_s=20) != before


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("crash", "the grader process died (signal 6)"),
        ("leave", "SystemExit: told to"),
        ("recurse", "RecursionError: maximum recursion depth exceeded"),
        ("eat", "MemoryError:"),
        ("shell", "PermissionError: subprocess.Popen in a grader process"),
        ("no_such_function", "AttributeError:"),
    ],
)
def test_what_goes_wrong_is_told_in_one_line(pool: Pool, function: str, told: str) -> None:
    assert failure(pool, function).startswith(told)


def test_a_worker_writes_no_file_and_knows_no_secret(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLTF_TEST_SECRET", "sk-1")
    assert failure(pool, "write", str(tmp_path / "x")).startswith("PermissionError: open")
    assert pool.call("secret", deadline_s=20) is None


def test_an_idle_worker_that_was_killed_is_replaced(pool: Pool) -> None:
    pid = pool.call("pid", deadline_s=20)
    os.kill(pid, signal.SIGKILL)
    until_gone(pid)
    assert pool.call("pid", deadline_s=20) != pid


def test_a_module_that_cannot_be_imported(tmp_path: Path) -> None:
    with pytest.raises(
        CallFailed, match="no grader process: ModuleNotFoundError: No module named 'no_such_module'"
    ):
        Pool("no_such_module", 1).call("f", deadline_s=1)


def test_many_threads_and_few_workers_mix_nothing_up(pool: Pool) -> None:
    def ask(k: int) -> object:
        if k % 10 == 0:
            with pytest.raises(CallFailed):
                pool.call("sleep", 30, deadline_s=0.05)
            return [k]
        return pool.call("echo", [k], deadline_s=20)

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(ask, range(100))) == [[k] for k in range(100)]


@pytest.mark.parametrize(
    "arguments",
    [pytest.param(("sleep", "[60]", 1.5), marks=pytest.mark.nightly), ("tower", "[]", 1.5)],
)
def test_no_worker_outlives_a_killed_parent(arguments: tuple[str, str, float]) -> None:
    function, given, deadline = arguments
    script = PARENT.format(function=function, arguments=given, deadline=deadline)
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(set(pids)) == 2, "one is busy now"
    finally:
        parent.kill()
        parent.communicate()
    until_gone(*pids)


def test_workers_end_with_a_parent_that_ends_normally() -> None:
    script = (
        f"from rltf_verl.envs.pool.pool import Pool; print(Pool({TASKS!r}, 1).call('pid',"
        " deadline_s=20))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    until_gone(int(done.stdout))
