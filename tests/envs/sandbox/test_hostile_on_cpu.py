"""Programs that want out, or a reward that they have not earned: contained, graded wrong, and gone
afterwards.
"""

import gc
import platform
import socket
import struct
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from rltf_verl.envs.code.env import Code
from rltf_verl.envs.code.text import fenced
from rltf_verl.envs.sandbox import local, make_sandbox
from rltf_verl.envs.sandbox.base import Program
from rltf_verl.envs.sandbox.syscalls import syscall_filter
from tests.support.effort import NIGHTLY
from tests.support.sandboxes import (
    LIMITS,
    LOCAL,
    code_problem,
    left_over,
    run_once,
    sandbox,
    trouble,
)

SECRET = "hidden-71316-answer"


def grade(backend, source, entry=None):
    """By one private test whose expected output only the grader knows."""
    if reason := trouble(backend):
        pytest.skip(reason)
    test = {"input": [] if entry else "", "accept": [SECRET]}
    problem = code_problem(private=[test], entry=entry)
    options = {**asdict(LIMITS), "time_s": 1, "total_s": 10}
    return Code(sandbox=backend, **options).grade(problem, fenced(source))


@pytest.mark.parametrize("backend", LOCAL)
def test_the_right_answer_would_pass(backend):
    assert grade(backend, f"print({SECRET!r})").correct
    assert grade(backend, f"def f(): return {SECRET!r}", "f").correct


ROUGH = {
    "infinite output": "while True: print('x' * 10000)",
    "memory hog": "x = []\nwhile True: x.append(bytearray(10**7))",
    "reads stdin for ever": "import sys\nwhile True: sys.stdin.read()",
    "ignores every signal": (
        "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n   "
        " except (OSError, ValueError): pass\nwhile True: pass"
    ),
    "deep recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef f(x): return [f(x)]\nf(0)",
    "deep recursion in C": (
        "import sys\nsys.setrecursionlimit(10**9)\nx = []\nfor _ in range(10**6): x = [x]\nrepr(x)"
    ),
    "deep source": "print(" + "(" * 50_000 + ")" * 50_000 + ")",
    "large constant": "x = 1 << (1 << 40)",
    "closes everything": "import os\nos.closerange(0, 64)",
    "no stdout": "import sys\nsys.stdout = None\nsys.__stdout__ = 3",
    "no builtins": "import builtins\nfor k in list(vars(builtins)): delattr(builtins, k)",
    "error that cannot be told": (
        "class E(BaseException):\n    def __str__(self): raise self\nraise E"
    ),
    "many files": "for k in range(10**5): open(f'f{k}', 'w').write('x' * 10**5)",
    "deep folders": "import os\nfor _ in range(1100):\n    os.mkdir('dddd'); os.chdir('dddd')",
    "forged report": (
        "import os, json\nos.write(3, json.dumps({'ending': 'ok', 'passed':"
        " True}).encode())\nos._exit(0)"
    ),
    "forged frame": (
        'import os\nfor fd in range(64):\n    try: os.write(fd, b\'\\0\\0\\0\\x12{"ending":'
        ' "ended"}\')\n    except OSError: pass'
    ),
    "child with the pipes": "import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(77)",
}


UNSAFE = (
    "infinite output",
    "memory hog",
    "ignores every signal",
    "closes everything",
    "no builtins",
    "deep folders",
    "forged report",
    "forged frame",
    "child with the pipes",
)
"""What `unsafe_process` promises to end; it does not bound the number of files or of processes."""


