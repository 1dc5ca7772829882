"""The service back end against a real server on loopback that answers as SandboxFusion does."""

import json
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rltf_verl.envs.base import GradeUnavailable
from rltf_verl.envs.code.env import Code
from rltf_verl.envs.code.text import fenced
from rltf_verl.envs.sandbox import fusion, make_sandbox
from rltf_verl.envs.sandbox.base import (
    Outcome,
    Program,
    Resources,
    SandboxError,
    SandboxUnreachableError,
)
from tests.support.sandboxes import code_problem

LIMITS = Resources(time_s=60, memory_mb=64, output_kb=10)
FIELDS = {
    *("compile_timeout", "run_timeout", "code", "stdin"),
    *("memory_limit_MB", "language", "files", "fetch_files"),
}


class Service(BaseHTTPRequestHandler):
    """Runs what it is sent; before that it does what `script` says."""

    script: list[object] = []  # noqa: RUF012
    requests: list[dict] = []  # noqa: RUF012

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).requests.append(body)
        done = self.script.pop(0) if self.script else self.ran(body)
        self.send_response(done if isinstance(done, int) else 200)
        self.end_headers()
        if callable(done):
            done(self.wfile)
        else:
            self.wfile.write(done if isinstance(done, bytes) else json.dumps(done).encode())

    def ran(self, body):
        done = subprocess.run(
            [sys.executable, "-c", body["code"]],
            input=body["stdin"],
            capture_output=True,
            text=True,
        )
        result = {"status": "Finished", "execution_time": 0.1, "return_code": done.returncode}
        result |= {"stdout": done.stdout, "stderr": done.stderr}
        return {
            "status": "Failed" if done.returncode else "Success",
            "compile_result": None,
            "run_result": result,
        }

    def log_message(self, *args):
        pass


@pytest.fixture
def url(monkeypatch):
    monkeypatch.setattr(fusion, "RETRY_S", 0.01)
    Service.script, Service.requests = [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/run_code"
    server.shutdown()
    server.server_close()
    thread.join()


def once(url, source, given="", entry=None, limits=LIMITS):
    with make_sandbox("sandbox_fusion", limits, url=url).start(Program(source, entry)) as run:
        return run.call(given)


def test_programs_and_functions(url):
    assert make_sandbox("sandbox_fusion", LIMITS, url=url).trouble() is None
    assert once(url, "print(input())", "né\n") == Outcome("ok", "né\n")
    assert once(url, "def f(a):\n    print('x')\n    return a, a", [[1]], "f") == Outcome(
        "ok", "[[1], [1]]"
    )
    assert once(url, "def f(a): return math.inf > len(a)", [[1]], "f").output == "true"
    assert set(Service.requests[0]) == FIELDS
    assert (Service.requests[0]["language"], Service.requests[0]["memory_limit_MB"]) == (
        "python",
        64,
    )


@pytest.mark.parametrize(
    ("source", "entry", "ending"),
    [
        ("print('x' * 20_000)", None, "output"),
        ("import os\nos._exit(3)", None, "crash"),
        ("import os\nos._exit(0)", None, "ok"),
        ("import os\ndef f(): os._exit(0)", "f", "crash"),
        (
            "import os, sys\nprint('MemoryError', file=sys.stderr, flush=True)\nos._exit(1)",
            None,
            "memory",
        ),
    ],
)
def test_what_goes_wrong_is_told_as_by_the_local_back_ends(url, source, entry, ending):
    assert once(url, source, [] if entry else "", entry).ending == ending


def test_errors_have_their_line(url):
    Service.script = [{"status": "Failed", "run_result": {"status": "TimeLimitExceeded"}}]
    assert once(url, "while True: pass").ending == "timeout"
    assert once(url, "x = 1\nx +") == Outcome("syntax", "", "SyntaxError: invalid syntax", 2)
    assert once(url, "\n1 / 0") == Outcome("error", "", "ZeroDivisionError: division by zero", 2)


def test_a_service_that_stumbles_is_asked_again(url):
    Service.script = [504, 503]
    assert once(url, "print(1)").output == "1\n"
    assert len(Service.requests) == 3


@pytest.mark.parametrize(
    "script",
    [
        [504] * 3,
        [400],
        [b"<html>"],
        [b"[" * 100_000],
        [{"status": "SandboxError", "message": "no pod"}],
        [{}],
        [{"status": "Success", "run_result": None}],
    ],
    ids=str,
)
def test_a_service_that_fails_is_not_the_program_s_fault(url, script):
    Service.script = list(script)
    with pytest.raises(SandboxError, match=r"rltf.env.url=http://127.0.0.1"):
        once(url, "print(1)")


def test_a_reply_that_trickles_is_given_up(url, monkeypatch):
    monkeypatch.setattr(fusion, "NETWORK_S", 0.0)
    right = b'{"status": "Success", "run_result": {"return_code": 0, "stdout": ""}}'

    def trickle(file):
        with suppress(OSError):  # the other side has gone
            for _ in range(1000):
                file.write(b" ")
                time.sleep(0.01)
            file.write(right)

    Service.script = [trickle] * fusion.TRIES
    with pytest.raises(SandboxUnreachableError):
        once(url, "print(1)", limits=replace(LIMITS, time_s=0.1))


def test_nobody_there_is_told(monkeypatch):
    monkeypatch.setattr(fusion, "RETRY_S", 0.01)
    found = make_sandbox("sandbox_fusion", LIMITS, url="http://127.0.0.1:9/run_code").trouble()
    assert found.startswith("rltf.env.url=http://127.0.0.1:9/run_code: ")
    assert "\n" not in found


def test_grades_through_the_service(url):
    env = Code(sandbox="sandbox_fusion", url=url, time_s=60)
    test = {"input": "3", "accept": ["9"]}
    problem = code_problem(public=[test], private=[test])
    right = fenced("print(int(input()) ** 2)")
    assert env.grade(problem, right).correct
    Service.script = [400]
    assert "rltf.env.url" in env.grade(problem, right).error
    Service.script = [503] * 3
    with pytest.raises(GradeUnavailable, match=r"rltf\.env\.url=.* 503"):
        env.grade(problem, right)
