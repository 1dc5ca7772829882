"""Ray's processes on a CPU: forks of one server, and their threads."""

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from rltf_verl.cpu import processes
from rltf_verl.cpu.processes import server
from tests.support.waiting import block_until

WORKER = Path(server.__file__).with_name("worker.py")
ROOT = Path(__file__).parents[3]

SERVER = """
import os, subprocess, sys
from rltf_verl.cpu.processes import server
popen = subprocess.Popen
code = "import sys; from rltf_verl.cpu.processes import server as s;" \\
    "s.FIRST, s.MODULES = ('torch',), ('tests.support.engine.actor_class',); s.main(*sys.argv[1:])"
server.subprocess.Popen = lambda args, **k: popen([args[0], "-c", code, *args[3:]], **k)
print(server.start(), flush=True)
sys.stdin.read()
"""
"""A driver, with fewer imports than a real one's."""


def started() -> tuple[subprocess.Popen[str], list[str]]:
    """A driver, and the command that it would give to Ray."""
    driver = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "RAY_JOB_ID": "01", "PYTHONPATH": str(ROOT)},
    )
    return driver, shlex.split(driver.stdout.readline())


@pytest.fixture(scope="module")
def command() -> Iterator[list[str]]:
    driver, command = started()
    yield command
    driver.kill()
    driver.wait()


def run(
    command: list[str], folder: Path, text: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(text)
    return subprocess.run(
        [*command, str(script), "a b"],
        cwd=folder,
        env={**os.environ, "RAY_JOB_ID": "01", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_fork_is_the_script_with_all_that_was_imported(command, tmp_path):
    text = """
import os, sys
loaded = "torch" in sys.modules
import torch, users_module
print(__name__, sys.argv[1], os.getcwd(), os.environ["MINE"], loaded, torch.get_num_threads())
# Ray ends a worker together with its process group, which must hold no other worker.
print(os.getpgid(0) == os.getpid())
print("an error", file=sys.stderr)
sys.exit(7)
"""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "users_module.py").touch()
    ended = run(
        command, tmp_path, text, MINE="yes", OMP_NUM_THREADS="3", PYTHONPATH=str(tmp_path / "own")
    )
    assert ended.stdout == f"__main__ a b {tmp_path} yes True 3\nTrue\n"
    assert ended.stderr.endswith("an error\n")
    assert ended.returncode == 7


def test_forks_draw_different_numbers_and_ids_and_run_what_is_left_for_the_end(command, tmp_path):
    """Ray's ids too, though the server has declared an actor's class, which draws one."""
    text = """
import atexit, random, ray, sys, numpy as np
assert "tests.support.engine.actor_class" in sys.modules
atexit.register(print, "the end")
print(random.random(), np.random.rand(), ray.UniqueID.from_random())
"""
    first, second = (run(command, tmp_path, text).stdout for _ in range(2))
    assert first.endswith("the end\n")
    assert set(first.split()[:3]).isdisjoint(second.split()[:3])


def test_no_fork_where_forks_would_share_their_ids():
    code = """
import ray
from rltf_verl.cpu.processes import server
apart = server._draw_apart()
ray.UniqueID.from_random()
server._draw_apart.cache_clear()
print(apart, server._draw_apart())
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert ended.stdout == "True False\n", ended.stderr


def test_a_fork_that_fails_says_why(command, tmp_path):
    ended = run(command, tmp_path, "raise KeyError('this one')")
    assert ended.returncode == 1
    assert "KeyError: 'this one'" in ended.stderr


def test_another_job_s_worker_is_no_fork(command, tmp_path):
    """Ray has read the job's id when the server imported it."""
    run(command, tmp_path, "")
    text = "import sys; print('torch' in sys.modules)"
    assert run(command, tmp_path, text, RAY_JOB_ID="02").stdout == "False\n"


def test_a_fork_ends_with_the_process_that_ray_knows(command, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    asked = subprocess.Popen(
        [*command, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "RAY_JOB_ID": "01"},
    )
    pid = int(asked.stdout.readline())
    assert pid != asked.pid
    asked.kill()
    asked.wait()
    block_until(lambda: not Path(f"/proc/{pid}").exists())


def test_without_a_server_a_worker_starts_as_ever(tmp_path):
    asked = [sys.executable, "-I", "-S", str(WORKER), "rltf-there-is-none"]
    ended = run(asked, tmp_path, "import sys; print(sys.argv[1]); sys.exit(3)")
    assert (ended.stdout, ended.returncode) == ("a b\n", 3)


def test_all_ends_with_the_driver():
    driver, (*_, name) = started()
    assert answers(name)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    block_until(lambda: not answers(name))


def answers(name: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        return asking.connect_ex(f"\0{name}") == 0


@pytest.mark.parametrize(
    ("num_cores", "num_ranks", "expected"), [(1, 1, "1"), (2, 1, "1"), (16, 1, "15"), (16, 4, "3")]
)
def test_threads_of_a_process(num_cores, num_ranks, expected):
    assert processes.thread_variables({}, num_cores, num_ranks)[processes.THREADS] == expected


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("max 100000", 16), ("200000 100000", 2), ("50000 100000", 1), ("9900000 100000", 16)],
)
def test_a_container_s_quota_counts(quota, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    assert processes.available_cores(tmp_path / "cpu.max") == expected
    assert processes.available_cores(tmp_path / "none") == 16


@pytest.mark.parametrize(("mode", "threads"), [("rltf_sync", "8"), ("rltf_separate_async", "2")])
def test_ranks_of_trainer_and_rollout_share_the_cores_where_both_work_at_once(
    mode, threads, monkeypatch
):
    monkeypatch.setattr(processes, "available_cores", lambda: 9)
    monkeypatch.setattr(os, "environ", {})
    trainer = {"n_gpus_per_node": 1, "v1": {"trainer_mode": mode}}
    rollout = {"rollout": {"n_gpus_per_node": 3}}
    processes._choose_threads(OmegaConf.create({"trainer": trainer, "actor_rollout_ref": rollout}))
    assert os.environ["OMP_NUM_THREADS"] == threads


@pytest.mark.parametrize(
    "other",
    [
        {"ray_kwargs.ray_init.address": "auto"},
        {"ray_kwargs.ray_init.runtime_env.py_executable": "mine"},
        {"actor_rollout_ref.rollout.full_determinism": True},
        {"actor_rollout_ref.rollout.name": "vllm"},
    ],
)
def test_where_there_is_no_fork_server(other, monkeypatch):
    monkeypatch.setattr(server, "start", lambda: pytest.fail("started"))
    config = OmegaConf.create(
        {
            "ray_kwargs": {"ray_init": {}},
            "actor_rollout_ref": {"rollout": {"name": "transformers", "full_determinism": False}},
        }
    )
    for key, value in other.items():
        OmegaConf.update(config, key, value, force_add=True)
    processes._start_fork_server(config)
