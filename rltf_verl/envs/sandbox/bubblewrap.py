"""The back end `bubblewrap`: no network, no files but a read-only system, no processes but its own.

For an ordinary user the namespaces belong to a user namespace. As root bubblewrap needs none, and
the run becomes a user of its own that owns nothing: the kernel does not limit the processes of
root.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from rltf_verl.envs.sandbox.base import SandboxError
from rltf_verl.envs.sandbox.channel import wait_for
from rltf_verl.envs.sandbox.local import (
    ENVIRONMENT,
    START_S,
    LocalSandbox,
    Started,
    ended,
    input_file,
)
from rltf_verl.envs.sandbox.syscalls import syscall_filter

CAP_SYS_ADMIN = 21
FIRST_UID = 2**30
MISSING = (
    "the command bwrap is not installed; apt-get install bubblewrap, or set"
    " rltf.env.sandbox=sandbox_fusion with rltf.env.url, or, only for programs that you would run"
    " yourself, rltf.env.sandbox=unsafe_process"
)
NO_FILTER = (
    "rltf.env.sandbox=bubblewrap: there is no filter of system calls for {machine}, and without one"
    " a program has memory that nothing bounds; set rltf.env.sandbox=sandbox_fusion with"
    " rltf.env.url"
)
_PREFIXES = (
    "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix, sys.exec_prefix,"
    " sys.base_exec_prefix]))"
)


class BubblewrapSandbox(LocalSandbox):
    """Runs programs under bwrap."""

    def trouble(self) -> str | None:
        """See `Sandbox.trouble`."""
        if syscall_filter() is None:
            return NO_FILTER.format(machine=platform.machine())
        cause = super().trouble()
        return None if cause is None else f"rltf.env.sandbox=bubblewrap: {cause}"

    @contextmanager
    def _started(self) -> Iterator[Started]:
        if shutil.which("bwrap") is None:
            raise SandboxError(MISSING)
        # as root: a user that no other run of this machine is
        uid = FIRST_UID + secrets.randbelow(2**30) if _is_privileged() else None
        with input_file() as stdin:
            process, first = self._launch(stdin, user_namespace=uid is None)
        try:
            with ended(
                Started(process, lambda: _kill(process, first), stdin, alone=True, uid=uid)
            ) as started:
                yield started
        finally:
            if first is not None:
                os.close(first)

    def _launch(
        self, stdin: int, user_namespace: bool
    ) -> tuple[subprocess.Popen[bytes], int | None]:
        """bwrap, and a pidfd of the first process inside: with that ends everything inside. None if
        bwrap failed.
        """
        info_read, info_write = os.pipe()
        filters = _filter_file()
        seccomp = [word for fd in filters for word in ("--seccomp", str(fd))]
        try:
            process = subprocess.Popen(
                [*self._wrapped(info_write, user_namespace), *seccomp, "--", *self._command()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env={**ENVIRONMENT, "HOME": "/tmp", "TMPDIR": "/tmp"},
                pass_fds=(info_write, stdin, *filters),
                start_new_session=True,
            )
        except BaseException:
            os.close(info_read)
            raise
        finally:
            # bwrap has its own copies. With ours open, the read below would never come to an end.
            for fd in (info_write, *filters):
                os.close(fd)
        try:
            return process, _first_process(info_read)
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            os.close(info_read)

    def _wrapped(self, info_fd: int, user_namespace: bool) -> list[str]:
        command = (
            ["bwrap", "--unshare-all", "--unshare-user"]
            if user_namespace
            else ["bwrap", *NAMESPACES]
        )
        command += ["--die-with-parent", "--info-fd", str(info_fd), "--hostname", "sandbox"]
        if not user_namespace:
            command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        folders = _system_folders(self._python)
        for path in _parents([*folders, "/dev/null"]):  # bwrap would make them for itself alone
            command += ["--perms", "0755", "--dir", path]
        for path in folders:
            command += ["--ro-bind-try", path, path]
        for link in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
            if Path(link).is_symlink():
                command += ["--symlink", os.readlink(link), link]  # noqa: PTH115
            else:
                command += ["--ro-bind-try", link, link]
        for device in ("null", "zero", "random", "urandom"):
            command += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
        if _bounds_folders():
            command += [
                "--perms",
                "1777",
                "--size",
                str(self._limits.file_mb * 2**20),
                "--tmpfs",
                "/tmp",
            ]
        else:  # nothing can be written at all
            command += ["--dir", "/tmp"]
        return [*command, "--chdir", "/tmp", "--remount-ro", "/"]


NAMESPACES = (
    "--unshare-ipc",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-uts",
    "--unshare-cgroup-try",
)


def _filter_file() -> list[int]:
    """A file descriptor with the filter of system calls, if there is one for this machine."""
    program = syscall_filter()
    if program is None:
        return []
    fd = os.memfd_create("seccomp")
    os.write(fd, program)
    os.lseek(fd, 0, os.SEEK_SET)
    return [fd]


@cache
def _bounds_folders() -> bool:
    """True if this bwrap (0.7 or later) can limit the size of a folder in memory."""
    return (
        "--size"
        in subprocess.run(["bwrap", "--help"], capture_output=True, text=True, check=False).stdout
    )


@cache
def _system_folders(python: str) -> tuple[str, ...]:
    """Folders that a program may read: the system's libraries, and the interpreter's."""
    try:
        printed = subprocess.run(
            [python, "-c", _PREFIXES], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise SandboxError(f"rltf.env.python={python!r} does not run: {error}") from error
    folders = {
        str(p) for prefix in {*json.loads(printed)} for p in (Path(prefix), Path(prefix).resolve())
    }
    folders -= {"/", "/usr", "/usr/local"}
    return ("/usr", "/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", *sorted(folders))


def _parents(paths: Sequence[str]) -> list[str]:
    """All folders above the paths, upper ones first."""
    return sorted({str(parent) for path in paths for parent in Path(path).parents} - {"/"})


def _is_privileged() -> bool:
    """True if this is a root that may make namespaces and become any user."""
    if os.geteuid() != 0:
        return False
    status = dict(
        line.split(":", 1)
        for line in Path("/proc/self/status").read_text().splitlines()
        if ":" in line
    )
    # First user inside, first user outside, how many: the root of a user namespace has fewer.
    whole_map = Path("/proc/self/uid_map").read_text().split()[2] == str(2**32 - 1)
    return whole_map and bool(int(status["CapEff"], 16) >> CAP_SYS_ADMIN & 1)


def _first_process(info_fd: int) -> int | None:
    data, deadline = b"", time.monotonic() + START_S
    os.set_blocking(info_fd, False)
    with suppress(TimeoutError, ProcessLookupError):
        while b"}" not in data:
            wait_for(info_fd, select.POLLIN, deadline)
            chunk = os.read(info_fd, 4096)
            if not chunk:
                return None
            data += chunk
        return os.pidfd_open(int(json.loads(data)["child-pid"]))
    return None


def _kill(process: subprocess.Popen[bytes], first: int | None) -> None:
    """bwrap itself ends when everything inside has ended; killed first, it would leave that to
    happen some time.
    """
    if first is not None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(first, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(START_S)
    with suppress(ProcessLookupError):
        process.kill()
