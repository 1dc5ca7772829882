"""How many OpenMP threads each of Ray's processes has, and how they wait."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

THREADS = "OMP_NUM_THREADS"
QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Microseconds of CPU time per period, as `docker run --cpus` sets it."""

WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
"""Of GNU's and of Intel's OpenMP: a thread that waits for the others sleeps. By default it spins
for a while, which holds up the one that it waits for where processes share the cores.
"""


def cores(quota: Path = QUOTA) -> int:
    """Cores that this process may use: of those it may run on, what a container's quota leaves."""
    found = len(os.sched_getaffinity(0))
    if not quota.is_file():
        return found
    most, period = quota.read_text().split()
    return found if most == "max" else max(1, min(found, int(most) // int(period)))


def chosen(environment: Mapping[str, str], num_cores: int, num_ranks: int) -> dict[str, str]:
    """Variables to set; what the environment says already stays.

    One core is left to the processes that only pass rows on. Trainer and rollout of one rank take
    turns, so each gets the rank's share.

    Args:
        environment: the driver's.
        num_cores: that the run may use.
        num_ranks: that compute at the same time.

    Example:
        >>> chosen({"OMP_WAIT_POLICY": "ACTIVE"}, 8, 2)
        {'OMP_NUM_THREADS': '3', 'KMP_BLOCKTIME': '0'}
    """
    wanted = {THREADS: str(max(1, (num_cores - 1) // num_ranks)), **WAITING}
    return {name: value for name, value in wanted.items() if name not in environment}
