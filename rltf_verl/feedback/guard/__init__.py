"""The leak guard: does a feedback text give the answer away, and what becomes of it if so."""

from __future__ import annotations

from rltf_verl.feedback.guard.find import Leak, find_leaks
from rltf_verl.feedback.guard.provider import ACTIONS, GuardedProvider

__all__ = ["ACTIONS", "GuardedProvider", "Leak", "find_leaks"]
