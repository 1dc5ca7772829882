"""All randomness of a session from where it stands in the run, so that a resumed run samples the same answers."""

from __future__ import annotations

import hashlib


def sampling_seed(base: int, *, validate: bool, step: int, index: int, session_id: int, turn: int) -> int:
    """A 63-bit seed that depends on all arguments and on nothing else (no process state, no Python hash salt)."""
    text = f"{base}/{'val' if validate else 'train'}/{step}/{index}/{session_id}/{turn}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
