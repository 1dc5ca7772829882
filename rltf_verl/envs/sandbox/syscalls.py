"""A filter of system calls for bwrap's `--seccomp`: no namespaces of one's own, in which one would be root again.

What else is refused is large, privileged in most places, and of no use to a program that computes something.
"""

from __future__ import annotations

import errno
import platform
import struct

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_X32 = 0x40000000
_NEW_NAMESPACES = 0x7E020000
"""The CLONE_NEW… flags of clone()."""

_CLONE3 = 435
_REFUSED_ANYWHERE = (424, 425, 428, 429, 430, 431, 432, 442)
"""pidfd_send_signal, io_uring_setup, open_tree, move_mount, fsopen, fsconfig, fsmount, mount_setattr."""

_MACHINES = {
    # machine: (AUDIT_ARCH, clone, unshare setns mount pivot_root ptrace bpf add_key request_key keyctl userfaultfd
    #           perf_event_open)
    "x86_64": (0xC000003E, 56, (272, 308, 165, 155, 101, 321, 248, 249, 250, 323, 298)),
    "aarch64": (0xC00000B7, 220, (97, 268, 40, 41, 117, 280, 217, 218, 219, 282, 241)),
}


def syscall_filter() -> bytes | None:
    """The filter as a classic BPF program; None for machines whose numbers are not known here."""
    if platform.machine() not in _MACHINES:
        return None
    arch, clone, refused = _MACHINES[platform.machine()]
    steps = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, arch), _fail(errno.EPERM)]
    steps += [(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), _fail(errno.EPERM)]
    for number in (*refused, *_REFUSED_ANYWHERE):
        steps += [(_EQUAL, 0, 1, number), _fail(errno.EPERM)]
    steps += [(_EQUAL, 0, 1, _CLONE3), _fail(errno.ENOSYS)]  # its flags are out of reach; libc then uses clone
    steps += [(_EQUAL, 0, 3, clone), (_LOAD, 0, 0, _FIRST_ARGUMENT), (_ANY_BIT, 0, 1, _NEW_NAMESPACES)]
    steps += [_fail(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _fail(code: int) -> tuple[int, int, int, int]:
    return _RETURN, 0, 0, _FAIL | code
