"""The live page without a browser: what it reads of a run that changes under it, and whom it
answers.
"""

import gzip
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.runlog.files import pack, set_aside_after
from rltf_verl.runlog.metrics_file import set_aside
from rltf_verl.runlog.rows import write_rows
from rltf_verl.tools.report.live import log as live_log
from rltf_verl.tools.report.live import server
from rltf_verl.tools.report.live.log import GrowingLog
from rltf_verl.tools.report.live.metrics import GrowingMetrics
from rltf_verl.tools.report.live.run import LiveRuns, live_runs
from rltf_verl.tools.report.live.server import serving
from rltf_verl.tools.report.stats import by_steps
from rltf_verl.tools.report.view.curves import curves
from tests.support.commands import rltf
from tests.support.log_records import HOSTILE, line, row, write
from tests.support.run_files import step as trained
from tests.support.run_files import write_metrics
from tests.tools.report.view.test_page_on_cpu import unpacked

FAR = float("inf")
TEXTS = [text[:1000] for text in HOSTILE]
"""That the page holds in full."""
RLTF = "from rltf_verl.tools.cli.app import main; main()"


def verdicts(log: GrowingLog) -> dict[tuple[int, str], list[str]]:
    return {at: [one.verdicts for one in step.lines] for at, step in log.listed().items()}


def test_a_step_that_grows_is_read_again_and_half_a_line_waits(tmp_path, caplog):
    log = GrowingLog(tmp_path / "log")
    assert not log.refresh(FAR)  # the folder does not exist yet
    write(tmp_path / "log", [line("1", "42")])
    assert log.refresh(FAR)
    assert not log.refresh(FAR)
    (file,) = (tmp_path / "log").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole + whole.replace(b'"session_id": 0', b'"session_id": 1')[:-9])
    assert log.refresh(FAR)
    assert verdicts(log) == {(1, "train"): ["✗✓"]}
    file.write_bytes(whole + whole.replace(b'"session_id": 0', b'"session_id": 1'))
    assert log.refresh(FAR)
    assert verdicts(log) == {(1, "train"): ["✗✓", "✗✓"]}
    assert caplog.messages == []


def test_a_packed_step_is_the_same_step(tmp_path):
    log = GrowingLog(write(tmp_path, [line("1"), line("42", stop="solved")]))
    write_rows(
        tmp_path,
        1,
        [{"step": 1, "uid": "u1-0", "session_id": 0, "rows": [row("attempt", 0, 1.0, "a")]}],
    )
    write(tmp_path, [line("1")], step=2)
    log.refresh(FAR)
    before = log.records((1, "train"))
    assert "tokens" in before[0]["rows"][0]
    both = gzip.compress((tmp_path / "00000001.train.w.jsonl").read_bytes())
    (tmp_path / "00000001.train.jsonl.gz").write_bytes(both)  # a packer that was killed
    log.refresh(FAR)
    assert verdicts(log)[1, "train"] == ["✗", "✓"]
    pack(tmp_path, 2)
    assert log.refresh(FAR)
    assert verdicts(log) == {(1, "train"): ["✗", "✓"], (2, "train"): ["✗"]}
    assert log.records((1, "train")) == before


def test_steps_that_a_resumed_run_plays_again_are_replaced(tmp_path):
    for step in (1, 2, 3):
        write(tmp_path, [line("1")], step=step)
    log = GrowingLog(tmp_path)
    log.refresh(FAR)
    set_aside_after(tmp_path, 1)
    assert log.refresh(FAR)
    assert list(verdicts(log)) == [(1, "train")]
    write(tmp_path, [line("42")], step=2)
    log.refresh(FAR)
    assert verdicts(log) == {(1, "train"): ["✗"], (2, "train"): ["✓"]}


def test_a_long_run_is_read_the_newest_first_and_only_its_end_is_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(live_log, "MOST_LISTED", 5)
    for step in range(1, 7):
        write(tmp_path, [line("1"), line("42")], step=step)
    log = GrowingLog(tmp_path)
    assert log.refresh(time.monotonic())
    assert log.more
    assert list(log.steps) == [(6, "train")]
    while log.refresh(time.monotonic()):
        pass
    assert list(log.listed()) == [(5, "train"), (6, "train")]
    assert len(log.steps) == 6
    kept = log.steps[1, "train"]
    log.refresh(FAR)
    assert log.steps[1, "train"] is kept


def test_the_curves_are_those_of_the_written_page_without_the_step_that_is_played(tmp_path):
    for step in (1, 2, 3):
        write(tmp_path, [line("1", "42"), line("42", "1")], step=step)
    write(tmp_path, [line("1")], step=2, validate=True, horizon=1)
    (run,) = live_runs([tmp_path])
    run.refresh()
    records = [record for record in read_episodes(tmp_path) if record["step"] < 3]
    assert run.numbers()["curves"] == json.loads(json.dumps(curves(records)), object_hook=_points)
    old = time.time() - 100
    for file in tmp_path.iterdir():
        os.utime(file, (old, old))
    run.refresh()
    (first, *_) = run.numbers()["curves"]
    assert [step for step, _ in first["train"]] == [1, 2, 3]
    assert run.index("t")["totals"][0]["sessions"] == by_steps(records, 1)[0].sessions