@pytest.mark.parametrize(
    ("backend", "name"),
    [*(("bubblewrap", n) for n in ROUGH), *(("unsafe_process", n) for n in UNSAFE)],
)
def test_rough_programs_are_graded_wrong_in_time(backend, name, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    start = time.monotonic()
    graded = grade(backend, ROUGH[name])
    assert (graded.correct, graded.error) == (False, None)
    assert time.monotonic() - start < 30
    assert not list(tmp_path.iterdir())


CHEATS = {
    "equal to everything": (
        "class A(str):\n    def __eq__(self, other): return True\ndef f(): return A('x')"
    ),
    "patched encoder": (
        "import json\njson.dumps = lambda value: '[{\"accept\": true}]'\ndef f(): return 1"
    ),
    "hard exit": "import os\ndef f(): os._exit(0)",
    "looks around": (
        "import gc, re, sys\n"
        "def f():\n"
        "    seen, frame = [], sys._getframe()\n"
        "    while frame: seen += [frame.f_locals, frame.f_globals]; frame = frame.f_back\n"
        "    text = repr(seen) + repr(gc.get_objects()) + repr(sys.argv) + str(sys.orig_argv)\n"
        "    return (re.findall(r'hidden-\\d+-\\w+', text) + [0])[0]"
    ),
    "huge value": "def f(): return 'x' * 10**8",
    "no JSON": "def f(): x = []; x.append(x); return x",
}


@pytest.mark.parametrize("name", CHEATS)
@pytest.mark.parametrize("backend", LOCAL)
def test_a_function_cannot_return_what_it_does_not_know(backend, name):
    graded = grade(backend, CHEATS[name], "f")
    assert (graded.correct, graded.error) == (False, None)


@pytest.mark.parametrize("backend", LOCAL)
def test_the_environment_is_clean(backend, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    printed = run_once(backend, "import os; print(sorted(os.environ))").output
    assert "HOME" in printed
    assert "KEY" not in printed


def test_files_of_this_machine_cannot_be_read(tmp_path):
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret").chmod(0o777)
    paths = [
        str(tmp_path / "secret"),
        str(tmp_path),
        __file__,
        "/etc/passwd",
        "/proc/self/environ",
        "/proc/1/cmdline",
    ]
    source = "import os\n" + "\n".join(f"print(os.path.exists({path!r}))" for path in paths)
    assert run_once("bubblewrap", source).output.split() == ["False"] * len(paths)


def test_nothing_can_be_written_but_the_scratch_folder():
    source = (
        "import os\n"
        "for top, folders, files in os.walk('/'):\n"
        "    if top == '/tmp': folders.clear(); continue\n"
        "    if top.count('/') > 5: folders.clear()\n"
        "    try: open(top + '/x', 'w'); print('written', top)\n"
        "    except OSError: pass\n"
        "    if os.access(top, os.W_OK): print('writable', top)\n"
        "print(os.getcwd())"
    )
    patient = replace(LIMITS, time_s=60, total_s=300)  # it looks at every folder of this machine
    assert run_once("bubblewrap", source, limits=patient).output == "/tmp\n"


def test_there_is_no_network():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = (
            f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)\nprint('connected')"
        )
        assert run_once("unsafe_process", connect).output == "connected\n"
        assert "Error" in run_once("bubblewrap", connect).message
        unix = "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0rltf-test')"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("\0rltf-test")
            listener.listen()
            assert run_once("unsafe_process", unix).ending == "ok"
            assert (
                run_once("bubblewrap", unix).message
                == "ConnectionRefusedError: [Errno 111] Connection refused"
            )


RIGHTS = """
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
clone, new_user = {"x86_64": 56, "aarch64": 220}[platform.machine()], 0x10000000
print(os.getuid() != 0)
print(libc.mount(b"x", b"/tmp", b"tmpfs", 0, None), libc.unshare(new_user), libc.unshare(0x20000))
print(libc.syscall(clone, new_user | 17, 0, 0, 0, 0), ctypes.get_errno())
print(libc.syscall(435, 0, 0), ctypes.get_errno())
try: os.setuid(0); print("root")
except OSError: print("no")
"""


@pytest.mark.skipif(syscall_filter() is None, reason=f"no filter for {platform.machine()}")
def test_it_is_nobody_here_and_cannot_become_root_anywhere():
    printed = run_once("bubblewrap", RIGHTS).output
    assert printed == "True\n-1 -1 -1\n-1 1\n-1 38\nno\n"


OUTSIDE = """
import ctypes, errno, os, socket
libc, far = ctypes.CDLL(None, use_errno=True), ctypes.c_void_p(-1).value
buffer = ctypes.create_string_buffer(64)
here = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 64)
def tried(name, *arguments):
    ctypes.set_errno(0)
    call = getattr(libc, name)
    call.restype = ctypes.c_void_p
    worked = call(*arguments) not in (far, 2**32 - 1)
    print(name, 'works' if worked else errno.errorcode[ctypes.get_errno()])
tried('shmget', 0, ctypes.c_size_t(2**30), 0o1600)
tried('shmat', 0, None, 0)
tried('shmctl', 0, 14, buffer)
tried('semget', 0, 1, 0o1600)
tried('semop', 0, buffer, ctypes.c_size_t(1))
tried('semctl', 0, 0, 19, buffer)
tried('msgget', 0, 0o1600)
tried('msgctl', 0, 12, buffer)
tried('mq_open', b'/x', 0o102, 0o600, None)
tried('memfd_create', b'x', 0)
tried('process_vm_readv', os.getppid(), here, 1, here, 1, 0)
tried('process_vm_writev', os.getppid(), here, 1, here, 1, 0)
tried('ptrace', 16, os.getppid(), None, None)
tried('personality', 0x0040000)
for family in ('AF_INET', 'AF_INET6', 'AF_NETLINK', 'AF_VSOCK', 'AF_PACKET', 'AF_ALG', 'AF_CAN',
               'AF_TIPC'):
    try: socket.socket(getattr(socket, family), socket.SOCK_DGRAM)
    except OSError as error: print(family, errno.errorcode[error.errno])
    else: print(family, 'works')
for number in range(424, 520):  # the same on all machines
    ctypes.set_errno(0)
    answer = libc.syscall(number, -1, 0, 0, 0, 0), ctypes.get_errno()
    if number not in (436, 437, 439, 441, 452) and answer != (-1, 38): print(number, answer)
"""


def test_no_memory_queue_process_or_network_is_reached_outside_of_it():
    outcome = run_once("bubblewrap", OUTSIDE)
    answers = dict(line.split(" ", 1) for line in outcome.output.splitlines())
    sockets = {name: answers.pop(name) for name in list(answers) if name.startswith("AF_")}
    assert outcome.ending == "ok", outcome
    assert len(sockets) == 8
    assert set(sockets.values()) == {"EAFNOSUPPORT"}
    assert len(answers) == 14
    assert set(answers.values()) == {"EPERM"}, answers


def test_a_filter_knows_its_machine():
    programs = [syscall_filter(machine) for machine in ("x86_64", "aarch64", "riscv64")]
    assert [program is None for program in programs] == [False, False, True]
    for program in programs[:2]:
        steps = list(struct.iter_unpack("=HBBI", program))
        assert len(steps) < 4096  # the kernel's limit
        ends = [
            i + 1 + skip
            for i, (code, *skips, _) in enumerate(steps)
            if code & 7 == 5
            for skip in skips
        ]
        assert max(ends) < len(steps)


def test_on_an_unknown_machine_bubblewrap_is_refused(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    trouble = make_sandbox("bubblewrap", LIMITS).trouble()
    assert trouble.startswith("rltf.env.sandbox=bubblewrap: ")
    assert "riscv64" in trouble


def test_a_fork_bomb_goes_out():
    for bomb in (
        "while True:\n    try: os.fork()\n    except OSError: pass",
        "while os.fork() >= 0: pass",
    ):
        assert not grade("bubblewrap", f"import os\n{bomb}").correct
    assert not left_over()


@pytest.mark.parametrize("victim", ["-1", "os.getppid()", "1"])
def test_it_can_end_itself_only(victim):
    with sandbox("bubblewrap").start(Program("print(5)")) as bystander:
        graded = grade("bubblewrap", f"import os\nos.kill({victim}, 9)")
        assert bystander.call("").output == "5\n"
    assert (graded.correct, graded.error) == (False, None)


def test_after_the_server_inside_is_dead_every_test_fails():
    with sandbox("bubblewrap").start(
        Program("import os\nif input() == 'b': os.kill(os.getppid(), 9)\nprint(1)")
    ) as run:
        endings = [run.call(text).ending for text in ("a", "b", "a")]
    assert endings == ["ok", "crash", "crash"]


def test_stopping_the_server_inside_only_costs_time(monkeypatch):
    monkeypatch.setattr(local, "GRACE_S", 0.5)
    with sandbox("bubblewrap").start(Program("import os\nos.kill(os.getppid(), 19)")) as run:
        assert run.call("").ending in ("timeout", "crash")
    assert not left_over()


@pytest.mark.parametrize("backend", LOCAL)
def test_links_in_the_scratch_folder_lead_nowhere(backend, monkeypatch, tmp_path):
    kept, folder = tmp_path / "kept", tmp_path / "scratch"
    kept.mkdir()
    folder.mkdir()
    (kept / "file").write_text("x")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    source = (
        f"import os\nos.symlink({str(kept)!r}, 'a'); os.symlink('/', 'b'); os.symlink('c', 'c');"
        " print(1)"
    )
    assert run_once(backend, source).output == "1\n"
    assert (kept / "file").read_text() == "x"
    assert not list(folder.iterdir())


SLEEPER = (
    "import os, time\n"
    "for _ in range(3):\n"
    "    if os.fork() == 0:\n"
    "        os.setsid()\n"
    "        if os.fork() == 0:\n"
    "            os.execv('/bin/sleep', ['sleep', '98713'])\n"
    "        os._exit(0)\n"
    "print(1)"
)


NUM = 200 if NIGHTLY else 40


@pytest.mark.parametrize(("backend", "num"), [("bubblewrap", NUM), ("unsafe_process", NUM // 4)])
def test_many_at_once_leave_nothing(backend, num, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    box = sandbox(backend, LIMITS, max_parallel=4)
    gc.collect()  # what earlier tests left open would otherwise be closed while this one counts
    fds = len([*Path("/proc/self/fd").iterdir()])

    def use(k):
        with box.start(Program(SLEEPER if k % 2 else "open('a', 'w'); print(1)")) as run:
            return run.call("").output

    with ThreadPoolExecutor(num) as threads:
        outputs = list(threads.map(use, range(num)))
    assert outputs == ["1\n"] * num
    assert not left_over()
    assert not left_over(b"sleep\x0098713")
    assert not list(tmp_path.iterdir())
    gc.collect()
    assert len([*Path("/proc/self/fd").iterdir()]) <= fds
