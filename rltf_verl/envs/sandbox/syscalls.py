"""A filter of system calls for bwrap's `--seccomp`.

It refuses namespaces of one's own (in which one would be root again), memory that no limit of a
process counts (System V, files without a folder), other processes' memory, networks, and what is
large, privileged in most places and of no use to a program that computes something. It also refuses
all calls that are newer than its list: libc then does without them.
"""

from __future__ import annotations

import errno
import platform
import socket
import struct
from typing import NamedTuple

# BPF's load of a word, jumps if equal, at least, any bit; return (linux/bpf_common.h).
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
# Places in `struct seccomp_data`; the lower half of an argument, on machines that are
# little-endian.
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16
# SECCOMP_RET_ALLOW, and SECCOMP_RET_ERRNO, which has the error in its lower half.
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_NEW_NAMESPACES = 0x7E020000
"""The CLONE_NEW… flags of clone()."""

_FIRST_NEW = 424
"""From here on numbers are the same on all machines; x32's numbers are larger still."""
_ALLOWED_NEW = {
    "close_range": 436,
    "openat2": 437,
    "faccessat2": 439,
    "epoll_pwait2": 441,
    "fchmodat2": 452,
}


class Numbers(NamedTuple):
    """A machine's numbers of the calls that the filter looks at."""

    arch: int
    """AUDIT_ARCH_…"""
    clone: int
    sockets: tuple[int, int]
    """socket and socketpair: AF_UNIX only. AF_VSOCK, for one, knows no network namespace."""
    refused: tuple[int, ...]


_REFUSED = {
    # call: (x86_64, aarch64)
    # namespaces and mounts
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # memory and queues outside of the process
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "mq_timedsend": (242, 182),
    "mq_timedreceive": (243, 183),
    "mq_notify": (244, 184),
    "mq_getsetattr": (245, 185),
    "memfd_create": (319, 279),
    "io_setup": (206, 0),
    "io_submit": (209, 2),
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    # doors into the kernel
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "fanotify_init": (300, 262),
    "personality": (135, 92),
    "quotactl": (179, 60),
    "acct": (163, 89),
    "syslog": (103, 116),
    "lookup_dcookie": (212, 18),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
}
_X86_ONLY = {"modify_ldt": 154, "ioperm": 173, "iopl": 172, "uselib": 134, "_sysctl": 156}
_MACHINES = {
    "x86_64": Numbers(
        0xC000003E, 56, (41, 53), (*(x86 for x86, _ in _REFUSED.values()), *_X86_ONLY.values())
    ),
    "aarch64": Numbers(0xC00000B7, 220, (198, 199), tuple(arm for _, arm in _REFUSED.values())),
}
Step = tuple[int, int, int, int]
"""An instruction: what it does, steps to skip if so and if not, its operand."""


def syscall_filter(machine: str | None = None) -> bytes | None:
    """The filter as a classic BPF program; None for machines whose numbers are not known here.

    Args:
        machine: as `platform.machine()` names it; None: this one.
    """
    numbers = _MACHINES.get(machine or platform.machine())
    if numbers is None:
        return None
    steps: list[Step] = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, numbers.arch), _fail(errno.EPERM)]
    steps.append((_LOAD, 0, 0, _NUMBER))
    for number in numbers.refused:
        steps += [(_EQUAL, 0, 1, number), _fail(errno.EPERM)]
    for number in _ALLOWED_NEW.values():
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    # clone3 among them: its flags are out of reach; libc then uses clone
    steps += [(_AT_LEAST, 0, 1, _FIRST_NEW), _fail(errno.ENOSYS)]
    for number in numbers.sockets:
        # Another call skips the four steps that follow.
        steps += [(_EQUAL, 0, 4, number), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
        steps += [
            (_EQUAL, 0, 1, socket.AF_UNIX),
            (_RETURN, 0, 0, _ALLOW),
            _fail(errno.EAFNOSUPPORT),
        ]
    steps += [
        (_EQUAL, 0, 3, numbers.clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
    ]
    steps += [_fail(errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    # `struct sock_filter`.
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _fail(code: int) -> Step:
    return _RETURN, 0, 0, _FAIL | code
