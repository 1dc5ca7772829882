"""The page that follows runs, without a browser: what it reads of a run that changes under it, and
which requests it answers.
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

from rltf_verl.runlog.files import pack, set_aside_after
from rltf_verl.runlog.metrics_file import set_aside
from rltf_verl.runlog.rows import write_rows
from rltf_verl.tools.report.view import run as run_module
from rltf_verl.tools.report.view import server
from rltf_verl.tools.report.view.run import Run, runs_at
from rltf_verl.tools.report.view.server import LivePage, serving
from tests.support.commands import refused
from tests.support.log_records import HOSTILE, line, row, write
from tests.support.run_files import step as trained
from tests.support.run_files import write_metrics

TEXTS = [text[:1000] for text in HOSTILE]
"""Texts that the page holds in full."""
RLTF = "from rltf_verl.tools.cli.app import main; main()"


def followed(folder) -> Run:
    (run,) = runs_at([folder], followed=True)
    run.refresh()
    return run


def verdicts(run: Run) -> dict[tuple[int, str], list[str]]:
    run.refresh()
    return {at: [each.verdicts for each in step.lines] for at, step in run.listed().items()}


def points(run: Run, label: str) -> dict[int, float]:
    run.refresh()
    (chart,) = [chart for chart in run.index()["charts"] if chart["label"] == label]
    return {step: value for step, value, _ in chart["train"]}


def test_a_step_that_grows_is_read_again_and_half_a_line_waits(tmp_path, caplog):
    run = followed(tmp_path / "log")  # the folder does not exist yet
    write(tmp_path / "log", [line("1", "42")])
    assert verdicts(run) == {(1, "train"): ["✗✓"]}
    version = run.version
    (file,) = (tmp_path / "log").iterdir()
    whole = file.read_bytes()
    another = whole.replace(b'"session_id": 0', b'"session_id": 1')
    assert verdicts(run) == {(1, "train"): ["✗✓"]}
    assert run.version == version
    file.write_bytes(whole + another[:-9])
    assert verdicts(run) == {(1, "train"): ["✗✓"]}
    file.write_bytes(whole + another)
    assert verdicts(run) == {(1, "train"): ["✗✓", "✗✓"]}
    assert run.version > version
    assert caplog.messages == []


def test_a_packed_step_is_the_same_step(tmp_path):
    write(tmp_path, [line("1"), line("42", stop="solved")])
    rows = [row("attempt", 0, 1.0, "a")]
    write_rows(tmp_path, 1, [{"step": 1, "uid": "u1-0", "session_id": 0, "rows": rows}])
    write(tmp_path, [line("1")], step=2)
    run = followed(tmp_path)
    before = run.records((1, "train"))
    assert "tokens" in before[0]["rows"][0]
    both = gzip.compress((tmp_path / "00000001.train.w.jsonl").read_bytes())
    (tmp_path / "00000001.train.jsonl.gz").write_bytes(both)  # a packer that was killed
    assert verdicts(run)[1, "train"] == ["✗", "✓"]
    pack(tmp_path, 2)
    assert verdicts(run) == {(1, "train"): ["✗", "✓"], (2, "train"): ["✗"]}
    assert run.records((1, "train")) == before


def test_a_resumed_run_replaces_the_steps_that_it_plays_again(tmp_path):
    for step in (1, 2, 3):
        write(tmp_path, [line("1")], step=step)
    run = followed(tmp_path)
    set_aside_after(tmp_path, 1)
    assert verdicts(run) == {(1, "train"): ["✗"]}
    write(tmp_path, [line("42")], step=2)
    assert verdicts(run) == {(1, "train"): ["✗"], (2, "train"): ["✓"]}


def test_a_long_run_is_read_the_newest_first_and_only_its_end_is_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "MOST_LISTED", 5)
    for step in range(1, 7):
        write(tmp_path, [line("1"), line("42")], step=step)
    (run,) = runs_at([tmp_path], followed=True)
    assert not run.refresh(0)
    assert list(run.steps) == [(6, "train")]
    while not run.refresh(0):
        pass
    assert list(run.listed()) == [(5, "train"), (6, "train")]
    assert (len(run.steps), run.index()["older"]) == (6, 4)
    kept = run.steps[1, "train"]
    run.refresh()
    assert run.steps[1, "train"] is kept


def test_a_step_that_is_being_played_is_not_drawn(tmp_path):
    for step in (1, 2, 3):
        write(tmp_path, [line("1", "42"), line("42", "1")], step=step)
    run = followed(tmp_path)
    assert list(points(run, "First answer right")) == [1, 2]
    version = run.version
    old = time.time() - 100
    for file in tmp_path.iterdir():
        os.utime(file, (old, old))
    assert list(points(run, "First answer right")) == [1, 2, 3]
    assert run.version > version


def test_metrics_grow_over_the_processes_of_a_run(tmp_path):
    write(tmp_path / "episodes", [line("1")])
    run = followed(tmp_path)
    path = tmp_path / "metrics.jsonl"
    write_metrics(path, [(k, trained() | {"actor/loss": float(k)}) for k in (1, 2)])
    assert points(run, "Loss") == {1: 1.0, 2: 2.0}
    set_aside(path)  # resumed at step 1
    write_metrics(path, [(2, trained() | {"actor/loss": 20.0})])
    assert points(run, "Loss") == {1: 1.0, 2: 20.0}


def test_a_run_whose_folder_comes_later(tmp_path):
    run = followed(tmp_path / "sd")
    assert "no such folder" in run.state()["trouble"]
    (tmp_path / "sd").mkdir()
    run.refresh()
    assert "no episodes" in run.state()["trouble"]
    bad = {"rltf/turn_1/truncated": 1.0, "rltf/turn_1/acc": 0.0}
    write_metrics(tmp_path / "sd" / "metrics.jsonl", [(k, trained() | bad) for k in range(1, 13)])
    log = write(tmp_path / "sd" / "checkpoints" / "episodes", [line("1")], step=12)
    run.refresh()
    assert (run.name, run.state()["step"], run.state()["trouble"]) == ("sd", 12, "")
    for each in (run, followed(log)):
        index = each.index()
        assert (index["name"], index["warnings"][0]["from"]) == ("sd", 10)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """(port, path with token, page): a server over one run."""
    folder = tmp_path_factory.mktemp("served")
    write(folder, [line("1", "42"), *(line(text) for text in TEXTS)])
    rows = [row("attempt", 0, 1.0, "a")]
    write_rows(folder, 1, [{"step": 1, "uid": "u1-0", "session_id": 0, "rows": rows}])
    page = LivePage(runs_at([folder], followed=True), "<my> run")
    page.refresh()
    with serving(page, "127.0.0.1", 0) as (address, is_open):
        port, _, path = address.removeprefix("http://127.0.0.1:").partition("/")
        assert not is_open
        yield int(port), f"/{path}", page


def asked(port, path, host=None, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, headers={"Host": host or f"127.0.0.1:{port}"})
    response = connection.getresponse()
    return response.status, response.read(), response.headers


def test_the_page_and_its_parts(served):
    port, root, _ = served
    status, body, headers = asked(port, root)
    assert status == 200
    assert b"<title>&lt;my&gt; run</title>" in body
    assert b"; connect-src 'self'\"" in body
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    answer = json.loads(asked(port, f"{root}index?")[1])
    (run,) = answer["index"]["runs"]
    assert run["verdicts"][0] == "✗✓"
    assert "index" not in json.loads(asked(port, f"{root}index?{answer['version']}")[1])
    (block,) = run["blocks"]
    records = json.loads(asked(port, f"{root}0/{block}")[1])
    assert [each["turns"][0]["text"] for each in records][1:] == [f"so {text}" for text in TEXTS]
    tokens = json.loads(asked(port, f"{root}0/{records[0]['tokens']}")[1])
    assert tokens[0]["text"] == ["a"]


def test_a_slow_reader_gets_all_of_it(served, monkeypatch):
    """The limit is shorter than the whole takes, and longer than a piece of it."""
    port, root, page = served
    body = "x" * 20_000_000  # more than the machine holds for a connection
    monkeypatch.setattr(server._Handler, "timeout", 0.5)
    monkeypatch.setattr(page, "part", lambda path, version: body)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        words = f"GET {root}index HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n"
        connection.sendall(words.encode())
        size = 0
        while piece := connection.recv(1_000_000):
            size += len(piece)
            time.sleep(0.04)
    assert size > len(body)


@pytest.mark.parametrize(
    "path",
    [
        "1/block/1.train",
        "0/block/2.train",
        "0/block/../../etc/passwd",
        "0/block/%2e%2e%2f00000001.train.w.jsonl",
        "0/tokens/1.train/u1-0/x",
        "0/tokens/1.train/u1-0/%C2%B2",
        "0/tokens/1.train/nobody/0",
        "0/other/1.train",
        "0",
        "-1/block/1.train",
        "index/index",
    ],
)
def test_nothing_else_is_there(served, path):
    port, root, _ = served
    assert asked(port, root + path)[:2] == (404, b"not here\n")


@pytest.mark.parametrize("path", ["/", "", "*", "//", "/wrong/", "/wrong/index", "/favicon.ico"])
def test_without_the_token_nothing_is_there(served, path):
    assert asked(served[0], path)[0] == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 421) for host in ("evil.example", "evil.example:{port}", "localhost.evil:80")),
        *((host, 421) for host in ("10.0.0.1:{port}", "[::2]")),
        *((host, 200) for host in ("localhost:{port}", "localhost", "LocalHost:9000")),
        *((host, 200) for host in ("127.0.0.1:1", "[::1]", "[::1]:80")),
    ],
)
def test_only_names_of_this_machine_are_answered(served, host, status):
    """At any port: port 80 is not named, and the near end of a tunnel may have another one."""
    port, root, _ = served
    assert asked(port, root, host=host.format(port=port))[0] == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_it_only_reads(served, method):
    assert asked(*served[:2], method=method)[0] == 501


def test_beyond_loopback_only_if_asked(tmp_path):
    with serving(LivePage(runs_at([tmp_path]), "t"), "0.0.0.0", 0) as (address, is_open):
        assert is_open
        port, root = int(address.rsplit(":", 1)[1].split("/")[0]), "/" + address.split("/", 3)[3]
        assert asked(port, root, host=f"10.1.2.3:{port}")[0] == 200
        assert asked(port, root, host=f"{socket.gethostname()}:{port}")[0] == 200
        assert asked(port, root, host=f"evil.example:{port}")[0] == 421


@pytest.mark.parametrize(("port", "fix"), [(None, "--port"), (70000, "65535")])
def test_a_port_that_cannot_be_bound_is_one_line(served, tmp_path, port, fix):
    result = refused("view", tmp_path, "--follow", "--port", port or served[0])
    assert fix in result


def test_ctrl_c_ends_it_cleanly(tmp_path):
    # A background job inherits an ignored SIGINT, and so would the child.
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