def _points(curve):
    return curve | {split: [tuple(p) for p in curve[split]] for split in ("train", "val")}


def test_metrics_grow_by_whole_lines_and_over_processes(tmp_path):
    path, metrics = tmp_path / "metrics.jsonl", GrowingMetrics()
    assert not metrics.refresh([path])
    write_metrics(path, [(k, trained() | {"actor/loss": float(k), "other": 1.0}) for k in (1, 2)])
    with path.open("ab") as file:
        file.write(b'{"step": 3, "da')
    assert metrics.refresh([path])
    assert not metrics.refresh([path])
    assert {k: now["actor/loss"] for k, now in metrics.history.items()} == {1: 1.0, 2: 2.0}
    assert "other" not in metrics.history[1]
    with path.open("ab") as file:
        file.write(b'ta": {"actor/loss": 3.0, "training/global_step": 3}}\n')
    metrics.refresh([path])
    assert list(metrics.history) == [1, 2, 3]
    earlier = set_aside(path)  # resumed at step 1
    write_metrics(path, [(2, trained() | {"actor/loss": 20.0})])
    assert metrics.refresh([earlier, path])
    assert {k: now["actor/loss"] for k, now in metrics.history.items()} == {1: 1.0, 2: 20.0}


def test_a_run_whose_folder_comes_later(tmp_path):
    (run,) = live_runs([tmp_path / "sd"])
    run.refresh()
    assert "no such file or folder" in run.status()["waits"]
    (tmp_path / "sd").mkdir()
    run.refresh()
    assert run.status()["waits"]
    bad = {"rltf/turn_1/truncated": 1.0, "rltf/turn_1/acc": 0.0}
    write_metrics(tmp_path / "sd" / "metrics.jsonl", [(k, trained() | bad) for k in range(1, 13)])
    write(tmp_path / "sd" / "checkpoints" / "episodes", [line("1")], step=12)
    run.refresh()
    status = run.status()
    assert (status["name"], status["step"], status["waits"]) == ("sd", 12, "")
    assert status["firing"] == ["answers mostly cut off"]
    assert run.numbers()["warnings"][0]["from"] == 10
    (log_only,) = live_runs([tmp_path / "sd" / "checkpoints" / "episodes"])
    log_only.refresh()
    assert log_only.status()["firing"] == ["answers mostly cut off"]
    assert log_only.name == "sd"


def test_metrics_under_several_names_stay_at_every_look(tmp_path):
    write(tmp_path / "episodes", [line("1")])
    write_metrics(tmp_path / "first.jsonl", [(k, trained() | {"actor/loss": 1.0}) for k in (1, 2)])
    os.utime(tmp_path / "first.jsonl", (1, 1))
    write_metrics(tmp_path / "then.jsonl", [(3, trained() | {"actor/loss": 3.0})])
    (run,) = live_runs([tmp_path])
    for _ in range(3):
        run.refresh()
        (loss,) = [one for one in run.numbers()["curves"] if one["label"] == "Loss"]
        assert [step for step, _ in loss["train"]] == [1, 2, 3]


def test_a_run_given_twice_is_refused(tmp_path):
    with pytest.raises(ValueError, match="twice"):
        live_runs([tmp_path, tmp_path / "x" / ".."])


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """(port, path with token, runs): a server over one run."""
    tmp_path = tmp_path_factory.mktemp("served")
    write(tmp_path, [line("1", "42"), *(line(text) for text in TEXTS)])
    write_rows(
        tmp_path,
        1,
        [{"step": 1, "uid": "u1-0", "session_id": 0, "rows": [row("attempt", 0, 1.0, "a")]}],
    )
    runs = LiveRuns(live_runs([tmp_path]), "<my> run")
    runs.refresh()
    with serving(runs, "127.0.0.1", 0) as page:
        port, _, path = page.address.removeprefix("http://127.0.0.1:").partition("/")
        assert not page.is_open
        yield int(port), f"/{path}", runs


def asked(port, path, host=None, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, headers={"Host": host or f"127.0.0.1:{port}"})
    response = connection.getresponse()
    return response.status, response.read(), response.headers


