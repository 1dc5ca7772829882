"""Failures that cost an episode, or a part of one: each kind is logged once, with an example."""

from __future__ import annotations

import logging
import traceback

from rltf_verl.registry import described

logger = logging.getLogger(__name__)

_logged: set[tuple[str, str, str]] = set()


def log_once(what: str, where: str, error: BaseException) -> None:
    """Log one line, unless this process has logged one for the same type of error from the same
    line of code.

    Args:
        what: is lost.
        where: which episode.
        error: the cause.
    """
    cause = described(error)
    frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown place"
    # The error's type ends at the colon; messages differ from episode to episode.
    kind = (what, cause.partition(":")[0], place)
    if kind in _logged:
        return
    _logged.add(kind)
    logger.warning(
        "%s: %s: %s (%s). Later ones of this kind are counted, not logged",
        what,
        where,
        cause,
        place,
    )
