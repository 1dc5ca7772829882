"""Loaded into every process of a run of `soak.py`: its wall clock goes by what a file says.

Python's clock only. Ray's own processes keep the machine's, as they do when one node's clock is
set.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_FILE = Path(os.environ["RLTF_SOAK_CLOCK"])
_time = time.time


def shifted() -> float:
    """Seconds since the epoch, plus what the file says."""
    try:
        return _time() + float(_FILE.read_text())
    except (OSError, ValueError):
        return _time()


time.time = shifted