def test_the_page_and_its_data(served):
    port, root, _ = served
    status, body, headers = asked(port, root)
    assert status == 200
    assert b"<title>&lt;my&gt; run</title>" in body
    assert b"; connect-src 'self'\"" in body
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    found = json.loads(asked(port, f"{root}0/index")[1])
    assert found["index"]["verdicts"][0] == "✗✓"
    assert found["index"]["blocks"] == ["1.train"]
    again = json.loads(asked(port, f"{root}0/index?have={found['version']}")[1])
    assert "index" not in again
    block = json.loads(asked(port, f"{root}0/block/1.train")[1])
    assert [one["turns"][0]["text"] for one in block][1:] == [f"so {text}" for text in TEXTS]
    tokens = json.loads(asked(port, f"{root}0/tokens/1.train/u1-0/0")[1])
    assert tokens[0]["text"] == ["a"]


def test_a_slow_reader_gets_all_of_it(served, monkeypatch):
    """The limit is shorter than the whole takes, and longer than a piece of it."""
    port, root, runs = served
    body = bytes(20_000_000)  # more than the machine holds for a connection
    monkeypatch.setattr(server._Handler, "timeout", 0.5)
    monkeypatch.setattr(runs.runs[0], "block", lambda name: body)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        words = f"GET {root}0/block/1.train HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n"
        connection.sendall(words.encode())
        num = 0
        while piece := connection.recv(1_000_000):
            num += len(piece)
            time.sleep(0.04)
    assert num > len(body)


@pytest.mark.parametrize(
    "path",
    [
        "1/index",
        "0/block/2.train",
        "0/block/../../etc/passwd",
        "0/block/%2e%2e%2f00000001.train.w.jsonl",
        "0/tokens/1.train/u1-0/x",
        "0/tokens/1.train/u1-0/%C2%B2",
        "0/tokens/1.train/nobody/0",
        "0",
        "-1/index",
        "index",
    ],
)
def test_nothing_else_is_there(served, path):
    port, root, _ = served
    assert asked(port, root + path)[:2] == (404, b"not here\n")


@pytest.mark.parametrize("path", ["/", "", "*", "//", "/wrong/", "/wrong/0/index", "/favicon.ico"])
def test_without_the_token_nothing_is_there(served, path):
    assert asked(served[0], path)[0] == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "localhost.evil:80", "10.0.0.1:{port}", "[::2]"]
)
def test_another_host_s_name_is_refused(served, host):
    port, root, _ = served
    assert asked(port, root, host=host.format(port=port))[0] == 421


@pytest.mark.parametrize(
    "host", ["localhost:{port}", "localhost", "LocalHost:9000", "127.0.0.1:1", "[::1]", "[::1]:80"]
)
def test_this_machine_s_names_are_known_at_any_port(served, host):
    """Port 80 is not named, and the near end of a tunnel may have another one."""
    port, root, _ = served
    assert asked(port, root, host=host.format(port=port))[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_it_only_reads(served, method):
    assert asked(*served[:2], method=method)[0] == 501


def test_beyond_loopback_only_if_asked(tmp_path):
    runs = LiveRuns(live_runs([tmp_path]), "t")
    with serving(runs, "0.0.0.0", 0) as page:
        assert page.is_open
        port = int(page.address.rsplit(":", 1)[1].split("/")[0])
        root = "/" + page.address.split("/", 3)[3]
        assert asked(port, root, host=f"10.1.2.3:{port}")[0] == 200
        assert asked(port, root, host=f"{socket.gethostname()}:{port}")[0] == 200
        assert asked(port, root, host=f"evil.example:{port}")[0] == 421


def test_a_port_in_use_is_one_line(served, tmp_path):
    for word, told in ((str(served[0]), "name another --port"), ("70000", "from 0 to 65535")):
        result = rltf("view", tmp_path, "--follow", "--port", word)
        assert result.exit_code == 1
        assert told in result.stderr
        assert result.stderr.count("\n") == 1


def test_one_page_holds_one_run_unless_it_follows(tmp_path):
    result = rltf("view", tmp_path, tmp_path / "b")
    assert result.exit_code == 1
    assert "--follow" in result.stderr


def test_ctrl_c_ends_it_cleanly(tmp_path):
    # a background job inherits an ignored SIGINT, and so would the child
    heard = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {RLTF}"
    words = [sys.executable, "-c", heard, "view", "--follow", str(tmp_path / "later")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = process.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:")
    port, _, path = address.removeprefix("http://127.0.0.1:").partition("/")
    assert asked(int(port), f"/{path}")[0] == 200
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, "")


def test_the_written_page_has_the_curves_of_the_metrics_too(tmp_path):
    write(tmp_path / "checkpoints" / "episodes", [line("1")])
    write_metrics(tmp_path / "metrics.jsonl", [(1, trained() | {"actor/loss": -0.5})])
    out, log = tmp_path / "page.html", tmp_path / "checkpoints" / "episodes"
    result = rltf("view", log, "-o", out)
    assert result.exit_code == 0, result.stderr
    index, _ = unpacked(out.read_text("utf-8"))
    (loss,) = [curve for curve in index["curves"] if curve["label"] == "Loss"]
    assert loss["train"] == [[1, -0.5]]
    assert index["warnings"] == []
