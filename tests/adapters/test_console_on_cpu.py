"""What a run shows on the terminal."""

import io
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from rltf_verl.adapters.console import QuietStream, StepLines, mark_log_lines

STEP = {
    "timing_s/step": 8.2,
    "rltf/turn_1/acc": 0.41,
    "rltf/turn_2/standing": 0.55,
    "rltf/turn_1/reward": 0.38,
    "perf/throughput": 12.0,
}
VALIDATION = {
    "rltf_val/rltf/a/turn_1/acc": 0.5,
    "rltf_val/rltf/a/session/total": 96.0,
    "rltf_val/rltf/b/turn_1/acc": 0.1,
    "rltf_val/rltf/b/session/total": 32.0,
}
RAY = "\x1b[36m(TaskRunnerV1 pid=29638, ip=10.0.0.2)\x1b[0m "


ONE_TURN = {k: v for k, v in STEP.items() if "turn_2" not in k}


@pytest.mark.parametrize(
    ("steps", "num_samples", "end"),
    [
        # compared with the steps before
        (
            [
                (1, STEP | {"rltf/turn_1/acc": 1.0}),
                *((k, STEP | {"rltf/turn_1/acc": 0.38}) for k in range(2, 12)),
                (12, STEP),
            ],
            1,
            "step 12/62 · first 0.41 (+0.03) · second 0.55 · reward 0.38 · 8.2 s · 7 min left",
        ),
        # one turn, no change yet and no time left leave their part out
        ([(62, ONE_TURN)], 1, "step 62/62 · first 0.41 · reward 0.38 · 8.2 s"),
        (
            [(61, {"timing_s/step": 1.0, "critic/score/mean": 0.5})],
            1,
            "step 61/62 · reward 0.50 · 1.0 s · 1 s left",
        ),
        # what fires is on the line of each step
        ([(61, ONE_TURN | {"rltf/warnings": 2.0})], 1, "8.2 s · 8 s left · 2 warnings"),
        ([(61, ONE_TURN | {"rltf/warnings": 0.0})], 1, "8.2 s · 8 s left"),
        # the time left is not of one slow step
        (
            [(k, {"timing_s/step": 600.0 if k == 1 else 2.0}) for k in range(1, 5)],
            1,
            "2.0 s · 2 min left",
        ),
        # a validation is one line over all sources, after its step
        ([(0, VALIDATION)], 2, "validation at step 0 · first 0.40 · 64 problems"),
        (
            [(0, VALIDATION), (10, STEP | VALIDATION | {"rltf_val/rltf/b/turn_1/acc": 0.3})],
            2,
            "validation at step 10 · first 0.40 → 0.45 · 64 problems",
        ),
    ],
)
def test_the_last_line_of_a_run(
    steps: list[tuple[int, dict[str, float]]], num_samples: int, end: str
) -> None:
    run = StepLines(62, num_samples)  # of 62 steps
    lines = [line for step, data in steps for line in run.lines(data, step)]
    assert lines[-1].endswith(end)


def printed(*lines: str, to: io.StringIO | None = None) -> list[str]:
    """What the driver's stream shows of some lines."""
    stream = to or io.StringIO()
    quiet = QuietStream(stream, set())
    for line in lines:
        print(line, file=quiet)
    return stream.getvalue().splitlines()


NAMED = "(TaskRunnerV1 pid=29638, ip=10.0.0.2) "
SLOW = "WARNING:2026-11-23 19:06:2{}:target_num_threads 8 should not exceed 2"
AGAIN = "\x1b[32m [repeated 126x across cluster]\x1b[0m"
OTHER = "WARNING:2026-11-23 19:06:27,001:another one"
TRACEBACK = ("Traceback (most recent call last):", '  File "m.py", line 3', "{'a': 1,", " 'b': 2}")
RECORDS = (
    "INFO:2026-11-25 21:47:14,495:Total training steps: 6",
    "2026-11-25 21:46:56,361\tINFO worker.py:2038 -- Started a local Ray instance.",
    "2026-11-25 21:47:18,966 - DEBUG - transfer_queue.utils - put",
    "(EngineCore_DP0 pid=12) INFO 11-25 21:47:10 [core.py:58] Initializing",
    "[2026-11-25 21:47:10] INFO server.py:5: up",
    "Time range: last 5.00 minutes;  [repeated 2x across cluster]",
    "Per-operation statistics: KV_LIST: req_count=2874, req/min=565.30",
    "Loading weights:  24%|██▍       | 66/272 [00:00<00:01, 146.25it/s]",
    "Generating train split: 0 examples [00:00, ? examples/s]",
)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # ours come without Ray's beginning
        *(
            ([RAY + line] * 2, [line] * 2)
            for line in (
                "step 12/62 · first 0.41 · 8.2 s",
                "rltf: warning: the run degenerates at step 12",
            )
        ),
        # a foreign warning is shown once, whenever and whoever repeats it
        (
            [
                RAY + SLOW.format("4,384"),
                RAY + SLOW.format("5,001"),
                f"(Storage pid=7) {SLOW.format('6,0')}{AGAIN}",
                RAY + OTHER,
            ],
            [NAMED + SLOW.format("4,384"), NAMED + OTHER],
        ),
        # what is no warning, or names an error, always
        *(
            ([f"(A pid=1) {line}"] * 3, [f"(A pid=1) {line}"] * 3)
            for line in (
                "ERROR:2026-11-23 19:06:24,384:disk full",
                "Warning: CUDA error",
                "plain",
            )
        ),
        # a traceback, and what a user prints, stay whole
        ([RAY + line for line in TRACEBACK], [NAMED + line for line in TRACEBACK]),
        # records below a warning and progress are left out unless they name an error
        *(
            ([RAY + line, f"{RAY}{line} (an exception)"], [f"{NAMED}{line} (an exception)"])
            for line in RECORDS
        ),
    ],
)
def test_which_lines_are_shown(lines: list[str], expected: list[str]) -> None:
    assert printed(*lines) == expected


def test_escape_sequences_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    assert printed(f"{RAY}loading", to=terminal) == [f"{RAY}loading"]


def test_another_threads_text_or_flush_does_not_cut_a_line() -> None:
    stream = io.StringIO()
    quiet = QuietStream(stream, set())
    with ThreadPoolExecutor(1) as other:
        for _ in range(2):
            quiet.write(f"{RAY}WARNING:2026-11-23 19:06:24,384:8 should not exceed 2")
            other.submit(quiet.flush).result()
            other.submit(quiet.write, "of another\n").result()
            quiet.write("\n")
    assert [line[-8:] for line in stream.getvalue().splitlines()] == [
        " another",
        "exceed 2",
        " another",
    ]


def test_a_progress_bar_is_not_held_back() -> None:
    stream = io.StringIO()
    quiet = QuietStream(stream, set())
    quiet.write("\r 50 %")
    assert stream.getvalue() == ""
    quiet.flush()
    quiet.write("\r100 %\n")
    assert stream.getvalue() == "\r 50 %\r100 %\n"


def test_our_log_records_are_lines_and_foreign_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s:%(message)s"))
    monkeypatch.setattr(root, "handlers", [handler])
    for _ in range(2):
        mark_log_lines()
    logging.getLogger("rltf_verl.runlog.health").warning("%s lost", "format")
    logging.getLogger("transfer_queue").warning("slow")
    assert stream.getvalue() == "rltf: warning: format lost\nWARNING:slow\n"
